"""`symsgd.train` does, step by step, what `symsgd.reference.sequential` does: every loss, penalty, layout and type.

Rows have 0, 1, 2, … 40 nonzeros, so that every tail of every vector loop is met.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from symsgd import EarlyStopping, Result, Start, decision, losses, penalties, reference, schedules, train

N, F = 41, 45
LONG_N = 16 * 512 + 13  # rows from which shuffle=True means the window order, and a few more
PASSES = 3
ALPHA = 0.005
SPARSE_DECAY = 0.01  # of the intercept's steps, as in scikit-learn

LOSSES = [
    losses.LogLoss(),
    losses.Hinge(),
    losses.Perceptron(),
    losses.SquaredHinge(),
    losses.ModifiedHuber(),
    losses.SquaredError(),
    losses.Huber(epsilon=0.3),
    losses.EpsilonInsensitive(epsilon=0.2),
    losses.SquaredEpsilonInsensitive(epsilon=0.2),
    losses.OneClass(nu=0.3),
]
# at a kink a rounding error decides whether a step is taken: losses with kinks are compared in double precision alone
LOSSES_AND_TYPES = [
    *[(loss, np.float64) for loss in LOSSES],
    *[(loss, np.float32) for loss in LOSSES if loss.smooth],
]
PENALTIES = [
    penalties.NoPenalty(),
    penalties.L2(ALPHA),
    penalties.L1(ALPHA),
    penalties.ElasticNet(ALPHA, l1_ratio=0.4),
    penalties.Lasso(ALPHA),
]
AVERAGED_PENALTIES = PENALTIES[:4]
SCHEDULES = [
    schedules.Constant(0.1),
    schedules.Optimal(0.5),
    schedules.InvScaling(0.3, power=0.4),
    schedules.Linear(0.2, n_steps=50, first=3.0),
    schedules.Adaptive(0.05),
]
PASSIVE_AGGRESSIVE = [schedules.PassiveAggressive1(0.2), schedules.PassiveAggressive2(0.3)]
LAYOUTS = ["csr32", "csr64", "dense"]
SCHEDULE = schedules.InvScaling(0.1, power=0.3)
TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}


def name(case: Any) -> str:
    return getattr(case, "name", getattr(case, "__name__", str(case)))


# Data


@cache
def rows(n: int = N, f: int = F, longest: int = 40, seed: int = 0) -> np.ndarray:
    """n × f numbers, row i with i mod (longest + 1) nonzeros; exact in both precisions."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, f))
    for i in range(n):
        count = i % (longest + 1)
        X[i, rng.choice(f, count, replace=False)] = 0.3 * rng.standard_normal(count)
    X = X[rng.permutation(n)].astype(np.float32).astype(np.float64)
    X.setflags(write=False)
    return X


