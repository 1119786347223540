"""Sliced: threads share the features of dense rows, and the model is the sequential one to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategy_cases import LOSSES, PASSIVE_AGGRESSIVE, SCHEDULES, name, targets, weights
from symsgd import DivergenceError, EarlyStopping, Result, SGDClassifier, losses, penalties, schedules, train
from symsgd.strategies import MapReduce, Sequential, Sliced

THREADS = [2, 3, 5, 16]


def rows(count: int = 300, features: int = 150, seed: int = 0, dtype: str = "f8") -> Any:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, features)) / np.sqrt(features)).astype(dtype)


def both(X: Any, y: Any, n_threads: int, block_size: Any = "auto", **case: Any) -> tuple[Result, Result]:
    case = {"n_passes": 3, "seed": 1, **case}
    sequential = train(X, y, strategy="sequential", n_threads=1, **case)
    return train(X, y, strategy=Sliced(block_size), n_threads=n_threads, **case), sequential


def assert_same(found: Result, wanted: Result, rtol: float = 1e-9) -> None:
    largest = np.abs(wanted.coef).max()
    assert largest > 0
    assert_allclose(found.coef, wanted.coef, rtol=rtol, atol=rtol * largest)
    assert_allclose(found.intercept, wanted.intercept, rtol=rtol, atol=rtol)
    assert (found.t, found.n_passes, found.converged) == (wanted.t, wanted.n_passes, wanted.converged)
    for one, other in zip(found.passes, wanted.passes, strict=True):
        assert one.rows == other.rows
        assert one.loss == pytest.approx(other.loss, rel=rtol, abs=rtol)


@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_every_loss(loss: Any, n_threads: int) -> None:
    X = rows(features=600)
    case = {"loss": loss, "penalty": penalties.L2(0.05), "schedule": schedules.Constant(0.15)}
    assert_same(*both(X, targets(X, loss), n_threads, sample_weight=weights(len(X)), **case))


@pytest.mark.parametrize("schedule", [*SCHEDULES, *PASSIVE_AGGRESSIVE, schedules.Adaptive(0.2)], ids=repr)
@pytest.mark.parametrize("penalty", [penalties.NoPenalty(), penalties.L2(0.05)], ids=name)
def test_every_schedule(schedule: Any, penalty: Any) -> None:
    X = rows()
    loss = losses.Hinge() if schedule.passive_aggressive else losses.LogLoss()
    case = {"loss": loss, "penalty": penalty, "schedule": schedule, "fit_intercept": penalty.name == "l2"}
    assert_same(*both(X, targets(X, loss), 3, **case))


@given(
    count=st.integers(1, 200), features=st.integers(1, 400), n_threads=st.integers(1, 9), single=st.booleans(),
    block_size=st.sampled_from([8, 16, 24, 32, 48, 64]), order=st.sampled_from([True, False, "full"]),
)  # fmt: skip
def test_every_shape(count: int, features: int, n_threads: int, block_size: int, single: bool, order: Any) -> None:
    """Blocks that are not full, rows too short for all threads, features that do not fill the last line."""
    X = rows(count + 1, features, dtype="f4" if single else "f8")
    y = np.r_[1, targets(X[1:], losses.LogLoss())]
    y[1] = -1
    found, wanted = both(X, y, n_threads, block_size, schedule=schedules.Constant(0.3), shuffle=order)
    assert_same(found, wanted, 1e-3 if single else 1e-9)


@pytest.mark.parametrize("classes", [3, 5, 9, 20])
def test_several_classes(classes: int) -> None:
    X = rows(400)
    y = np.argmax(X @ np.random.default_rng(1).standard_normal((150, classes)), axis=1)
    weights_ = np.linspace(0.5, 2, len(np.unique(y)))
    case = {"penalty": penalties.L2(1e-3), "schedule": schedules.Constant(0.2), "class_weight": weights_}
    assert_same(*both(X, y, 4, **case))


def test_weights_that_decay_by_orders_of_magnitude_in_a_block() -> None:
    """The scale is made 1 again in the middle of it: what is kept of weights, predictions and steps follows."""
    X = rows(500, dtype="f4")
    case = {"penalty": penalties.L2(0.9), "schedule": schedules.Constant(0.9)}
    for block_size in (8, 64):
        assert_same(*both(X, targets(X, losses.LogLoss()), 4, block_size, **case), rtol=1e-3)
        many = np.arange(500) % 3
        assert_same(*both(X, many, 4, block_size, **case), rtol=1e-3)


def test_steps_that_leave_nothing_of_the_weights() -> None:
    X = rows(200)
    case = {"penalty": penalties.L2(2.0), "schedule": schedules.InvScaling(1.0, power=0.5)}
    assert_same(*both(X, targets(X, losses.LogLoss()), 4, **case))


def test_held_out_rows_tolerances_and_objectives() -> None:
    X = rows(600)
    y = targets(X, losses.LogLoss())
    held = np.arange(600) % 5 == 0
    case = {"schedule": schedules.Constant(0.3), "penalty": penalties.L2(1e-3), "tol": 1e-3, "n_passes": 50}
    assert_same(*both(X, y, 4, early_stopping=EarlyStopping(held), patience=2, **case))
    found, wanted = both(X, y, 4, patience=2, **case)
    assert_same(found, wanted)
    assert found.n_passes < 50  # stopped by the objective, which has the norm of the weights at every step
    for one, other in zip(found.passes, wanted.passes, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-9)


def test_rows_without_features_are_passed_over_by_pa1() -> None:
    X = rows(200)
    X[::7] = 0
    case = {"loss": "hinge", "schedule": schedules.PassiveAggressive1(0.3), "penalty": penalties.L2(0.01)}
    found, wanted = both(X, targets(X, losses.Hinge()), 4, **case)
    assert_same(found, wanted)
    assert found.t < 1 + 3 * 200


@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_same_bits_in_every_run(n_threads: int, dtype: str) -> None:
    X = rows(2_000, 700, dtype=dtype)
    y = targets(X, losses.LogLoss())
    case = {"n_threads": n_threads, "strategy": Sliced(), "n_passes": 2, "schedule": schedules.Constant(0.3)}
    first, *others = (train(X, y, **case) for _ in range(4))
    for other in others:
        assert_array_equal(first.coef, other.coef)
        assert first.passes[-1].loss == other.passes[-1].loss


def test_checkpoints_and_going_on(tmp_path: Path) -> None:
    X = rows(500)
    y = targets(X, losses.LogLoss())
    case = {"strategy": Sliced(), "n_threads": 4, "schedule": schedules.Constant(0.2), "n_passes": 4}
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
    X = rows(500)
    found = train(X, targets(X, losses.LogLoss()), strategy="sliced", n_threads=3, n_passes=9, callbacks=lambda _: True)
    assert found.n_passes == 1


def test_going_on_from_a_model() -> None:
    X = rows(400)
    for y in (targets(X, losses.LogLoss()), np.arange(400) % 3):
        before = train(X, y, strategy="sequential", schedule=schedules.Constant(0.2), n_passes=1)
        assert_same(*both(X, y, 4, init=before, schedule=schedules.Constant(0.2)))


def test_partial_fits() -> None:
    X = rows(400)
    y = np.arange(400) % 3
    sliced, sequential = (
        SGDClassifier("log_loss", strategy=strategy, n_jobs=4, random_state=0) for strategy in ("sliced", "sequential")
    )
    for part in (slice(0, 150), slice(150, 151), slice(151, 400)):
        for model in (sliced, sequential):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert_allclose(sliced.coef_, sequential.coef_, rtol=1e-9)
    assert sliced.t_ == sequential.t_ == 401


def test_classes_that_stop_one_after_the_other() -> None:
    X = rows(500, 200)
    y = np.argmax(X @ np.random.default_rng(1).standard_normal((200, 9)) * np.linspace(0.2, 3, 9), axis=1)
    case = {"schedule": schedules.Constant(0.3), "tol": 1e-2, "patience": 1, "n_passes": 60}
    found, wanted = both(X, y, 4, **case)
    assert_same(found, wanted)
    assert 1 < found.n_passes < 60


@pytest.mark.parametrize("order", [True, False, "full", "blocks"])
def test_rows_in_a_file(tmp_path: Path, order: Any) -> None:
    X, y = rows(3_000, dtype="f4"), np.arange(3_000) % 2
    np.save(tmp_path / "X.npy", X)
    case = {"strategy": "sliced", "n_threads": 3, "n_passes": 2, "shuffle": order, "schedule": schedules.Constant(0.1)}
    found = train(np.load(tmp_path / "X.npy", mmap_mode="r"), y, **case)
    assert_array_equal(found.coef, train(X, y, **case).coef)


def test_divergence_carries_the_last_finite_model() -> None:
    X = rows(500)
    case = {"loss": "squared_error", "schedule": schedules.Constant(1e200), "strategy": "sliced", "n_threads": 3}
    with pytest.raises(DivergenceError) as caught:
        train(X, X[:, 0], **case)
    assert np.isfinite(caught.value.result.coef).all()


def test_rows_whose_squares_overflow_are_an_error() -> None:
    X = rows(100, 200, dtype="f4")
    X[70] *= np.float32(1e21)
    with pytest.raises(ValueError, match="the square of its length is no number of its type"):
        train(X, np.arange(100) % 2, strategy="sliced", n_threads=3)


def test_auto_takes_it_for_long_dense_rows() -> None:
    X = rows(3_000, 2_000, dtype="f4")
    y = targets(X, losses.LogLoss())
    case = {"n_threads": 2, "n_passes": 10}
    found = train(X, y, **case)
    assert found.strategy.startswith("sliced, which makes the sequential run's steps: 2 threads share the 2,000")
    short = np.ascontiguousarray(np.tile(X[:, :100], (20, 1)))
    assert "mr-symsgd" in train(short, np.tile(y, 20), **case).strategy
    assert "mr-symsgd" in train(X, y, **case, average=True).strategy
    assert "mr-symsgd" in train(X, y, **case, penalty="l1").strategy
    twice = np.tile(X, (5, 1))
    assert "sliced" in train(twice, np.tile(y, 5), n_threads=4, n_passes=2).strategy
    assert "sliced" in SGDClassifier(n_jobs=2, max_iter=10, tol=None).fit(X, y).result_.strategy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": "l1"}, "strategy='sliced' does not work with penalty='l1'"),
        ({"penalty": penalties.Lasso(0.1)}, "strategy='sliced' does not work with penalty='lasso'"),
        ({"average": True}, "strategy='sliced' does not work with average"),
        ({"X": sp.csr_matrix(rows(20))}, "strategy='sliced' cuts rows by their features, and X is sparse"),
    ],
)
def test_what_it_does_not_train_is_refused(change: Any, message: str) -> None:
    X = change.pop("X", rows(20))
    with pytest.raises(ValueError, match=message):
        train(X, np.arange(20) % 2, strategy="sliced", **change)


@pytest.mark.parametrize("block_size", [0, 4, 17, 128, 16.0, None, "16"])
def test_block_sizes(block_size: Any) -> None:
    with pytest.raises(ValueError, match=r"block_size=.* is not accepted; it must be 'auto', 8, 16, 24, 32, 48 or 64"):
        Sliced(block_size)
    assert Sliced() != Sliced(16)
    assert Sequential() != Sliced()
    assert MapReduce() != Sliced()
