"""Row by row on a machine of blocks is the CPU's sequential run, to rounding: every loss, schedule, order and stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cases import assert_exact, assert_same_model, on_cpu, on_machine
from strategy_cases import LOSSES, close, dense_rows, name, targets, weights
from symsgd import DivergenceError, EarlyStopping, Start, losses, penalties, schedules
from symsgd.gpu import training
from symsgd.gpu.host import Host

BLOCKS = [8, 5, 64]
SCHEDULES = [
    schedules.Constant(0.15),
    schedules.Optimal(0.8),
    schedules.InvScaling(0.3, power=0.3),
    schedules.Linear(0.2),
    schedules.Linear("auto"),
    schedules.Adaptive(0.1),
]
TOLERANCES = {"f8": 1e-10, "f4": 1e-4}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_every_loss_and_schedule(loss: Any, dtype: str) -> None:
    """131 rows: no block size divides them, and the largest has but one full block and a bit of another."""
    X = dense_rows(131, 11).astype(dtype)
    for turn, schedule in enumerate(SCHEDULES):
        assert_exact(
            Host(block=BLOCKS[turn % 3]),
            X,
            targets(X, loss),
            TOLERANCES[dtype],
            loss=loss,
            schedule=schedule,
            penalty=penalties.L2(0.05) if turn % 2 else None,
            fit_intercept=turn != 2,
            sample_weight=weights(131) if turn < 4 else None,
            class_weight=(0.7, 1.6) if loss.margin and loss.name != "one_class" else None,
        )


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("penalty", [None, penalties.L2(0.1)], ids=["none", "l2"])
@pytest.mark.parametrize("schedule", [schedules.PassiveAggressive1(0.3), schedules.PassiveAggressive2(0.4)], ids=name)
@pytest.mark.parametrize("loss", [losses.Hinge(), losses.EpsilonInsensitive(0.2)], ids=name)
def test_passive_aggressive_steps(loss: Any, schedule: Any, penalty: Any, dtype: str) -> None:
    """Few rows: these steps take what is missing, rounding included."""
    X = dense_rows(37, 6).astype(dtype)
    for block in BLOCKS:
        case = {"loss": loss, "schedule": schedule, "penalty": penalty, "fit_intercept": block != 5}
        assert_exact(Host(block=block), X, targets(X, loss), TOLERANCES[dtype], **case)


def rows_of_zeros(schedule: Any, penalty: Any) -> None:
    X = dense_rows(60, 6)
    X[::4] = 0.0
    assert_exact(Host(block=8), X, targets(X, losses.Hinge()), loss="hinge", schedule=schedule, penalty=penalty)


@pytest.mark.parametrize("schedule", ["pa2", schedules.Constant(0.1)], ids=name)
def test_rows_of_zeros(schedule: Any) -> None:
    rows_of_zeros(schedule, penalties.L2(0.1))


def test_pa1_refuses_rows_of_zeros_that_would_shrink_the_weights() -> None:
    """Elsewhere they are passed over: no step of the penalty, and none is counted."""
    with pytest.raises(ValueError, match="rows of zeros"):
        rows_of_zeros("pa1", penalties.L2(0.1))


@pytest.mark.parametrize("shuffle", [True, "full", False, "blocks"])
@pytest.mark.parametrize("block", BLOCKS)
def test_every_order(block: int, shuffle: Any) -> None:
    X = dense_rows(611, 7)
    case = {"schedule": schedules.InvScaling(0.3, power=0.3), "penalty": penalties.L2(0.01), "shuffle": shuffle}
    found = assert_exact(Host(block=block), X, targets(X, losses.LogLoss()), seed=11, n_passes=3, **case)
    other = on_machine(Host(block=block), X, targets(X, losses.LogLoss()), seed=12, n_passes=3, **case)
    assert np.array_equal(found.coef, other.coef) == (shuffle is False)


def test_the_window_order() -> None:
    """More rows than a full permutation is taken for."""
    X = dense_rows(8200, 3)
    y = targets(X, losses.Hinge())
    assert_exact(Host(block=64), X, y, loss="hinge", schedule=schedules.Constant(0.05), n_passes=1)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("n_classes", [3, 5, 9])
def test_more_classes(n_classes: int, dtype: str) -> None:
    X = dense_rows(131, 11).astype(dtype)
    for loss, block in [(losses.LogLoss(), 8), (losses.Hinge(), 5), (losses.SquaredError(), 64)]:
        assert_exact(
            Host(block=block),
            X,
            np.arange(131) % n_classes,
            TOLERANCES[dtype],
            loss=loss,
            classes=np.arange(n_classes),
            penalty=penalties.L2(0.05),
            schedule=schedules.InvScaling(0.2, power=0.3),
            class_weight=np.linspace(0.5, 1.5, n_classes),
            sample_weight=weights(131),
        )


def test_labels_of_any_kind() -> None:
    X = dense_rows(90, 4)
    for labels in (["no", "yes"], [-7, 3], ["a", "b", "c"], [10, 20, 40, 50]):
        y = np.array(labels)[np.arange(90) % len(labels)]
        found = assert_exact(Host(), X, y, schedule=schedules.Constant(0.2))
        assert found.classes.tolist() == labels


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16])
def test_few_rows(n: int) -> None:
    X, y = dense_rows(n, 3), np.arange(1.0, n + 1)
    case = {"loss": "squared_error", "schedule": schedules.Constant(0.1), "penalty": penalties.L2(0.1)}
    assert_exact(Host(block=8), X, y, n_passes=5, **case)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_the_sizes(data: Any) -> None:
    n, f = data.draw(st.integers(2, 60), "rows"), data.draw(st.integers(1, 12), "features")
    X = dense_rows(n, f, density=data.draw(st.sampled_from([1.0, 0.5]), "density"), seed=data.draw(st.integers(0, 99)))
    loss = data.draw(st.sampled_from([losses.LogLoss(), losses.SquaredError(), losses.ModifiedHuber()]), "loss")
    case = {
        "loss": loss,
        "schedule": data.draw(st.sampled_from([*SCHEDULES[:4], SCHEDULES[5]]), "schedule"),
        "penalty": data.draw(st.sampled_from([None, penalties.L2(0.01), penalties.L2(0.6)]), "penalty"),
        "shuffle": data.draw(st.sampled_from([True, False]), "shuffle"),
        "fit_intercept": data.draw(st.booleans(), "intercept"),
    }
    machine = Host(block=data.draw(st.integers(1, 70), "block"))
    y = targets(X, loss)
    assert_same_model(on_machine(machine, X, y, **case), on_cpu(X, y, **case), 1e-9)


# What the weights lose


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_penalty_that_leaves_nothing_of_the_first_steps(dtype: str, shuffle: bool) -> None:
    """A pass over which weights fade by exp(−140): no number of one stretch has both ends."""
    X = dense_rows(700, 5).astype(dtype)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.5), "penalty": penalties.L2(0.4), "shuffle": shuffle, "n_passes": 3}
    assert_exact(Host(block=8), X, y, TOLERANCES[dtype], **case)


@pytest.mark.parametrize(
    "shuffle",
    [
        False,
        True,
    ],
)
def test_stretches_that_differ_from_pass_to_pass(shuffle: bool) -> None:
    """Steps fall, so that the first pass is cut where later ones are not."""
    X = dense_rows(700, 5)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.InvScaling(0.8, power=0.3), "penalty": penalties.L2(0.6), "shuffle": shuffle}
    assert_exact(Host(block=8), X, y, n_passes=3, **case)


@pytest.mark.parametrize("step", [1.0, 1.5])
def test_steps_that_leave_nothing_of_the_weights(step: float) -> None:
    """What is 0 on the CPU is next to nothing here: it is kept as a logarithm."""
    X = dense_rows(131, 5)
    case = {"schedule": schedules.Constant(step), "penalty": penalties.L2(1.0)}
    assert_exact(Host(block=8), X, targets(X, losses.LogLoss()), 1e-7, **case)


def test_products_that_do_not_fit_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In storage order they are kept from pass to pass where there is room, and the results are the same bits."""
    X = dense_rows(300, 5)
    y = targets(X, losses.LogLoss())
    kept = on_machine(Host(), X, y, shuffle=False, n_passes=3)
    monkeypatch.setattr(training, "GRAM_SHARE", 0.0)
    monkeypatch.setattr(training, "GRAM_ROWS", 16)
    again = on_machine(Host(), X, y, shuffle=False, n_passes=3)
    close(again.coef, kept.coef, 1e-12)