def targets(X: np.ndarray, loss: Any, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = 2 * X @ rng.standard_normal(X.shape[1]) + 0.2 + 0.3 * rng.standard_normal(len(X))
    return np.where(y > np.median(y), 1.0, -1.0) if loss.margin else y.astype(np.float32).astype(np.float64)


def weights(n: int = N, seed: int = 2) -> np.ndarray:
    """From 0 to 2, zeros among them."""
    drawn = np.random.default_rng(seed).uniform(0.0, 2.0, n)
    return np.where(drawn < 0.2, 0.0, drawn)


def laid_out(X: np.ndarray, layout: str, dtype: Any = np.float64) -> Any:
    if layout == "dense":
        return X.astype(dtype)
    matrix = sp.csr_matrix(X.astype(dtype))
    index = np.int64 if layout == "csr64" else np.int32
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    return matrix


# The two runs and their comparison


def orders(order: str, n: int, seed: int, passes: int) -> Sequence[Any]:
    if order == "storage":
        return reference.storage_order(n, passes)
    return {"full": reference.full_order, "window": reference.window_order}[order](n, seed, passes)


def expected(
    X: np.ndarray,
    y: Any,
    *,
    layout: str = "dense",
    order: str = "storage",
    seed: int = 5,
    passes: int = PASSES,
    **more: Any,
) -> reference.SequentialRun:
    sparse = layout != "dense"
    arguments = {
        "orders": orders(order, len(X), seed, passes),
        "schedule": SCHEDULE,
        "intercept_decay": SPARSE_DECAY if sparse else 1.0,
        "touched": "nonzero" if sparse else "all",
        **more,
    }
    return reference.sequential(X, y, **arguments)


def trained(
    X: np.ndarray,
    y: Any,
    *,
    layout: str = "dense",
    dtype: Any = np.float64,
    order: str = "storage",
    seed: int = 5,
    passes: int = PASSES,
    **more: Any,
) -> Result:
    """With a tolerance, so that objectives are followed, and patience enough never to stop."""
    arguments = {
        "schedule": SCHEDULE,
        "n_threads": 1,
        "n_passes": passes,
        "seed": seed,
        "shuffle": {"storage": False, "full": "full", "window": True}[order],
        "tol": 0.0,
        "patience": 1000,
        **more,
    }
    return train(laid_out(X, layout, dtype), y, **arguments)


def close(found: Any, wanted: Any, tolerance: float, scale: float = 0.0) -> None:
    scale = max(scale, 1e-3, float(np.max(np.abs(wanted), initial=0.0)))
    assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)


def assert_same(result: Result, run: reference.SequentialRun, c: int = 0, *, objective: bool = True) -> None:
    """Model c of a training equals the reference's run; of a single model also what was recorded of its passes.

    The Lasso is not asked for its objective, whose penalty is taken at the end of the pass.
    """
    tolerance = TOLERANCE[result.coef.dtype]
    close(result.coef[c], run.coef, tolerance)
    close(result.intercept[c], run.intercept, tolerance)
    assert result.t == run.t
    if result.average_coef is not None:
        close(result.average_coef[c], run.average_coef, tolerance)
        close(result.average_intercept[c], run.average_intercept, tolerance)
    if len(result.coef) == 1:
        close([record.loss for record in result.passes], run.losses, tolerance)
        objectives = [record.objective for record in result.passes]
        if objective and objectives != [None] * len(objectives):
            close(objectives, run.objectives, tolerance)


def assert_moved(run: reference.SequentialRun) -> None:
    """The comparison is about something: weights that are not all zero."""
    assert np.count_nonzero(run.coef) > 3


@cache
def oracle_of_case(loss: Any, penalty: Any, sparse: bool, order: str) -> reference.SequentialRun:
    X = rows()
    return expected(
        X,
        targets(X, loss),
        layout="csr32" if sparse else "dense",
        order=order,
        loss=loss,
        penalty=penalty,
        sample_weight=weights(),
        class_weight=(0.7, 1.6) if loss.margin and loss.name != "one_class" else (1.0, 1.0),
    )


# Every loss, penalty, layout, type and order


