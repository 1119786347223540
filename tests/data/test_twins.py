"""Twins in general, and that of RCV1: the size, sparsity, correlations and difficulty of the set it stands for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from symsgd.data import TWINS, Twin, twin

CHUNK_ROWS = TWINS["rcv1"].chunk_rows
RCV1_ROWS, RCV1_FEATURES, RCV1_NONZEROS, RCV1_FREQUENT_SHARE = 781_265, 47_153, 74.71, 0.219


@pytest.fixture(scope="module")
def rcv1() -> Twin:
    return twin("rcv1", scale=0.02)


def same(a: sp.csr_matrix, b: sp.csr_matrix) -> bool:
    parts = ("data", "indices", "indptr")
    return a.shape == b.shape and all(np.array_equal(getattr(a, part), getattr(b, part)) for part in parts)


def document_frequency(X: sp.csr_matrix) -> np.ndarray:
    return np.bincount(X.indices, minlength=X.shape[1]) / X.shape[0]


def test_the_full_set_has_the_rows_and_features_of_the_paper() -> None:
    assert (TWINS["rcv1"].n_rows, TWINS["rcv1"].n_features) == (RCV1_ROWS, RCV1_FEATURES)


def test_rows_are_scaled_and_a_fifth_comes_on_top(rcv1: Twin) -> None:
    n_rows = round(0.02 * RCV1_ROWS)
    assert rcv1.name == "rcv1"
    assert rcv1.X.shape == (n_rows, RCV1_FEATURES)
    assert rcv1.X_test.shape == (round(n_rows / 5), RCV1_FEATURES)
    assert rcv1.y.shape == (n_rows,)
    assert rcv1.y_test.shape == rcv1.X_test.shape[:1]


@pytest.mark.parametrize("part", ["X", "X_test"])
def test_rows_are_sorted_unique_unit_and_typed(rcv1: Twin, part: str) -> None:
    X = getattr(rcv1, part)
    assert X.format == "csr"
    assert (X.dtype, X.indices.dtype) == (np.float32, np.int32)
    keys = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)) * X.shape[1] + X.indices
    assert (np.diff(keys) > 0).all()
    assert X.indices.min() >= 0
    assert X.indices.max() < X.shape[1]
    assert (X.data > 0).all()
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("part", ["y", "y_test"])
def test_labels_are_signs_in_the_real_proportion(rcv1: Twin, part: str) -> None:
    y = getattr(rcv1, part)
    assert y.dtype == np.int8
    assert set(np.unique(y)) == {-1, 1}
    assert np.mean(y == 1) == pytest.approx(0.47, abs=0.03)


def test_the_same_seed_gives_the_same_rows_whatever_the_global_state() -> None:
    np.random.seed(1)
    state = np.random.get_state()[1].copy()
    a = twin("rcv1", scale=0.002, seed=3)
    assert np.array_equal(np.random.get_state()[1], state)
    np.random.seed(2)
    b = twin("rcv1", scale=0.002, seed=3)
    assert same(a.X, b.X)
    assert same(a.X_test, b.X_test)
    assert np.array_equal(a.y, b.y)
    assert np.array_equal(a.y_test, b.y_test)


def test_the_seed_decides_the_rows_and_the_vocabulary(rcv1: Twin) -> None:
    other_rows, other_seed = twin("rcv1", scale=0.005), twin("rcv1", scale=0.005, seed=1)
    assert not same(other_rows.X, other_seed.X)
    frequency = document_frequency(rcv1.X)
    assert np.corrcoef(frequency, document_frequency(other_rows.X))[0, 1] > 0.95
    assert abs(np.corrcoef(frequency, document_frequency(other_seed.X))[0, 1]) < 0.1


def test_a_twin_begins_with_the_rows_of_a_smaller_one() -> None:
    small, large = (twin("criteo", scale) for scale in (0.0001, 0.03))
    assert same(small.X, large.X[:100])
    assert same(small.X_test, large.X_test[:20])
    assert np.array_equal(small.y, large.y[:100])


def test_chunks_and_parts_are_different_rows() -> None:
    data = twin("rcv1", scale=1.2 * CHUNK_ROWS / RCV1_ROWS)
    rows = sp.vstack([data.X, data.X_test], format="csr")
    fingerprints = rows @ np.random.default_rng(0).standard_normal(RCV1_FEATURES)
    assert len(np.unique(fingerprints)) == rows.shape[0] > CHUNK_ROWS


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nonzeros_and_their_frequent_share_are_those_of_the_paper(seed: int) -> None:
    """The paper's share is a mean over rows: a little above that of all nonzeros, as short rows hold frequent words."""
    X = twin("rcv1", scale=0.02, seed=seed).X
    lengths = np.diff(X.indptr)
    frequent = document_frequency(X) >= 0.1
    assert lengths.mean() == pytest.approx(RCV1_NONZEROS, rel=0.03)
    of_all_nonzeros = frequent[X.indices].mean()
    mean_over_rows = np.mean(np.add.reduceat(frequent[X.indices].astype(float), X.indptr[:-1]) / lengths)
    assert of_all_nonzeros == pytest.approx(RCV1_FREQUENT_SHARE, abs=0.02)
    assert mean_over_rows == pytest.approx(RCV1_FREQUENT_SHARE, abs=0.03)


