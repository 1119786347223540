"""Each twin has the figures of the paper's table, and the marks of the set it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score

from symsgd.bench.datasets import TWIN_SCALES
from symsgd.data import TWINS, Twin, twin


@dataclass(frozen=True)
class Original:
    """A line of the paper's table; the AUC is that of three passes over ``scale`` of the rows."""

    n_rows: int
    n_features: int
    nonzeros: float
    frequent_share: float
    positive_share: float
    scale: float
    step_size: float
    auc: tuple[float, float]


ORIGINALS = {
    "adclick": Original(499_980, 3_076, 969.38, 0.947, 0.2, 0.01, 0.3, (0.6, 0.76)),
    "epsilon": Original(400_000, 2_000, 2000.0, 1.0, 0.5, 0.02, 1.0, (0.85, 0.96)),
    "url": Original(1_677_282, 3_231_961, 111.62, 0.765, 0.33, 0.01, 3.0, (0.97, 0.9995)),
    "criteo": Original(1_000_000, 1_703_961, 33.32, 0.530, 0.256, 0.02, 0.3, (0.66, 0.79)),
    "webspam": Original(279_999, 16_609_143, 3727.75, 0.693, 0.61, 0.005, 3.0, (0.93, 0.9995)),
}
SPARSE = [name for name in ORIGINALS if name != "epsilon"]


@cache
def made(name: str) -> Twin:
    return twin(name, ORIGINALS[name].scale)


def presence(X: sp.csr_matrix) -> np.ndarray:
    """The share of rows that have each feature."""
    return np.bincount(X.indices, minlength=X.shape[1]) / X.shape[0]


def test_every_twin_is_looked_at_here_and_has_a_size_for_the_benchmarks() -> None:
    assert set(TWINS) == {"rcv1", *ORIGINALS} == set(TWIN_SCALES)


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_full_set_has_the_rows_and_features_of_the_paper(name: str) -> None:
    assert (TWINS[name].n_rows, TWINS[name].n_features) == (ORIGINALS[name].n_rows, ORIGINALS[name].n_features)


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_benchmark_trains_on_10_to_25_million_numbers(name: str) -> None:
    assert 10e6 < TWIN_SCALES[name] * ORIGINALS[name].n_rows * ORIGINALS[name].nonzeros < 25e6


@pytest.mark.parametrize("name", ORIGINALS)
def test_rows_are_unit_and_typed(name: str) -> None:
    data, original = made(name), ORIGINALS[name]
    n_rows = round(original.scale * original.n_rows)
    assert data.X.shape == (n_rows, original.n_features)
    assert data.X_test.shape == (round(n_rows / 5), original.n_features)
    for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
        assert X.dtype == np.float32
        assert y.dtype == np.int8
        assert set(np.unique(y)) == {-1, 1}
        squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.square(X).sum(axis=1)
        np.testing.assert_allclose(squares, 1.0, rtol=1e-4)


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_rows_are_sorted_and_unique(name: str) -> None:
    X = made(name).X
    assert X.format == "csr"
    assert X.indices.dtype == np.int32
    keys = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)) * X.shape[1] + X.indices
    assert (np.diff(keys) > 0).all()
    assert X.indices.min() >= 0
    assert X.indices.max() < X.shape[1]
    assert (X.data > 0).all()


@pytest.mark.parametrize("name", ORIGINALS)
def test_labels_have_the_real_proportion(name: str) -> None:
    assert np.mean(made(name).y == 1) == pytest.approx(ORIGINALS[name].positive_share, abs=0.05)


@pytest.mark.parametrize("name", SPARSE)
def test_nonzeros_and_their_frequent_share_are_those_of_the_paper(name: str) -> None:
    X, original = made(name).X, ORIGINALS[name]
    lengths = np.diff(X.indptr)
    frequent = (presence(X) >= 0.1)[X.indices]
    assert lengths.mean() == pytest.approx(original.nonzeros, rel=0.06 if name == "webspam" else 0.01)
    mean_over_rows = np.mean(np.add.reduceat(frequent.astype(float), X.indptr[:-1]) / lengths)
    assert mean_over_rows == pytest.approx(original.frequent_share, abs=0.03)


