"""What is sequential SGD to rounding: least squares merged exactly, and every strategy on one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from strategy_cases import (
    LOSSES,
    PASSIVE_AGGRESSIVE,
    PENALTIES,
    SCHEDULES,
    assert_same_result,
    close,
    dense_rows,
    laid_out,
    name,
    targets,
    trained,
    weights,
)
from symsgd import Start, losses, penalties, schedules
from symsgd.combiners import Exact, Mean, Projected, Sum
from symsgd.strategies import (
    Async,
    Averaging,
    HogBatch,
    Hogwild,
    MapReduce,
    ParameterServer,
    RoundRobin,
    Strategy,
)

OLS = losses.SquaredError()
TOLERANCE = 1e-10

# Least squares, merged exactly


def ols_case(layout: str, n: int = 61, f: int = 9, **more: Any) -> dict[str, Any]:
    X = dense_rows(n, f, density=1.0 if layout == "dense" else 0.4)
    case = {"X": laid_out(X, layout), "y": targets(X, OLS), "penalty": None, "schedule": SCHEDULES[1], "n_passes": 3}
    return case | more


def assert_sequential(case: dict[str, Any], strategy: Strategy, n_threads: int) -> None:
    case = dict(case)
    X, y = case.pop("X"), case.pop("y")
    result = trained(X, y, strategy, n_threads=n_threads, loss=OLS, **case)
    expected = trained(X, y, "sequential", loss=OLS, **case)
    # a block's losses are those of its own start, so only the models are alike
    for part in ("coef", "intercept"):
        close(getattr(result, part), getattr(expected, part), TOLERANCE)
    if expected.average_coef is not None:
        close(result.average_coef, expected.average_coef, TOLERANCE)
        close(result.average_intercept, expected.average_intercept, TOLERANCE)
    assert result.t == expected.t
    assert np.abs(expected.coef).max() > 0.01


@pytest.mark.parametrize("form", ["matrix", "walk"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("block_size", [1, 7, 64, 1000])
@pytest.mark.parametrize("n_threads", [2, 3, 8, 16])
def test_threads_and_blocks_do_not_matter(n_threads: int, block_size: int, layout: str, form: Any) -> None:
    """61 rows: no block × threads divides them, and 16 blocks of 7 are more than there are."""
    assert_sequential(ols_case(layout), MapReduce(Exact(form), block_size), n_threads)


@pytest.mark.parametrize(
    "more",
    [
        {"sample_weight": weights(61)},
        {"penalty": penalties.L2(0.3)},
        {"penalty": penalties.L2(0.3), "fit_intercept": False},
        {"fit_intercept": False},
        {"schedule": schedules.Constant(0.3), "penalty": penalties.L2(0.1), "sample_weight": weights(61)},
        {"schedule": schedules.Optimal(0.5)},
        {"schedule": schedules.Adaptive(0.1)},
        {"average": True},
        {"average": 70, "penalty": penalties.L2(0.3), "sample_weight": weights(61)},
        {"init": Start(np.arange(9.0), np.array([0.5]), 20.0), "penalty": penalties.L2(0.1)},
        {"shuffle": False},
        {"shuffle": True, "seed": 11},
    ],
    ids=lambda more: "-".join(more),
)
@pytest.mark.parametrize("form", ["matrix", "walk"])
@pytest.mark.parametrize("layout", ["dense", "csr", "csr64"])
def test_nor_does_anything_else(layout: str, form: Any, more: dict[str, Any]) -> None:
    for n_threads, block_size in [(3, 5), (16, 2)]:
        assert_sequential(ols_case(layout, **more), MapReduce(Exact(form), block_size), n_threads)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("form", ["matrix", "walk"])
def test_more_threads_than_rows(form: Any, n: int) -> None:
    for layout in ("dense", "csr"):
        X = dense_rows(n, 4)
        case = {"X": laid_out(X, layout), "y": np.arange(1.0, n + 1), "penalty": penalties.L2(0.1), "n_passes": 4}
        for n_threads, block_size in [(16, 1), (16, 3), (3, 100)]:
            case["schedule"] = schedules.Constant(0.3)
            assert_sequential(case, MapReduce(Exact(form), block_size), n_threads)


@pytest.mark.parametrize("shuffle", [True, "full", False])
def test_long_runs(shuffle: Any) -> None:
    """More than a window of rows, and passes enough for the scale of the weights to be folded in."""
    X = dense_rows(9000, 6, scale=0.2)
    case = {"X": X, "y": targets(X, OLS), "penalty": penalties.L2(0.02), "schedule": schedules.Constant(0.1)}
    assert_sequential(case | {"shuffle": shuffle}, MapReduce(Exact(), 100), 8)


@pytest.mark.parametrize("penalty", [None, penalties.L2(0.1)], ids=["none", "l2"])
def test_wide_sparse_rows_are_walked(penalty: Any) -> None:
    """20,000 features, of which a block has a few hundred; the matrix would have 400 million numbers."""
    X = sp.random(211, 20_000, density=0.002, format="csr", random_state=0)
    y = np.asarray(X @ np.random.default_rng(1).standard_normal(20_000)) + 0.3
    case = {"X": X, "y": y, "penalty": penalty, "schedule": schedules.Constant(0.1), "sample_weight": weights(211)}
    for form in ("walk", "auto"):
        assert_sequential(case, MapReduce(Exact(form), 16), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("penalty", [None, penalties.L2(0.2)], ids=["none", "l2"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_kept_combiners_are_those_of_every_pass(fit_intercept: bool, penalty: Any, layout: str) -> None:
    case = ols_case(
        layout,
        penalty=penalty,
        schedule=schedules.Constant(0.2),
        shuffle=False,
        sample_weight=weights(61),
        fit_intercept=fit_intercept,
        n_passes=5,
    )
    for n_threads, block_size in [(3, 7), (16, 1), (2, 64)]:
        kept, fresh = (
            trained(case["X"], case["y"], MapReduce(Exact(keep=keep), block_size), n_threads=n_threads, loss=OLS,
                    **{key: value for key, value in case.items() if key not in ("X", "y")})
            for keep in (True, False)
        )  # fmt: skip
        assert_same_result(kept, fresh)
        assert_sequential(case, MapReduce(Exact(keep=True), block_size), n_threads)


def test_kept_combiners_of_several_classes() -> None:
    """Their class weights tell them apart."""
    X = dense_rows(61, 9)
    case = {"loss": OLS, "classes": [0, 1, 2], "class_weight": [0.3, 1.0, 2.0], "schedule": schedules.Constant(0.2)}
    case |= {"shuffle": False, "penalty": penalties.L2(0.1), "n_passes": 5}
    expected = trained(X, np.arange(61) % 3, "sequential", **case)
    kept = trained(X, np.arange(61) % 3, MapReduce(Exact(keep=True), 7), n_threads=3, **case)
    close(kept.coef, expected.coef, TOLERANCE)
    close(kept.intercept, expected.intercept, TOLERANCE)


def test_kept_combiners_when_classes_stop() -> None:
    """Class 0 has nothing to learn and stops after a few passes; the others' combiners are still their own."""
    X = dense_rows(61, 9)
    y = targets(X, OLS)
    labels = np.where(y > np.median(y), 1, 2)
    labels[0] = 0
    case = {"loss": OLS, "classes": [0, 1, 2], "class_weight": [1e-6, 1.0, 2.0], "schedule": schedules.Constant(0.05)}
    case |= {"shuffle": False, "penalty": None, "n_passes": 30, "tol": 1e-4, "patience": 2}
    results = [trained(X, labels, MapReduce(Exact(keep=keep), 7), n_threads=3, **case) for keep in (True, False)]
    assert_same_result(*results)


