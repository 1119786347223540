"""Directions: threads share features, and the steps of a round are followed along the sharpest directions.

Rows that lie in fewer directions than are followed have nothing outside of them: there the model is the sequential one
to rounding, whatever the rows of a round, and every loss, schedule and penalty can be compared with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategy_cases import LOSSES, PASSIVE_AGGRESSIVE, SCHEDULES, name, targets, weights
from symsgd import (
    DivergenceError,
    EarlyStopping,
    Result,
    SGDClassifier,
    losses,
    penalties,
    schedules,
    strategies,
    train,
)
from symsgd.data import Dataset, Schema, convert
from symsgd.data import open as open_store
from symsgd.strategies import Directions, Sliced

THREADS = [2, 3, 5, 16]
RANK = 32


both_layouts = pytest.mark.parametrize("laid_out", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])


@pytest.fixture(autouse=True)
def _as_many_cores_as_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all of them run, on whatever machine this is."""
    monkeypatch.setattr(strategies, "available_cores", lambda: 16)


def flat_rows(count: int = 300, features: int = 150, seed: int = 0, dtype: str = "f8", rank: int = 20) -> Any:
    """Rows that lie in `rank` directions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, features))
    return (X / np.sqrt(rank * features)).astype(dtype)


def rows(count: int, features: int, seed: int = 0, dtype: str = "f8") -> Any:
    """Rows that lie in all directions, some of them sharper."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, features)) * np.linspace(3, 0.2, features) / np.sqrt(2 * features)).astype(
        dtype
    )


def both(X: Any, y: Any, n_threads: int, block_size: Any = 32, **case: Any) -> tuple[Result, Result]:
    case = {"n_passes": 3, "seed": 1, **case}
    sequential = train(X, y, strategy="sequential", n_threads=1, **case)
    return train(X, y, strategy=Directions(RANK, block_size), n_threads=n_threads, **case), sequential


def assert_same(found: Result, wanted: Result, rtol: float = 1e-7) -> None:
    largest = np.abs(wanted.coef).max()
    assert largest > 0
    assert_allclose(found.coef, wanted.coef, rtol=rtol, atol=rtol * largest)
    assert_allclose(found.intercept, wanted.intercept, rtol=rtol, atol=rtol)
    assert (found.t, found.n_passes, found.converged) == (wanted.t, wanted.n_passes, wanted.converged)
    for one, other in zip(found.passes, wanted.passes, strict=True):
        assert one.rows == other.rows
        assert one.loss == pytest.approx(other.loss, rel=rtol, abs=rtol)


def distance(found: Result, wanted: Result) -> float:
    return float(np.linalg.norm(found.coef - wanted.coef) / np.linalg.norm(wanted.coef))


def followed(result: Result) -> int:
    """Rows that were trained in rounds."""
    return sum(record.rows - record.rows_alone for record in result.passes)


@both_layouts
@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_every_loss(loss: Any, n_threads: int, laid_out: Any) -> None:
    X = flat_rows(features=600)
    case = {"loss": loss, "penalty": penalties.L2(0.05), "schedule": schedules.Constant(0.15)}
    found, wanted = both(laid_out(X), targets(X, loss), n_threads, sample_weight=weights(len(X)), **case)
    assert_same(found, wanted)
    assert followed(found) >= 300


@pytest.mark.parametrize("schedule", [*SCHEDULES, *PASSIVE_AGGRESSIVE, schedules.Adaptive(0.2)], ids=repr)
@pytest.mark.parametrize("penalty", [penalties.NoPenalty(), penalties.L2(0.05)], ids=name)
def test_every_schedule(schedule: Any, penalty: Any) -> None:
    X = flat_rows()
    loss = losses.Hinge() if schedule.passive_aggressive else losses.LogLoss()
    case = {"loss": loss, "penalty": penalty, "schedule": schedule, "fit_intercept": penalty.name == "l2"}
    assert_same(*both(X, targets(X, loss), 2, **case))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 300), features=st.integers(1, 400), n_threads=st.integers(1, 9), single=st.booleans(),
    block_size=st.sampled_from([32, 33, 64, 100, "auto"]), order=st.sampled_from([True, False, "full"]),
    sparse=st.booleans(),
)  # fmt: skip
def test_every_shape(
    count: int, features: int, n_threads: int, block_size: Any, single: bool, order: Any, sparse: bool
) -> None:
    """Rounds that are not full, rows too short for all threads, features that do not fill the last line."""
    X = flat_rows(count + 1, features, dtype="f4" if single else "f8")
    y = np.r_[1, targets(X[1:], losses.LogLoss())]
    y[1] = -1
    X = sp.csr_matrix(X) if sparse else X
    found, wanted = both(X, y, n_threads, block_size, schedule=schedules.Constant(0.3), shuffle=order)
    assert_same(found, wanted, 1e-2 if single else 1e-7)