@pytest.mark.parametrize("name", ORIGINALS)
def test_logistic_sgd_is_as_good_as_few_rows_allow(name: str) -> None:
    data, original = made(name), ORIGINALS[name]
    model = SGDClassifier(
        loss="log_loss",
        alpha=1e-12,
        learning_rate="constant",
        eta0=original.step_size,
        max_iter=3,
        tol=None,
        random_state=0,
    ).fit(data.X, data.y)
    auc = roc_auc_score(data.y_test, model.decision_function(data.X_test))
    assert original.auc[0] < auc < original.auc[1]


@pytest.mark.parametrize("name", ["epsilon", "criteo"])
def test_the_same_seed_gives_the_same_rows(name: str) -> None:
    a, b = made(name), twin(name, ORIGINALS[name].scale)
    assert (a.X != b.X).sum() == 0
    assert (a.X_test != b.X_test).sum() == 0
    assert np.array_equal(a.y, b.y)


def test_another_seed_gives_another_population() -> None:
    a, b = made("criteo"), twin("criteo", ORIGINALS["criteo"].scale, seed=1)
    assert np.mean(a.y == b.y) < 0.75
    assert (a.X != b.X).sum() > 0.5 * a.X.nnz


def test_epsilon_is_dense_and_its_features_are_correlated() -> None:
    X = made("epsilon").X
    assert isinstance(X, np.ndarray)
    assert X.flags.c_contiguous
    assert (X != 0).all()
    energy = np.sort(np.linalg.eigvalsh(X[:1000] @ X[:1000].T))[::-1]
    assert energy[0] > 20 * energy[200]  # independent features: twice


def test_adclick_rows_have_one_direction_in_common() -> None:
    X = made("adclick").X
    energy = np.sort(svds(X.astype(np.float64), k=4, random_state=0)[1])[::-1] ** 2 / X.shape[0]
    assert 0.3 < energy[0] < 0.9
    assert 0.003 < energy[1] < 0.1
    assert (presence(X) > 0.98).sum() == 200


def test_criteo_rows_are_39_columns_less_the_missing_ones() -> None:
    """One value each: rows of equal numbers, at most 39, few of them complete."""
    X = made("criteo").X
    lengths = np.diff(X.indptr)
    assert lengths.max() <= 39
    assert lengths.std() < 3
    np.testing.assert_allclose(X.data, 1 / np.sqrt(np.repeat(lengths, lengths)), rtol=1e-5)


def test_criteo_has_heavy_tails() -> None:
    """Most of the features that occur in 20,000 rows occur once; 51 occur in a tenth of the rows or more."""
    share = presence(made("criteo").X)
    occurring = share[share > 0]
    assert np.mean(occurring < 1.5 / made("criteo").X.shape[0]) > 0.5
    assert 30 < (share >= 0.1).sum() < 80


def test_url_has_the_frequent_features_of_the_real_set() -> None:
    """5,000 real rows: 63 features in more than 90 % of them, 139 in more than 10 %; 12 numbers a row, else ones."""
    X = made("url").X
    share = presence(X)
    assert (share > 0.9).sum() == pytest.approx(63, abs=8)
    assert (share > 0.1).sum() == pytest.approx(139, abs=15)
    largest = np.maximum.reduceat(X.data, X.indptr[:-1])
    numbers = X.data < 0.999 * np.repeat(largest, np.diff(X.indptr))
    assert numbers.sum() / X.shape[0] == pytest.approx(12, abs=2)


def test_url_features_come_together() -> None:
    """5,000 real rows of unit length: 0.644, 0.033, 0.015, 0.009 of the energy in the leading directions."""
    X = made("url").X
    often = X[:5000, np.argsort(-presence(X))[:139]].toarray()
    energy = np.sort(np.linalg.eigvalsh(often.T @ often / len(often)))[::-1][:4]
    assert energy[0] == pytest.approx(0.644, abs=0.05)
    assert (energy[1:] > [0.012, 0.01, 0.006]).all()
    assert (energy[1:] < [0.05, 0.03, 0.02]).all()


def test_webspam_has_more_features_than_ever_occur() -> None:
    share = presence(made("webspam").X)
    assert 50_000 < (share > 0).sum() < 680_715
    assert (share >= 0.1).sum() > 5_000