def test_a_result_goes_on_where_it_ended() -> None:
    """Half the passes and then the other half: storage order starts again with every call."""
    case = ols_case("dense", shuffle=False, penalty=penalties.L2(0.1), average=10)
    X, y, schedule = case["X"], case["y"], case["schedule"]
    more = {"loss": OLS, "shuffle": False, "penalty": case["penalty"], "average": 10, "schedule": schedule}
    whole = trained(X, y, "sequential", n_passes=4, **more)
    strategy, half = MapReduce(Exact(), 5), trained(X, y, MapReduce(Exact(), 5), n_threads=3, **more)
    again = trained(X, y, strategy, n_threads=3, init=half, **more)
    close(again.coef, whole.coef, TOLERANCE)
    close(again.average_coef, whole.average_coef, TOLERANCE)
    assert again.t == whole.t


# One thread


ALONE: dict[str, Strategy] = {
    "mr-symsgd": MapReduce(Projected(7), 8),
    "exact": MapReduce(Exact("matrix"), 8),
    "walk": MapReduce(Exact("walk"), 8),
    "sum": MapReduce(Sum(), 8),
    "mean": MapReduce(Mean(), 8),
    "averaging": Averaging(),
    "hogwild": Hogwild(),
    "hogbatch": HogBatch(batch_size=1),
    "round-robin": RoundRobin(),
    "parameter-server": ParameterServer(8),
    "async-symsgd": Async(block_size=8),
    "async-all-frequent": Async(Projected(3), block_size=8, frequent_threshold=0.0),
    "async-all-rare": Async(block_size=8, frequent_threshold=1.0),
    "async-exact": Async(Exact(), block_size=8),
    "async-sum": Async(Sum(), block_size=300),
}
RACY = [key for key, strategy in ALONE.items() if strategy.name not in ("mr-symsgd", "averaging")]


