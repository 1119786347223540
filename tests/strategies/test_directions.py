"""Directions: threads share features, and the steps of a round are followed along the sharpest directions.

What it has in common with sliced is in test_by_features.py; here rows have more directions than are followed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from feature_cases import DIRECTIONS
from strategy_cases import LOSSES, flat_rows, name, targets
from symsgd import Result, SGDClassifier, losses, penalties, schedules, strategies, train
from symsgd.data import Dataset, Schema, convert
from symsgd.data import open as open_store
from symsgd.strategies import Directions, Sliced

both_layouts = pytest.mark.parametrize("laid_out", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])


@pytest.fixture(autouse=True)
def _as_many_cores_as_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all of them run, on whatever machine this is."""
    monkeypatch.setattr(strategies, "available_cores", lambda: 16)


def rows(count: int, features: int, seed: int = 0, dtype: str = "f8") -> Any:
    """Rows that lie in all directions, some of them sharper."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, features)) * np.linspace(3, 0.2, features) / np.sqrt(2 * features)).astype(
        dtype
    )


def distance(found: Result, wanted: Result) -> float:
    return float(np.linalg.norm(found.coef - wanted.coef) / np.linalg.norm(wanted.coef))


def test_more_features_than_directions_look_at() -> None:
    X = flat_rows(200, 5_000, dtype="f4")
    X[:, 4_096:] = 0
    DIRECTIONS[0].compare(X, targets(X, losses.LogLoss()), 3, 1e-3, schedule=schedules.Constant(0.2))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_the_measured_error_is_about_that_of_the_model(loss: Any) -> None:
    X = rows(4_000, 500)
    y = targets(X, loss)
    case = {"loss": loss, "schedule": schedules.Constant(0.1), "n_passes": 3}
    sequential = train(X, y, strategy="sequential", **case)
    p = X @ sequential.coef.T
    jumps = loss.name in (
        "hinge",
        "perceptron",
        "epsilon_insensitive",
        "one_class",
    )  # where a little is enough to part two runs
    found = {}
    for block_size in (32, 256):
        result = train(X, y, strategy=Directions(16, block_size), n_threads=3, **case)
        found[block_size] = result.passes[-1].error
        off = np.std(X @ result.coef.T - p) / np.std(p)
        assert result.passes[-1].error is not None
        assert off < (8 if jumps else 3) * result.passes[-1].error + 1e-9
        assert off > result.passes[-1].error / 20 or off < 1e-3
    assert found[32] < found[256] or found[256] == 0


def test_rounds_are_as_large_as_the_error_allows() -> None:
    X = rows(20_000, 500, dtype="f4")
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.3), "n_passes": 3}
    sequential = train(X, y, strategy="sequential", **case)
    found = [train(X, y, strategy=Directions(tolerance=t), n_threads=8, **case) for t in (0.008, 0.05)]
    assert found[0].passes[-1].mean_block < found[1].passes[-1].mean_block
    for tolerance, result in zip((0.008, 0.05), found, strict=True):
        assert 0 < result.passes[0].rows_alone < 20_000  # the first rows, at least
        assert result.passes[-1].rank == 32
        assert result.passes[-1].error < 2 * tolerance
        assert distance(result, sequential) < 2 * tolerance


def test_numbers_of_threads_differ_by_rounding_alone() -> None:
    X = rows(3_000, 700)
    y = targets(X, losses.LogLoss())
    case = {"strategy": Directions(block_size=64), "n_passes": 2, "schedule": schedules.Constant(0.3)}
    first, *others = (train(X, y, n_threads=n_threads, **case) for n_threads in (2, 3, 7))
    for other in others:
        assert distance(other, first) < 1e-9


def _heavy_tails(rng: Any, X: Any) -> None:
    X *= rng.pareto(2.5, len(X))[:, None]


def _a_rare_feature_with_large_values(rng: Any, X: Any) -> None:
    X[:, 0] = np.where(rng.random(len(X)) < 0.02, 8.0, 0.0)


def _sorted_without_shuffling(rng: Any, X: Any) -> None:
    X[:] = X[np.argsort(X[:, 0])]


def _duplicates(rng: Any, X: Any) -> None:
    X[:] = X[rng.integers(0, 40, len(X))]


def _one_feature_much_larger(rng: Any, X: Any) -> None:
    X[:, 3] *= 30


@both_layouts
@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "hinge"])
@pytest.mark.parametrize(
    "harder",
    [_heavy_tails, _a_rare_feature_with_large_values, _sorted_without_shuffling, _duplicates, _one_feature_much_larger],
)
@pytest.mark.parametrize("block_size", ["auto", 1024])
def test_hard_data_ends_no_worse_than_sequential(harder: Any, loss: str, laid_out: Any, block_size: Any) -> None:
    rng = np.random.default_rng(3)
    X = rows(4_000, 300)
    y = X @ rng.standard_normal(300)
    harder(rng, X)
    y = y if loss == "squared_error" else np.sign(y)
    # near the largest step size at which the sequential run settles
    step = schedules.Constant(0.3 / np.percentile((X**2).sum(1), 99))
    case = {"loss": loss, "schedule": step, "n_passes": 4, "shuffle": harder is not _sorted_without_shuffling}
    X = laid_out(X)
    sequential = train(X, y, strategy="sequential", **case)
    found = train(X, y, strategy=Directions(block_size=block_size), n_threads=5, **case)
    worse = 1.1 if block_size == "auto" else 2.0  # those of a given size are the caller's choice
    assert found.passes[-1].loss <= worse * sequential.passes[-1].loss + 1e-6


def test_a_stretch_that_does_harm_is_undone() -> None:
    """Steps that would be fine one after the other, and are far too long for many at once."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6_000, 300)) / 20
    X[:, 0] = np.where(rng.random(6_000) < 0.05, 10.0, 0.0)  # too rare to be among the sharpest directions
    X[:, 1:40] *= 12
    y = X @ rng.standard_normal(300)
    case = {"loss": "squared_error", "schedule": schedules.Constant(0.008), "n_passes": 2}
    sequential = train(X, y, strategy="sequential", **case)
    found = train(X, y, strategy=Directions(16, 2048), n_threads=3, **case)
    assert np.isfinite(found.coef).all()
    assert sum(record.caught for record in found.passes) > 0
    assert found.passes[-1].loss <= 2 * sequential.passes[-1].loss  # the caller's choice of rows
    assert (
        train(X, y, strategy=Directions(16), n_threads=3, **case).passes[-1].loss <= 1.05 * sequential.passes[-1].loss
    )


