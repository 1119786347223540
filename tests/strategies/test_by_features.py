"""Threads that share features, not rows: what sliced and directions have in common.

Sliced makes the sequential run's steps. So does directions on rows that lie in fewer directions than it follows, since
nothing is outside of them. Both are compared with the sequential model to rounding, on dense rows and on sparse ones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from feature_cases import DIRECTIONS, SLICED, Kind
from strategy_cases import LOSSES, PASSIVE_AGGRESSIVE, SCHEDULES, flat_rows, name, targets, weights
from symsgd import (
    DivergenceError,
    EarlyStopping,
    SGDClassifier,
    losses,
    penalties,
    schedules,
    strategies,
    train,
)
from symsgd.strategies import Directions, Sliced

THREADS = [2, 3, 5, 16]
LOG_LOSS = losses.LogLoss()


every_kind = pytest.mark.parametrize("kind", [SLICED, *DIRECTIONS], ids=["sliced", "directions", "directions, sparse"])
on_dense_rows = pytest.mark.parametrize("kind", [SLICED, DIRECTIONS[0]], ids=["sliced", "directions"])


@pytest.fixture(autouse=True)
def _as_many_cores_as_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all of them run, on whatever machine this is."""
    monkeypatch.setattr(strategies, "available_cores", lambda: 16)


@every_kind
@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_every_loss(loss: Any, n_threads: int, kind: Kind) -> None:
    X = flat_rows(features=600)
    case = {"loss": loss, "penalty": penalties.L2(0.05), "schedule": schedules.Constant(0.15)}
    found = kind.compare(X, targets(X, loss), n_threads, sample_weight=weights(len(X)), **case)
    alone = sum(record.rows_alone for record in found.passes)
    assert alone <= 3 * 300 / 2  # or there would be nothing to compare


@every_kind
@pytest.mark.parametrize("schedule", [*SCHEDULES, *PASSIVE_AGGRESSIVE, schedules.Adaptive(0.2)], ids=repr)
@pytest.mark.parametrize("penalty", [penalties.NoPenalty(), penalties.L2(0.05)], ids=name)
def test_every_schedule(schedule: Any, penalty: Any, kind: Kind) -> None:
    X = flat_rows()
    loss = losses.Hinge() if schedule.passive_aggressive else LOG_LOSS
    case = {"loss": loss, "penalty": penalty, "schedule": schedule, "fit_intercept": penalty.name == "l2"}
    kind.compare(X, targets(X, loss), 3, **case)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 300), features=st.integers(1, 400), n_threads=st.integers(1, 9), single=st.booleans(),
    order=st.sampled_from([True, False, "full"]),
    kind=st.sampled_from([
        *(replace(SLICED, strategy=Sliced(block_size)) for block_size in (8, 16, 24, 32, 48, 64)),
        *(replace(each, strategy=Directions(32, rows)) for each in DIRECTIONS for rows in (32, 33, 64, 100, "auto")),
    ]),
)  # fmt: skip
def test_every_shape(count: int, features: int, n_threads: int, single: bool, order: Any, kind: Kind) -> None:
    """Blocks and rounds that are not full, rows too short for all threads, features that do not fill a line."""
    X = flat_rows(count + 1, features, dtype="f4" if single else "f8")
    y = np.r_[1, targets(X[1:], LOG_LOSS)]
    y[1] = -1
    kind.compare(X, y, n_threads, 1e-2 if single else None, schedule=schedules.Constant(0.3), shuffle=order)


@every_kind
@pytest.mark.parametrize("classes", [3, 5, 9, 20])
def test_several_classes(classes: int, kind: Kind) -> None:
    X = flat_rows(400)
    y = np.argmax(X @ np.random.default_rng(1).standard_normal((150, classes)), axis=1)
    weights_ = np.linspace(0.5, 2, len(np.unique(y)))
    case = {"penalty": penalties.L2(1e-3), "schedule": schedules.Constant(0.2), "class_weight": weights_}
    kind.compare(X, y, 4, **case)