@both_layouts
@pytest.mark.parametrize("classes", [3, 5, 9, 20])
def test_several_classes(classes: int, laid_out: Any) -> None:
    X = flat_rows(400)
    y = np.argmax(X @ np.random.default_rng(1).standard_normal((150, classes)), axis=1)
    weights_ = np.linspace(0.5, 2, len(np.unique(y)))
    case = {"penalty": penalties.L2(1e-3), "schedule": schedules.Constant(0.2), "class_weight": weights_}
    assert_same(*both(laid_out(X), y, 2, **case))


@both_layouts
def test_weights_that_decay_by_orders_of_magnitude_in_a_round(laid_out: Any) -> None:
    """The scale is made 1 again in the middle of it: weights, scores, steps and what V has moved by follow."""
    X = flat_rows(500, dtype="f4")
    case = {"penalty": penalties.L2(0.9), "schedule": schedules.Constant(0.9)}
    for block_size in (32, 64):
        assert_same(*both(laid_out(X), targets(X, losses.LogLoss()), 2, block_size, **case), rtol=1e-3)
        assert_same(*both(laid_out(X), np.arange(500) % 3, 2, block_size, **case), rtol=1e-3)


def test_held_out_rows_tolerances_and_objectives() -> None:
    X = flat_rows(600)
    y = targets(X, losses.LogLoss())
    held = np.arange(600) % 5 == 0
    case = {"schedule": schedules.Constant(0.3), "penalty": penalties.L2(1e-3), "tol": 1e-3, "n_passes": 50}
    assert_same(*both(X, y, 2, early_stopping=EarlyStopping(held), patience=2, **case))
    found, wanted = both(X, y, 2, patience=2, **case)
    assert_same(found, wanted)
    assert found.n_passes < 50  # stopped by the objective, which has the norm of the weights at every step
    for one, other in zip(found.passes, wanted.passes, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-6)


def test_rows_without_features_are_passed_over_by_pa1() -> None:
    X = flat_rows(200)
    X[::7] = 0
    case = {"loss": "hinge", "schedule": schedules.PassiveAggressive1(0.3), "penalty": penalties.L2(0.01)}
    found, wanted = both(X, targets(X, losses.Hinge()), 2, **case)
    assert_same(found, wanted)
    assert found.t < 1 + 3 * 200


def test_more_features_than_directions_look_at() -> None:
    X = flat_rows(200, 5_000, dtype="f4")
    X[:, 4_096:] = 0
    assert_same(*both(X, targets(X, losses.LogLoss()), 3, schedule=schedules.Constant(0.2)), rtol=1e-3)


# ---- rows that have more directions than are followed


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