def assert_sequential_alone(X: Any, y: Any, strategy: Strategy, **case: Any) -> None:
    result = trained(X, y, strategy, n_threads=1, **case)
    assert_same_result(result, trained(X, y, "sequential", **case))
    assert result.strategy.startswith(f"{strategy.name}: ")


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("strategy", ALONE)
def test_one_thread_is_sequential(strategy: str, loss: Any, layout: str) -> None:
    X = dense_rows(43, 11, density=1.0 if layout == "dense" else 0.3)
    y = targets(X, loss)
    for turn, penalty in enumerate(PENALTIES[:2] if strategy in RACY else PENALTIES):
        average = strategy not in RACY and penalty.name != "lasso"
        assert_sequential_alone(
            laid_out(X, layout),
            y,
            ALONE[strategy],
            loss=loss,
            penalty=penalty,
            schedule=SCHEDULES[turn % 4],
            sample_weight=weights(43),
            class_weight=(0.7, 1.6) if loss.margin and loss.name != "one_class" else None,
            average=17 if average else False,
            fit_intercept=turn != 1,
        )


@pytest.mark.parametrize("schedule", PASSIVE_AGGRESSIVE, ids=name)
@pytest.mark.parametrize("strategy", ALONE)
def test_one_thread_with_passive_aggressive_steps(strategy: str, schedule: Any) -> None:
    for loss in (losses.Hinge(), losses.EpsilonInsensitive(0.2)):
        X = dense_rows(43, 11, density=0.3)
        X[:, 0] = np.where(X.any(axis=1), X[:, 0], 0.25)
        for layout in ("csr", "dense"):
            case = {"loss": loss, "penalty": PENALTIES[1], "schedule": schedule, "sample_weight": weights(43)}
            assert_sequential_alone(laid_out(X, layout), targets(X, loss), ALONE[strategy], **case)


@pytest.mark.parametrize("strategy", ALONE)
def test_one_thread_passes_over_rows_of_zeros(strategy: str) -> None:
    X, schedule = dense_rows(43, 11, density=0.3), PASSIVE_AGGRESSIVE[0]
    assert not X.any(axis=1).all()
    case = {"loss": losses.Hinge(), "penalty": PENALTIES[1], "schedule": schedule}
    matrix, y = laid_out(X, "csr"), targets(X, losses.Hinge())
    result, other = trained(matrix, y, ALONE[strategy], n_threads=1, **case), trained(matrix, y, "sequential", **case)
    assert result.t == other.t  # the losses differ: only the sequential loop counts those of rows it passes over
    close(result.coef, other.coef, 1e-10)
    close(result.intercept, other.intercept, 1e-10)


@pytest.mark.parametrize("n_classes", [3, 9])
@pytest.mark.parametrize("strategy", ALONE)
def test_one_thread_with_several_classes(strategy: str, n_classes: int) -> None:
    for layout, loss in [("dense", losses.LogLoss()), ("csr", losses.Hinge())]:
        X = dense_rows(61, 11, density=1.0 if layout == "dense" else 0.3)
        assert_sequential_alone(
            laid_out(X, layout),
            np.arange(61) % n_classes,
            ALONE[strategy],
            loss=loss,
            penalty=penalties.L2(0.05),
            schedule=SCHEDULES[1],
            class_weight=np.linspace(0.5, 1.5, n_classes),
            sample_weight=weights(61),
        )


@pytest.mark.parametrize("strategy", ALONE)
def test_one_thread_over_many_windows(strategy: str) -> None:
    """Decay so strong that the racy strategies cut the pass into stretches, in single precision too."""
    X = dense_rows(9000, 25, density=0.2, scale=0.2)
    for dtype, tolerance in [(np.float64, 1e-10), (np.float32, 2e-4)]:
        case = {"loss": losses.LogLoss(), "penalty": penalties.L2(0.1), "schedule": schedules.Constant(0.1)}
        case |= {"shuffle": True}
        matrix, y = laid_out(X, "csr", dtype), targets(X, losses.LogLoss())
        result = trained(matrix, y, ALONE[strategy], n_threads=1, **case)
        assert result.coef.dtype == dtype
        assert_same_result(result, trained(matrix, y, "sequential", **case), tolerance)