@every_kind
def test_hundreds_of_classes(kind: Kind) -> None:
    """Of whose scores fewer rows are kept."""
    y = np.arange(600) % 300
    kind.compare(flat_rows(600), y, 3, schedule=schedules.Constant(0.1), n_passes=2)


@every_kind
@pytest.mark.parametrize("larger", [False, True])
def test_weights_that_decay_by_orders_of_magnitude_in_a_block(kind: Kind, larger: bool) -> None:
    """The scale is made 1 again in the middle of it: weights, predictions and steps follow."""
    X = flat_rows(500, dtype="f4")
    case = {"penalty": penalties.L2(0.9), "schedule": schedules.Constant(0.9)}
    if larger:
        kind = replace(kind, strategy=replace(kind.strategy, block_size=64))
    kind.compare(X, targets(X, LOG_LOSS), 4, 1e-3, **case)
    kind.compare(X, np.arange(500) % 3, 4, 1e-3, **case)


@every_kind
def test_steps_that_leave_nothing_of_the_weights(kind: Kind) -> None:
    X = flat_rows(200)
    case = {"penalty": penalties.L2(2.0), "schedule": schedules.InvScaling(1.0, power=0.5)}
    kind.compare(X, targets(X, LOG_LOSS), 4, **case)


@every_kind
def test_held_out_rows_tolerances_and_objectives(kind: Kind) -> None:
    X = flat_rows(600)
    y = targets(X, LOG_LOSS)
    held = np.arange(600) % 5 == 0
    case = {"schedule": schedules.Constant(0.3), "penalty": penalties.L2(1e-3), "tol": 1e-3, "n_passes": 50}
    kind.compare(X, y, 4, early_stopping=EarlyStopping(held), patience=2, **case)
    found = kind.compare(X, y, 4, patience=2, **case)
    assert found.n_passes < 50  # stopped by the objective, which has the norm of the weights at every step


@every_kind
def test_rows_without_features_are_passed_over_by_pa1(kind: Kind) -> None:
    X = flat_rows(200)
    X[::7] = 0
    case = {"loss": "hinge", "schedule": schedules.PassiveAggressive1(0.3), "penalty": penalties.L2(0.01)}
    assert kind.compare(X, targets(X, losses.Hinge()), 4, **case).t < 1 + 3 * 200