# What goes on from training to training, and what ends one


def test_a_result_goes_on_where_it_ended() -> None:
    X = dense_rows(131, 9)
    y = targets(X, losses.LogLoss())
    case = {"shuffle": False, "penalty": penalties.L2(0.1), "schedule": schedules.InvScaling(0.3, power=0.3)}
    half = on_machine(Host(), X, y, **case)
    close(on_machine(Host(), X, y, init=half, **case).coef, on_cpu(X, y, n_passes=4, **case).coef, 1e-10)
    close(on_cpu(X, y, init=half, **case).coef, on_cpu(X, y, n_passes=4, **case).coef, 1e-10)
    start = Start(np.arange(9.0), np.array([0.5]), 20.0)
    assert_exact(Host(), X, y, init=start, **case)
    assert_exact(Host(), X, y, init=start, schedule="linear")


def test_several_models_go_on_where_they_ended() -> None:
    X = dense_rows(131, 9)
    rng = np.random.default_rng(3)
    start = Start(rng.standard_normal((4, 9)), rng.standard_normal(4), 100.0)
    assert_exact(Host(block=5), X, np.arange(131) % 4, init=start, schedule=schedules.Optimal(0.5))


def test_rows_held_out_are_not_trained() -> None:
    X = dense_rows(400, 9)
    y = targets(X, losses.LogLoss())
    held_out = np.arange(400) % 5 == 0
    case = {"schedule": schedules.Constant(0.1), "n_passes": 60, "patience": 2, "tol": 1e-3}
    case |= {"early_stopping": EarlyStopping(held_out), "eval_set": (X[:50], y[:50])}
    for shuffle in (True, "full", False, "blocks"):
        found = assert_exact(Host(block=8), X, y, shuffle=shuffle, sample_weight=weights(400), **case)
        wanted = on_cpu(X, y, shuffle=shuffle, sample_weight=weights(400), **case)
        assert found.converged
        assert found.passes[0].rows == 320
        scores = [[record.validation_score for record in result.passes] for result in (found, wanted)]
        assert scores[0] == scores[1]
    touched = X.copy()
    touched[held_out] = 7.0
    case["eval_set"] = None
    once = case | {"n_passes": 1, "tol": None}
    close(on_machine(Host(), touched, y, **once).coef, on_machine(Host(), X, y, **once).coef, 1e-12)