def test_row_lengths_are_spread_as_in_the_real_set(rcv1: Twin) -> None:
    """A sample of 1,000 real rows: the logarithm of the length has standard deviation 0.69 and hardly any skew."""
    log_lengths = np.log(np.diff(rcv1.X.indptr))
    standard = (log_lengths - log_lengths.mean()) / log_lengths.std()
    assert log_lengths.std() == pytest.approx(0.69, abs=0.08)
    assert abs(np.mean(standard**3)) < 0.3


def test_features_are_correlated(rcv1: Twin) -> None:
    """Against the same nonzeros dealt out at random: 1,500 real rows have 3.6, 2.6, 2.3, ... times the energy."""
    X = rcv1.X[:1500].astype(np.float64)
    deal = np.random.default_rng(0).permutation(X.nnz)
    dealt = normalize(sp.csr_matrix((X.data[deal], X.indices[deal], X.indptr), shape=X.shape))
    energy, noise = (np.sort(svds(rows, k=4, random_state=0)[1])[::-1][1:] ** 2 for rows in (X, dealt))
    assert (energy > 2 * noise).all()
    assert (energy < 8 * noise).all()


def test_frequent_words_meet_more_often_than_by_chance(rcv1: Twin) -> None:
    """Pairs of the 200 most frequent real words: a lift of 1.39 on average, 2.16 at the 95th percentile."""
    frequency = document_frequency(rcv1.X)
    top = np.argsort(-frequency)[:200]
    present = (rcv1.X[:, top] > 0).astype(np.float32)
    together = (present.T @ present).toarray() / rcv1.X.shape[0]
    lift = (together / np.outer(frequency[top], frequency[top]))[np.triu_indices(len(top), 1)]
    assert lift.mean() == pytest.approx(1.39, abs=0.15)
    assert np.quantile(lift, 0.95) == pytest.approx(2.16, abs=0.5)


def test_a_feature_number_says_nothing_about_its_frequency(rcv1: Twin) -> None:
    frequency = document_frequency(rcv1.X)
    assert abs(np.corrcoef(np.arange(len(frequency)), frequency)[0, 1]) < 0.02


@pytest.mark.parametrize("seed", [0, 1])
def test_logistic_sgd_is_good_but_not_perfect(seed: int) -> None:
    data = twin("rcv1", scale=0.05, seed=seed)
    model = SGDClassifier(
        loss="log_loss", alpha=1e-12, learning_rate="constant", eta0=1.0, max_iter=1, tol=None, random_state=0
    ).fit(data.X, data.y)
    assert 0.955 < roc_auc_score(data.y_test, model.decision_function(data.X_test)) < 0.985


def test_one_row_is_the_least() -> None:
    data = twin("rcv1", scale=1e-9)
    assert data.X.shape == data.X_test.shape == (1, RCV1_FEATURES)


@pytest.mark.parametrize("name", ["rcv2", "", "RCV1", None, ["rcv1"]])
def test_unknown_names_list_the_known(name: object) -> None:
    with pytest.raises(ValueError, match=r"name=.*accepted are .*'rcv1'"):
        twin(name)


@pytest.mark.parametrize("scale", [0, -0.5, math.nan, math.inf])
def test_a_scale_out_of_range_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match=r"scale=.*finite number > 0"):
        twin("rcv1", scale=scale)


@pytest.mark.parametrize("scale", ["0.1", None, True])
def test_a_scale_that_is_no_number_is_refused(scale: object) -> None:
    with pytest.raises(TypeError, match=r"scale=.*not a number"):
        twin("rcv1", scale=scale)


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_a_seed_that_is_no_natural_number_is_refused(seed: object) -> None:
    with pytest.raises(ValueError, match=r"seed=.*non-negative integer"):
        twin("rcv1", scale=0.002, seed=seed)