@pytest.mark.parametrize("order", ["storage", "full"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize(("loss", "dtype"), LOSSES_AND_TYPES, ids=name)
def test_equals_the_reference(loss: Any, dtype: Any, penalty: Any, layout: str, order: str) -> None:
    X = rows()
    run = oracle_of_case(loss, penalty, layout != "dense", order)
    assert_moved(run)
    result = trained(
        X,
        targets(X, loss),
        layout=layout,
        dtype=dtype,
        order=order,
        loss=loss,
        penalty=penalty,
        sample_weight=weights(),
        class_weight=(0.7, 1.6) if loss.margin and loss.name != "one_class" else None,
    )
    assert result.coef.dtype == dtype
    assert_same(result, run, objective=penalty.name != "lasso")


@pytest.mark.parametrize("layout", ["csr32", "dense"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=name)
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_every_schedule(penalty: Any, schedule: Any, layout: str) -> None:
    X, loss = rows(), losses.LogLoss()
    case = {"loss": loss, "penalty": penalty, "schedule": schedule, "layout": layout, "order": "full"}
    y = targets(X, loss)
    assert_same(trained(X, y, **case), expected(X, y, **case), objective=penalty.name != "lasso")


@pytest.mark.parametrize("layout", ["csr32", "dense"])
@pytest.mark.parametrize("schedule", PASSIVE_AGGRESSIVE, ids=name)
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("loss", [losses.Hinge(), losses.EpsilonInsensitive(0.2)], ids=name)
def test_passive_aggressive_steps(loss: Any, penalty: Any, schedule: Any, layout: str) -> None:
    X = rows()
    assert (X == 0).all(axis=1).any()  # PA-I takes no step on a row of zeros
    case = {"loss": loss, "penalty": penalty, "schedule": schedule, "layout": layout, "sample_weight": weights()}
    y = targets(X, loss)
    assert_same(trained(X, y, **case), expected(X, y, **case), objective=penalty.name != "lasso")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", [losses.LogLoss(), losses.SquaredError(), losses.OneClass(0.4)], ids=name)
def test_without_an_intercept(loss: Any, layout: str) -> None:
    X = rows()
    case = {"loss": loss, "penalty": penalties.L2(ALPHA), "fit_intercept": False, "layout": layout}
    y = targets(X, loss)
    result = trained(X, y, **case)
    assert result.intercept[0] == 0.0
    assert_same(result, expected(X, y, **case))


@pytest.mark.parametrize("layout", ["csr32", "dense"])
@pytest.mark.parametrize("f", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130])
def test_every_width(f: int, layout: str) -> None:
    """Dense rows of every length around the vectors' widths."""
    X = rows(30, f, longest=f, seed=f)
    loss = losses.SquaredError()
    y = targets(X, loss)
    for dtype in (np.float64, np.float32):
        for tol in (None, 0.0):  # with a tolerance another loop keeps the norms
            case = {"loss": loss, "penalty": penalties.L2(ALPHA)}
            result = trained(X, y, layout=layout, dtype=dtype, tol=tol, **case)
            assert_same(result, expected(X, y, layout=layout, **case))


def test_starts_and_indices_may_be_of_different_types() -> None:
    X = rows()
    y = targets(X, losses.LogLoss())
    one = train(laid_out(X, "csr32"), y, n_passes=2)
    for starts, indices in [(np.int64, np.int32), (np.int32, np.int64)]:
        mixed = laid_out(X, "csr32")
        mixed.indptr, mixed.indices = mixed.indptr.astype(starts), mixed.indices.astype(indices)
        other = train(mixed, y, n_passes=2)
        assert_array_equal(one.coef, other.coef)
        assert_array_equal(one.decision(mixed), other.decision(laid_out(X, "csr64")))


def test_the_window_order() -> None:
    X = rows(LONG_N, 30, longest=3)
    loss = losses.LogLoss()
    y, case = targets(X, loss), {"loss": loss, "penalty": penalties.L2(1e-4), "order": "window", "layout": "csr32"}
    assert_same(trained(X, y, **case, passes=2), expected(X, y, **case, passes=2))


def test_up_to_8192_rows_shuffling_is_the_full_permutation() -> None:
    X = rows()
    case = {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA), "schedule": SCHEDULE}
    results = [train(X, targets(X, case["loss"]), shuffle=shuffle, seed=5, **case) for shuffle in (True, "full")]
    assert_array_equal(results[0].coef, results[1].coef)


# Objectives: mean loss + penalty, both as they are just before each step


@pytest.mark.parametrize("layout", ["csr32", "dense"])
def test_the_objective_under_the_lasso_is_taken_at_the_end_of_the_pass(layout: str) -> None:
    X, loss, penalty = rows(), losses.SquaredError(), penalties.Lasso(ALPHA)
    y, case = targets(X, loss), {"loss": loss, "penalty": penalty, "layout": layout}
    for passes in (1, 2):
        run = expected(X, y, passes=passes, **case)
        record = trained(X, y, passes=passes, **case).passes[-1]
        assert record.objective - record.loss >= ALPHA * np.abs(run.coef).sum() - 1e-12  # the halves may overlap
        assert record.objective - record.loss < 1.5 * ALPHA * np.abs(run.coef).sum()


def test_without_a_tolerance_no_objective_is_followed() -> None:
    X, loss = rows(), losses.LogLoss()
    y, case = targets(X, loss), {"loss": loss, "penalty": penalties.L2(ALPHA)}
    result = trained(X, y, tol=None, **case)
    assert [record.objective for record in result.passes] == [None] * PASSES
    assert_same(result, expected(X, y, **case))


# Rows held out


@pytest.mark.parametrize("order", ["storage", "full"])
def test_held_out_rows_are_passed_over(order: str) -> None:
    X, loss, held_out = rows(), losses.LogLoss(), np.arange(N) % 3 == 1
    y, case = (
        targets(X, loss),
        {"loss": loss, "penalty": penalties.L2(ALPHA), "order": order, "sample_weight": weights()},
    )
    result = trained(X, y, early_stopping=EarlyStopping(held_out), **case)
    assert_same(result, expected(X, y, mask=held_out, **case))
    assert [record.rows for record in result.passes] == [np.count_nonzero(~held_out)] * PASSES


def test_held_out_rows_of_the_window_order() -> None:
    X, loss = rows(LONG_N, 30, longest=3), losses.SquaredError()
    held_out = np.random.default_rng(0).random(LONG_N) < 0.6
    y, case = targets(X, loss), {"loss": loss, "penalty": penalties.NoPenalty(), "order": "window", "layout": "csr64"}
    result = trained(X, y, early_stopping=EarlyStopping(held_out), passes=1, **case)
    assert_same(result, expected(X, y, mask=held_out, passes=1, **case))


# Averages


@pytest.mark.parametrize("average", [1, 2, 60, PASSES * N])
@pytest.mark.parametrize("layout", ["csr32", "dense"])
@pytest.mark.parametrize("penalty", AVERAGED_PENALTIES, ids=name)
def test_averages(penalty: Any, layout: str, average: int) -> None:
    X, loss = rows(), losses.LogLoss()
    case = {"loss": loss, "penalty": penalty, "average": average, "layout": layout, "sample_weight": weights()}
    y = targets(X, loss)
    result = trained(X, y, **case)
    assert result.average_coef is not None
    assert_same(result, expected(X, y, **case))
    scores = reference.decision(X, result.average_coef[0], float(result.average_intercept[0]))
    assert_allclose(result.decision(X), scores, atol=1e-12)


@pytest.mark.parametrize("penalty", AVERAGED_PENALTIES, ids=name)
def test_averages_in_single_precision(penalty: Any) -> None:
    X, case = rows(), {"loss": losses.LogLoss(), "penalty": penalty, "average": 1}
    y = targets(X, case["loss"])
    assert_same(trained(X, y, dtype=np.float32, **case), expected(X, y, **case))


def test_averages_of_a_loss_that_seldom_steps() -> None:
    X, case = rows(), {"loss": losses.Perceptron(), "penalty": penalties.ElasticNet(ALPHA, 0.5), "average": 7}
    y = targets(X, case["loss"])
    assert_same(trained(X, y, **case), expected(X, y, **case))


def test_average_true_begins_with_the_first_step() -> None:
    X, case = rows(), {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA)}
    y = targets(X, case["loss"])
    results = [trained(X, y, average=average, **case) for average in (True, 1)]
    assert_array_equal(results[0].average_coef, results[1].average_coef)