@both_layouts
@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_same_bits_in_every_run(n_threads: int, dtype: str, laid_out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(3_000, 700, dtype=dtype)
    y = targets(X, losses.LogLoss())
    X = laid_out(X)
    case = {"n_threads": n_threads, "strategy": Directions(), "n_passes": 2, "schedule": schedules.Constant(0.3)}
    first, *others = (train(X, y, **case) for _ in range(3))
    for cores in (1, 2):  # which have the slices of several threads
        monkeypatch.setattr(strategies, "available_cores", lambda cores=cores: cores)
        others.append(train(X, y, **case))
    for other in others:
        assert_array_equal(first.coef, other.coef)
        assert first.passes[-1].loss == other.passes[-1].loss


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


@both_layouts
def test_checkpoints_and_going_on(tmp_path: Path, laid_out: Any) -> None:
    X = rows(3_000, 300)
    y = targets(X, losses.LogLoss())
    X = laid_out(X)
    case = {"strategy": Directions(), "n_threads": 4, "schedule": schedules.Constant(0.2), "n_passes": 4}
    whole = train(X, y, **case)

    class CutError(Exception):
        pass

    def cut(record: Any) -> None:
        if record.number == 2:
            raise CutError

    with pytest.raises(CutError):
        train(X, y, **case, checkpoint=tmp_path / "a.ckpt", callbacks=cut)
    assert_array_equal(train(X, y, **case, checkpoint=tmp_path / "a.ckpt").coef, whole.coef)


def test_a_callback_ends_it() -> None:
    X = rows(500, 150)
    y = targets(X, losses.LogLoss())
    assert train(X, y, strategy="directions", n_threads=3, n_passes=9, callbacks=lambda _: True).n_passes == 1


def test_going_on_from_a_model() -> None:
    X = flat_rows(400)
    for y in (targets(X, losses.LogLoss()), np.arange(400) % 3):
        before = train(X, y, strategy="sequential", schedule=schedules.Constant(0.2), n_passes=1)
        assert_same(*both(X, y, 2, init=before, schedule=schedules.Constant(0.2)))


def test_partial_fits() -> None:
    X = flat_rows(400)
    y = np.arange(400) % 3
    directions, sequential = (
        SGDClassifier("log_loss", strategy=strategy, n_jobs=2, random_state=0)
        for strategy in (Directions(RANK, 32), "sequential")
    )
    for part in (slice(0, 150), slice(150, 151), slice(151, 400)):
        for model in (directions, sequential):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert_allclose(directions.coef_, sequential.coef_, rtol=1e-6)
    assert directions.t_ == sequential.t_ == 401


@both_layouts
def test_classes_that_stop_one_after_the_other(laid_out: Any) -> None:
    X = flat_rows(500, 200)
    y = np.argmax(X @ np.random.default_rng(1).standard_normal((200, 9)) * np.linspace(0.2, 3, 9), axis=1)
    case = {"schedule": schedules.Constant(0.3), "tol": 1e-2, "patience": 1, "n_passes": 60}
    found, wanted = both(laid_out(X), y, 3, **case)
    assert_same(found, wanted)
    assert 1 < found.n_passes < 60


@pytest.mark.parametrize("order", [True, False, "full", "blocks"])
def test_rows_in_a_file(tmp_path: Path, order: Any) -> None:
    X, y = rows(3_000, 200, dtype="f4"), np.arange(3_000) % 2
    np.save(tmp_path / "X.npy", X)
    case = {"strategy": "directions", "n_threads": 3, "n_passes": 2, "shuffle": order}
    found = train(np.load(tmp_path / "X.npy", mmap_mode="r"), y, schedule=schedules.Constant(0.1), **case)
    assert_array_equal(found.coef, train(X, y, schedule=schedules.Constant(0.1), **case).coef)


def test_sparse_rows_in_a_file_are_refused(tmp_path: Path) -> None:
    X = sp.csr_matrix(rows(300, 200))
    convert(Dataset(X, np.arange(300) % 2, None, Schema("matrix", 200)), tmp_path / "rows.store")
    with pytest.raises(ValueError, match="strategy='directions' keeps a copy of sparse rows, and X is in a file"):
        train(open_store(tmp_path / "rows.store"), strategy="directions", n_threads=2)


def test_features_that_no_row_of_the_sample_has() -> None:
    """Most of a hundred thousand features are in one row or none: their places follow from their numbers."""
    rng = np.random.default_rng(0)
    often, seldom = sp.csr_matrix(flat_rows(4_000, 20)), sp.random(4_000, 100_000, 5e-6, "csr", random_state=0)
    X = sp.hstack([seldom[:, :50_000], often, seldom[:, 50_000:]], "csr")
    y = np.sign(X @ rng.standard_normal(X.shape[1]))
    for n_threads in (2, 7):
        found, wanted = both(X, y, n_threads, schedule=schedules.Constant(0.3), penalty=penalties.L2(1e-4))
        assert distance(found, wanted) < 1e-3
        assert_array_equal(found.coef == 0, wanted.coef == 0)


def test_divergence_carries_the_last_finite_model() -> None:
    X = rows(500, 200)
    case = {"loss": "squared_error", "schedule": schedules.Constant(1e200), "n_threads": 3}
    for strategy in (Directions(), Directions(block_size=64)):
        with pytest.raises(DivergenceError) as caught:
            train(X, X[:, 0], strategy=strategy, **case)
        assert np.isfinite(caught.value.result.coef).all()


def test_rows_whose_squares_overflow_are_an_error() -> None:
    X = rows(200, 200, dtype="f4")
    X[170] *= np.float32(1e21)
    with pytest.raises(ValueError, match="the square of its length is no number of its type"):
        train(X, np.arange(200) % 2, strategy=Directions(block_size=32), n_threads=3)


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
    ("change", "message"),
    [
        ({"penalty": "l1"}, "strategy='directions' does not work with penalty='l1'"),
        ({"penalty": penalties.Lasso(0.1)}, "strategy='directions' does not work with penalty='lasso'"),
        ({"average": True}, "strategy='directions' does not work with average"),
    ],
)
def test_what_it_does_not_train_is_refused(change: Any, message: str) -> None:
    change = {"X": rows(20, 5), **change}
    with pytest.raises(ValueError, match=message):
        train(change.pop("X"), np.arange(20) % 2, strategy="directions", **change)


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