@every_kind
@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_same_bits_in_every_run(n_threads: int, dtype: str, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    X = flat_rows(2_000, 700, dtype=dtype, rank=100)
    y = targets(X, LOG_LOSS)
    X = kind.laid_out(X)
    case = {"n_threads": n_threads, "strategy": kind.strategy, "n_passes": 2, "schedule": schedules.Constant(0.3)}
    first, *others = (train(X, y, **case) for _ in range(3))
    for cores in (1, 2):  # which have the slices of several threads
        monkeypatch.setattr(strategies, "available_cores", lambda cores=cores: cores)
        others.append(train(X, y, **case))
    for other in others:
        assert_array_equal(first.coef, other.coef)
        assert first.passes[-1].loss == other.passes[-1].loss


@every_kind
def test_checkpoints_and_going_on(tmp_path: Path, kind: Kind) -> None:
    X = flat_rows(3_000, 300, rank=100)
    y = targets(X, LOG_LOSS)
    X = kind.laid_out(X)
    strategy = Directions() if isinstance(kind.strategy, Directions) else kind.strategy
    case = {"strategy": strategy, "n_threads": 4, "schedule": schedules.Constant(0.2), "n_passes": 4}
    whole = train(X, y, **case)

    class CutError(Exception):
        pass

    def cut(record: Any) -> None:
        if record.number == 2:
            raise CutError

    with pytest.raises(CutError):
        train(X, y, **case, checkpoint=tmp_path / "a.ckpt", callbacks=cut)
    assert_array_equal(train(X, y, **case, checkpoint=tmp_path / "a.ckpt").coef, whole.coef)


@every_kind
def test_a_callback_ends_it(kind: Kind) -> None:
    X = flat_rows(500)
    case = {"strategy": kind.strategy, "n_threads": 3, "n_passes": 9, "callbacks": lambda _: True}
    assert train(kind.laid_out(X), targets(X, LOG_LOSS), **case).n_passes == 1


@every_kind
def test_going_on_from_a_model(kind: Kind) -> None:
    X = flat_rows(400)
    for y in (targets(X, LOG_LOSS), np.arange(400) % 3):
        before = train(X, y, strategy="sequential", schedule=schedules.Constant(0.2), n_passes=1)
        kind.compare(X, y, 4, init=before, schedule=schedules.Constant(0.2))


@every_kind
def test_partial_fits(kind: Kind) -> None:
    X = kind.laid_out(flat_rows(400))
    y = np.arange(400) % 3
    own, sequential = (
        SGDClassifier("log_loss", strategy=strategy, n_jobs=4, random_state=0)
        for strategy in (kind.strategy, "sequential")
    )
    for part in (slice(0, 150), slice(150, 151), slice(151, 400)):
        for model in (own, sequential):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert_allclose(own.coef_, sequential.coef_, rtol=10 * kind.rtol)
    assert own.t_ == sequential.t_ == 401


@every_kind
def test_classes_that_stop_one_after_the_other(kind: Kind) -> None:
    X = flat_rows(500, 200)
    y = np.argmax(X @ np.random.default_rng(1).standard_normal((200, 9)) * np.linspace(0.2, 3, 9), axis=1)
    case = {"schedule": schedules.Constant(0.3), "tol": 1e-2, "patience": 1, "n_passes": 60}
    assert 1 < kind.compare(X, y, 4, **case).n_passes < 60


@on_dense_rows
@pytest.mark.parametrize("order", [True, False, "full", "blocks"])
def test_rows_in_a_file(tmp_path: Path, order: Any, kind: Kind) -> None:
    X, y = flat_rows(3_000, dtype="f4", rank=100), np.arange(3_000) % 2
    np.save(tmp_path / "X.npy", X)
    case = {"strategy": kind.strategy, "n_threads": 3, "n_passes": 2, "shuffle": order}
    found = train(np.load(tmp_path / "X.npy", mmap_mode="r"), y, schedule=schedules.Constant(0.1), **case)
    assert_array_equal(found.coef, train(X, y, schedule=schedules.Constant(0.1), **case).coef)


@every_kind
def test_divergence_carries_the_last_finite_model(kind: Kind) -> None:
    X = flat_rows(500)
    case = {"loss": "squared_error", "schedule": schedules.Constant(1e200), "n_threads": 3}
    with pytest.raises(DivergenceError) as caught:
        train(kind.laid_out(X), X[:, 0], strategy=kind.strategy, **case)
    assert np.isfinite(caught.value.result.coef).all()


@every_kind
def test_rows_whose_squares_overflow_are_an_error(kind: Kind) -> None:
    X = flat_rows(200, 200, dtype="f4")
    X[170] *= np.float32(1e22)
    with pytest.raises(ValueError, match="the square of its length is no number of its type"):
        train(kind.laid_out(X), np.arange(200) % 2, strategy=kind.strategy, n_threads=3)


@on_dense_rows
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": "l1"}, "does not work with penalty='l1'"),
        ({"penalty": penalties.Lasso(0.1)}, "does not work with penalty='lasso'"),
        ({"average": True}, "does not work with average"),
    ],
)
def test_what_it_does_not_train_is_refused(change: Any, message: str, kind: Kind) -> None:
    with pytest.raises(ValueError, match=f"strategy={kind.strategy.name!r} {message}"):
        train(flat_rows(20, 5), np.arange(20) % 2, strategy=kind.strategy, **change)