def test_averaging_that_never_begins() -> None:
    X, case = rows(), {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA)}
    y = targets(X, case["loss"])
    result = trained(X, y, average=PASSES * N + 1, **case)
    assert result.average_coef is None
    assert result.average_intercept is None
    assert_same(result, expected(X, y, **case))


# Decay so strong that the lazy scale of the weights must be folded in


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=name)
@pytest.mark.parametrize("average", [0, 1])
@pytest.mark.parametrize("strength", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("penalty", [penalties.L2, penalties.ElasticNet], ids=name)
def test_strong_decay(penalty: Any, strength: float, average: int, dtype: Any) -> None:
    """step × strength = 0.5, 1 and 2.5: a scale that shrinks fast, one that is 0, and one held at 0."""
    X, loss = rows(), losses.SquaredError()
    y, case = targets(X, loss), {"loss": loss, "penalty": penalty(strength), "schedule": schedules.Constant(0.5)}
    result = trained(X, y, dtype=dtype, average=average or False, **case)
    assert_same(result, expected(X, y, average=average, **case))


@pytest.mark.parametrize("layout", ["csr32", "dense"])
@pytest.mark.parametrize("alpha", [1e-3, 1e-2, 1e-1])
def test_averages_of_a_long_run_in_single_precision(alpha: float, layout: str) -> None:
    """The scale falls far below 1 on the way, and the stored weights lie far above the true ones."""
    X, loss = rows(8000, 50, longest=10), losses.LogLoss()
    y, case = targets(X, loss), {"loss": loss, "penalty": penalties.L2(alpha), "schedule": schedules.Constant(0.1)}
    single, double = (
        trained(X, y, layout=layout, dtype=dtype, average=1, passes=20, **case) for dtype in (np.float32, np.float64)
    )
    close(single.coef, double.coef, 1e-4)
    close(single.average_coef, double.average_coef, 1e-4)


def test_gradients_are_clipped() -> None:
    X, loss = rows(), losses.SquaredError()
    case = {"loss": loss, "penalty": penalties.NoPenalty(), "schedule": schedules.Constant(1e-3)}
    y = 1e15 * targets(X, loss)
    run = expected(X, y, **case)
    assert np.abs(run.coef).max() < 1e12
    assert_same(trained(X, y, **case), run)


# Continuing


@pytest.mark.parametrize("average", [0, 1, 50, 150])
@pytest.mark.parametrize("penalty", AVERAGED_PENALTIES, ids=name)
def test_continuing_from_a_result(penalty: Any, average: int) -> None:
    """The order starts over; steps, weights and averages go on; what L1 remembers starts afresh."""
    X, loss = rows(), losses.LogLoss()
    y, case = targets(X, loss), {"loss": loss, "penalty": penalty, "order": "full", "layout": "csr32"}
    first = trained(X, y, average=average or False, **case)
    run = expected(X, y, average=average, **case)
    assert_same(first, run)
    second = trained(X, y, average=average or False, init=first, passes=2, **case)
    assert_same(
        second,
        expected(
            X,
            y,
            average=average,
            passes=2,
            coef=run.coef,
            intercept=run.intercept,
            t=run.t,
            average_coef=run.average_coef,
            average_intercept=run.average_intercept,
            **case,
        ),
    )


@pytest.mark.parametrize("layout", ["csr32", "dense"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_beginning_from_a_start(penalty: Any, layout: str) -> None:
    X, loss = rows(), losses.SquaredError()
    coef = np.random.default_rng(4).standard_normal(F)
    y, case = targets(X, loss), {"loss": loss, "penalty": penalty, "layout": layout, "schedule": SCHEDULES[2]}
    result = trained(X, y, init=Start(coef, np.array([0.3]), t=17.0), **case)
    run = expected(X, y, coef=coef, intercept=0.3, t=17.0, **case)
    assert_same(result, run, objective=penalty.name != "lasso")


def test_a_start_may_be_flat_and_of_another_type() -> None:
    X, loss = rows(), losses.SquaredError()
    coef = np.arange(F)
    y, case = targets(X, loss), {"loss": loss, "penalty": penalties.L2(ALPHA)}
    result = trained(X, y, init=Start(coef, 1), **case)
    assert_same(result, expected(X, y, coef=coef, intercept=1.0, **case))


# Several classes


def labels(X: np.ndarray, n_classes: int, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = X @ rng.standard_normal((X.shape[1], n_classes)) + 0.5 * rng.standard_normal((len(X), n_classes))
    chosen = scores.argmax(1)
    chosen[:n_classes] = np.arange(n_classes)
    return chosen


def assert_one_vs_rest(
    result: Result, X: np.ndarray, y: np.ndarray, factors: np.ndarray, *, objective: bool = True, **case: Any
) -> None:
    runs = [
        expected(X, np.where(y == c, 1.0, -1.0), class_weight=(1.0, factors[c]), **case) for c in range(len(factors))
    ]
    for c, run in enumerate(runs):
        assert_same(result, run, c)
    tolerance = TOLERANCE[result.coef.dtype]
    close([r.loss for r in result.passes], np.mean([run.losses for run in runs], axis=0), tolerance)
    if objective:
        close([r.objective for r in result.passes], np.mean([run.objectives for run in runs], axis=0), tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=name)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_classes", [3, 5, 9, 17])
def test_several_classes(n_classes: int, layout: str, dtype: Any) -> None:
    X = rows()
    y, factors = labels(X, n_classes), np.linspace(0.5, 1.5, n_classes)
    case = {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA), "layout": layout, "sample_weight": weights()}
    result = trained(X, y, dtype=dtype, class_weight=factors, **case)
    assert result.coef.shape == (n_classes, F)
    assert_array_equal(result.classes, np.arange(n_classes))
    assert_one_vs_rest(result, X, y, factors, **case)


@pytest.mark.parametrize("tol", [None, 0.0])
@pytest.mark.parametrize("layout", ["csr32", "dense"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge()], ids=name)
def test_several_classes_under_every_penalty(loss: Any, penalty: Any, layout: str, tol: float | None) -> None:
    X = rows()
    y, case = labels(X, 5), {"loss": loss, "penalty": penalty, "layout": layout}
    result = trained(X, y, tol=tol, **case)
    if tol is None:
        for c in range(5):
            assert_same(result, expected(X, np.where(y == c, 1.0, -1.0), **case), c)
    else:
        assert_one_vs_rest(result, X, y, np.ones(5), objective=penalty.name != "lasso", **case)


@pytest.mark.parametrize("penalty", AVERAGED_PENALTIES, ids=name)
def test_averages_of_several_classes(penalty: Any) -> None:
    X = rows()
    y, case = labels(X, 9), {"loss": losses.LogLoss(), "penalty": penalty, "average": 30}
    result = trained(X, y, **case)
    assert result.average_coef is not None
    assert_one_vs_rest(result, X, y, np.ones(9), **case)


@pytest.mark.parametrize("schedule", PASSIVE_AGGRESSIVE, ids=name)
def test_passive_aggressive_steps_of_several_classes(schedule: Any) -> None:
    X = rows()
    y, case = labels(X, 3), {"loss": losses.Hinge(), "penalty": penalties.NoPenalty(), "schedule": schedule}
    assert_one_vs_rest(trained(X, y, **case), X, y, np.ones(3), **case)


def test_two_classes_are_one_model() -> None:
    X = rows()
    y = labels(X, 2)
    case = {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA)}
    result = trained(X, y, class_weight=[0.5, 2.0], **case)
    assert result.coef.shape == (1, F)
    assert_same(result, expected(X, np.where(y == 1, 1.0, -1.0), class_weight=(0.5, 2.0), **case))


def test_classes_that_have_converged_stop_and_stay_as_they_were() -> None:
    """Each class runs until its own objective stops improving; reference: the passes it took, and no more."""
    X, tol = rows(), 0.01
    y, case = labels(X, 5), {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA), "order": "full"}
    result = trained(X, y, passes=60, tol=tol, patience=2, average=1, **case)
    assert result.converged
    stopped_after = []
    for c in range(5):
        one_vs_rest = np.where(y == c, 1.0, -1.0)
        objectives = expected(X, one_vs_rest, passes=60, **case).objectives
        best, missed, taken = np.inf, 0, 0
        while missed < 2:
            missed = missed + 1 if objectives[taken] > best - tol else 0
            best = min(best, objectives[taken])
            taken += 1
        run = expected(X, one_vs_rest, passes=taken, average=1, **case)
        close(result.coef[c], run.coef, 1e-10)
        close(result.intercept[c], run.intercept, 1e-10)
        close(result.average_coef[c], run.average_coef, 1e-10)
        stopped_after.append(taken)
    assert result.n_passes == max(stopped_after) < 60
    assert len(set(stopped_after)) > 1


def test_the_adaptive_schedule_lowers_its_step() -> None:
    X, loss, tol, step = rows(), losses.SquaredError(), 1e-3, 0.3
    y, case = targets(X, loss), {"loss": loss, "penalty": penalties.L2(ALPHA)}
    state: dict[str, Any] = {}
    best, missed, steps = np.inf, 0, [step]
    for _ in range(25):
        run = expected(X, y, passes=1, schedule=schedules.Constant(steps[-1]), **state, **case)
        state = {"coef": run.coef, "intercept": run.intercept, "t": run.t}
        missed = missed + 1 if run.objectives[0] > best - tol else 0
        best = min(best, run.objectives[0])
        if missed == 2:
            steps.append(steps[-1] / 5)
            missed = 0
    assert len(steps) > 3
    result = trained(X, y, passes=25, tol=tol, patience=2, schedule=schedules.Adaptive(step), **case)
    assert result.n_passes == 25
    close(result.coef[0], run.coef, 1e-10)


# Indices in any order, repeated, and zeros that are stored


def shuffled_entries(X: np.ndarray, *, repeat: bool, dtype: Any = np.float64) -> sp.csr_matrix:
    """The same matrix with unsorted indices and, if asked, every third entry split into two."""
    rng = np.random.default_rng(8)
    indptr, indices, data = [0], [], []
    for x in X:
        (present,) = np.nonzero(x)
        entries = [(j, x[j]) for j in present]
        if repeat:
            entries = [e for j, v in entries for e in ([(j, 3 * v), (j, -2 * v)] if j % 3 == 0 else [(j, v)])]
        rng.shuffle(entries)
        indices += [int(j) for j, _ in entries]
        data += [v for _, v in entries]
        indptr.append(len(indices))
    return sp.csr_matrix(
        (np.array(data, dtype), np.array(indices, np.int32), np.array(indptr, np.int32)), shape=X.shape
    )


@pytest.mark.parametrize("repeat", [False, True], ids=["unsorted", "repeated"])
@pytest.mark.parametrize(
    ("penalty", "average"),
    [*((penalty, False) for penalty in PENALTIES), *((penalty, True) for penalty in AVERAGED_PENALTIES)],
    ids=name,
)
def test_unsorted_and_repeated_indices(penalty: Any, average: bool, repeat: bool) -> None:
    X, loss = rows(), losses.LogLoss()
    messy, y = shuffled_entries(X, repeat=repeat), targets(X, loss)
    before = [messy.data.copy(), messy.indices.copy(), messy.indptr.copy()]
    assert messy.has_canonical_format is False
    case = {"loss": loss, "penalty": penalty, "schedule": SCHEDULE}
    for tol in (None, 0.0):
        result = train(messy, y, shuffle=False, n_passes=PASSES, tol=tol, patience=99, average=average, **case)
        run = expected(X, y, layout="csr32", average=int(average), **case)
        assert_same(result, run, objective=penalty.name != "lasso")
    for array, copy in zip((messy.data, messy.indices, messy.indptr), before, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize("schedule", PASSIVE_AGGRESSIVE, ids=name)
def test_repeated_indices_count_once_in_the_norm_of_a_row(schedule: Any) -> None:
    X, loss = rows(), losses.Hinge()
    y, case = targets(X, loss), {"loss": loss, "penalty": penalties.NoPenalty(), "schedule": schedule}
    result = train(shuffled_entries(X, repeat=True), y, shuffle=False, n_passes=PASSES, **case)
    assert_same(result, expected(X, y, layout="csr32", **case))


def test_repeated_indices_of_several_classes() -> None:
    X = rows()
    y, case = labels(X, 5), {"loss": losses.LogLoss(), "penalty": penalties.L1(ALPHA), "layout": "csr32"}
    messy = shuffled_entries(X, repeat=True)
    result = train(messy, y, schedule=SCHEDULE, shuffle=False, n_passes=PASSES, tol=0.0, patience=99, **drop(case))
    assert_one_vs_rest(result, X, y, np.ones(5), **case)


def drop(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key != "layout"}


# Targets of every type


@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64", "bool", "U", "O"]
)
def test_labels_of_every_type(kind: str) -> None:
    X = rows()
    y = labels(X, 2)
    case = {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA)}
    plain, typed = trained(X, y, **case), trained(X, y.astype(kind), **case)
    assert_array_equal(typed.coef, plain.coef)
    assert_array_equal(typed.classes, np.unique(y.astype(kind)))