def test_sparse_rows_in_a_file_are_refused(tmp_path: Path) -> None:
    X = sp.csr_matrix(rows(300, 200))
    convert(Dataset(X, np.arange(300) % 2, None, Schema("matrix", 200)), tmp_path / "rows.store")
    with pytest.raises(ValueError, match="strategy='directions' keeps a copy of sparse rows, and X is in a file"):
        train(open_store(tmp_path / "rows.store"), strategy="directions", n_threads=2)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_a_feature_that_a_row_has_twice_is_one(loss: str) -> None:
    """|x|² is what a step does to its own row, and what the objective follows the norm by."""
    rng = np.random.default_rng(3)
    columns = rng.integers(0, 60, (400, 12))
    X = sp.csr_matrix((rng.standard_normal(4_800), columns.ravel(), np.arange(0, 4_801, 12)), shape=(400, 60))
    once = X.copy()
    once.sum_duplicates()
    assert once.nnz < X.nnz
    y = np.asarray(once @ rng.standard_normal(60)).ravel() > 0
    choices: dict[str, Any] = {
        "loss": loss, "schedule": schedules.Constant(0.01), "tol": 1e-9, "n_passes": 4, "n_threads": 3,
        "strategy": Directions(rank=8, block_size=32),
    }  # fmt: skip
    found, wanted = (train(rows, y, **choices) for rows in (X, once))
    assert_array_equal(found.coef, wanted.coef)
    assert [record.objective for record in found.passes] == [record.objective for record in wanted.passes]


def test_features_that_no_row_of_the_sample_has() -> None:
    """Most of a hundred thousand features are in one row or none: their places follow from their numbers."""
    rng = np.random.default_rng(0)
    often, seldom = sp.csr_matrix(flat_rows(4_000, 20)), sp.random(4_000, 100_000, 5e-6, "csr", random_state=0)
    X = sp.hstack([seldom[:, :50_000], often, seldom[:, 50_000:]], "csr")
    y = np.sign(X @ rng.standard_normal(X.shape[1]))
    for n_threads in (2, 7):
        found, wanted = DIRECTIONS[1].both(
            X, y, n_threads, schedule=schedules.Constant(0.3), penalty=penalties.L2(1e-4)
        )
        assert distance(found, wanted) < 1e-3
        assert_array_equal(found.coef == 0, wanted.coef == 0)


def test_auto_takes_it_for_long_dense_rows_on_several_threads() -> None:
    X = rows(3_000, 2_000, dtype="f4")
    y = targets(X, losses.LogLoss())
    found = train(X, y, n_threads=4, n_passes=10)
    assert found.strategy.startswith("directions: 4 threads share the 2,000 features of dense rows")
    assert found.passes[-1].rank == 32
    assert "directions: 3 threads" in train(X[:, :512].copy(), y, n_threads=3, n_passes=40).strategy
    assert "directions" not in train(X, y, n_threads=4, n_passes=10, penalty="l1").strategy
    assert "directions" in SGDClassifier(n_jobs=4, max_iter=10, tol=None).fit(X, y).result_.strategy


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"rank": 0}, r"rank=0 is not accepted; it must be 'auto' or an integer >= 1"),
        ({"rank": 1_000}, r"rank=1000 is not accepted; it must be 'auto' or an integer >= 1 and <= 256"),
        ({"rank": "many"}, "rank='many' is not accepted"),
        ({"block_size": 16}, r"block_size=16 is not accepted; it must be 'auto' or an integer >= 32"),
        ({"block_size": 8_192}, r"block_size=8192 is not accepted; it must be 'auto' or an integer >= 32 and <= 4096"),
        ({"block_size": 64.0}, r"block_size=64.0 is not accepted"),
        ({"tolerance": 0.0}, "tolerance=0.0 is not accepted"),
    ],
)
def test_choices(choice: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Directions(**choice)
    assert Directions() != Sliced()
    assert Directions(16) != Directions()