def test_a_tolerance_stops_after_as_many_passes() -> None:
    X = dense_rows(400, 9)
    y = targets(X, losses.LogLoss())
    case = {"penalty": None, "n_passes": 60, "patience": 2, "tol": 1e-3}
    found = assert_exact(Host(), X, y, schedule=schedules.Constant(0.1), **case)
    assert found.converged
    assert found.passes[0].objective == found.passes[0].loss


def test_adaptive_steps_fall_when_the_objective_stops() -> None:
    X = dense_rows(300, 9)
    y = targets(X, losses.SquaredError())
    case = {"loss": "squared_error", "penalty": None, "n_passes": 60, "patience": 1, "tol": 1e-3}
    found = assert_exact(Host(), X, y, schedule=schedules.Adaptive(0.2), **case)
    fixed = on_machine(Host(), X, y, schedule=schedules.Constant(0.2), **case)
    assert fixed.n_passes < found.n_passes < 60


def test_classes_stop_one_by_one() -> None:
    X = dense_rows(200, 8)
    y = np.argmax(X[:, :4] + 0.5 * dense_rows(200, 4, seed=9), axis=1)
    case = {"penalty": None, "n_passes": 100, "tol": 0.01, "patience": 1}
    for schedule in (schedules.Constant(0.05), schedules.Adaptive(0.1)):
        found = assert_exact(Host(), X, y, schedule=schedule, **case)
        assert 2 < found.n_passes < 100


def test_the_objective_has_the_penalty_of_the_model_at_the_end_of_the_pass() -> None:
    """As with threads on the CPU: the norm is not followed from row to row."""
    X = dense_rows(200, 6)
    for loss, y in [(losses.LogLoss(), targets(X, losses.LogLoss())), (losses.OneClass(0.3), None)]:
        case = {"loss": loss, "penalty": penalties.L2(0.2), "schedule": schedules.Constant(0.1), "n_passes": 1}
        found = on_machine(Host(), X, y, tol=1e-6, **case)
        pull = getattr(loss, "nu", 0.0) * found.intercept[0]
        expected = found.passes[0].loss + 0.1 * float((found.coef**2).sum()) + pull
        assert found.passes[0].objective == pytest.approx(expected, rel=1e-9)
        near = on_cpu(X, y, tol=1e-6, **case).passes[0].objective
        assert found.passes[0].objective == pytest.approx(near, rel=0.5)


@pytest.mark.parametrize("schedule", ["pa1", "pa2"])
def test_the_objective_of_passive_aggressive_steps_is_their_loss(schedule: str) -> None:
    X = dense_rows(60, 6)
    case = {"loss": "hinge", "schedule": schedule, "penalty": penalties.L2(0.2), "tol": 1e-3, "n_passes": 1}
    y = targets(X, losses.Hinge())
    found, wanted = on_machine(Host(), X, y, **case), on_cpu(X, y, **case)
    assert found.passes[0].objective == pytest.approx(wanted.passes[0].objective, rel=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_is_an_error_with_the_last_finite_model() -> None:
    X = dense_rows(200, 6, scale=5.0)
    with pytest.raises(DivergenceError) as raised:
        on_machine(Host(), X, X @ np.ones(6), loss="squared_error", schedule=schedules.Constant(10.0), n_passes=50)
    assert np.isfinite(raised.value.result.coef).all()


# Rows that do not fit into the machine's memory


@pytest.mark.parametrize("shuffle", [True, False])
def test_rows_in_pieces(shuffle: bool) -> None:
    """131 × 11 numbers, and room for about a tenth of them: pieces of 13 rows."""
    X = dense_rows(131, 11)
    case = {"schedule": schedules.InvScaling(0.3, power=0.3), "penalty": penalties.L2(0.05), "shuffle": shuffle}
    small = Host(block=5, memory=13 * 11 * 8 * 7)
    assert_exact(small, X, targets(X, losses.LogLoss()), sample_weight=weights(131), **case)
    assert_exact(small, X, np.arange(131) % 3, **case)