@pytest.mark.parametrize(
    "values", [[0, 1, 2], [-7, 0, 300], [-5.0, 1.0, 2.0], ["a", "b", "c"], [2**60, 2**60 + 1, 2**61]]
)
def test_labels_of_every_value(values: list[Any]) -> None:
    X = rows()
    y, case = labels(X, 3), {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA)}
    renamed = np.array(values)[y]
    result = trained(X, renamed, **case)
    assert_array_equal(result.coef, trained(X, y, **case).coef)
    assert_array_equal(result.classes, np.unique(renamed))


@pytest.mark.parametrize("values", [[-7, 300], [2**60, 2**60 + 1], [-(2**63), -(2**63) + 1], [0.1, 0.2], ["no", "yes"]])
def test_two_labels_of_every_value(values: list[Any]) -> None:
    X = rows()
    y, case = labels(X, 2), {"loss": losses.LogLoss(), "penalty": penalties.L2(ALPHA)}
    assert_array_equal(trained(X, np.array(values)[y], **case).coef, trained(X, y, **case).coef)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64", "uint64", "float32", "float64", "bool"])
def test_numbers_and_weights_of_every_type(kind: str) -> None:
    X, case = rows(), {"loss": losses.SquaredError(), "penalty": penalties.L2(ALPHA)}
    y = np.arange(N) % 2
    for typed in ({"y": y.astype(kind)}, {"sample_weight": y.astype(kind)}):
        plain = {key: value.astype(np.float64) for key, value in typed.items()}
        found, wanted = (trained(X, **{"y": y.astype(np.float64), **given}, **case) for given in (typed, plain))
        assert_array_equal(found.coef, wanted.coef)


def test_one_weight_for_all() -> None:
    X, case = rows(), {"loss": losses.SquaredError(), "penalty": penalties.L2(ALPHA)}
    y = targets(X, case["loss"])
    assert_array_equal(
        trained(X, y, sample_weight=0.5, **case).coef, trained(X, y, sample_weight=np.full(N, 0.5), **case).coef
    )


def test_a_loss_for_numbers_classifies_if_told_the_classes() -> None:
    X, case = rows(), {"loss": losses.SquaredError(), "penalty": penalties.L2(ALPHA)}
    y = labels(X, 2)
    assert_same(trained(X, y, classes=[0, 1], **case), expected(X, 2.0 * y - 1.0, **case))


# Scores


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=name)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_models", [1, 3, 5, 9, 17])
def test_decision(n_models: int, layout: str, dtype: Any) -> None:
    rng = np.random.default_rng(9)
    X = rows()
    coef, intercept = rng.standard_normal((n_models, F)), rng.standard_normal(n_models)
    wanted = np.column_stack([reference.decision(X, w, b) for w, b in zip(coef, intercept, strict=True)])
    found = decision(laid_out(X, layout, dtype), coef, intercept, n_threads=2)
    assert found.dtype == dtype
    assert found.shape == ((N,) if n_models == 1 else (N, n_models))
    close(found.reshape(wanted.shape), wanted, TOLERANCE[np.dtype(dtype)])
