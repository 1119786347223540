"""Pairs that make no sense are refused before anything runs, by an error that says why; so are bad numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from strategy_cases import NAMES, RACY, name
from symsgd import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor, penalties, schedules, strategies, train
from symsgd.combiners import AdaGradMean, Curvature, Exact, Mean, Projected, Sum
from symsgd.strategies import (
    AllReduce,
    Async,
    Averaging,
    HogBatch,
    Hogwild,
    MapReduce,
    ParameterServer,
    RoundRobin,
    Sequential,
)

N, F = 24, 5
X = np.random.default_rng(0).standard_normal((N, F))
Y = np.where(X[:, 0] > 0, 1, -1)
WITH_L1 = [penalties.L1(0.1), penalties.ElasticNet(0.1, 0.5), penalties.Lasso(0.1)]
IN_ROUNDS = [
    MapReduce(),
    MapReduce(Exact()),
    MapReduce(Exact("walk")),
    MapReduce(Sum()),
    MapReduce(Mean()),
    Averaging(),
]
ADAGRAD = [AllReduce(), MapReduce(AdaGradMean())]


class Untouched:
    """Data that must not be looked at, and a callback that must not be called."""

    def __getattr__(self, attribute: str) -> Any:
        raise AssertionError(f"looked at {attribute}")

    def __call__(self, record: Any) -> None:
        raise AssertionError("a pass was run")


def refused(message: str, **case: Any) -> None:
    """The choices alone are refused: the data is not even looked at."""
    with pytest.raises(ValueError, match=message):
        train(Untouched(), Untouched(), callbacks=Untouched(), **case)


def accepted(**case: Any) -> None:
    result = train(X, Y, n_threads=2, n_passes=1, **{"schedule": schedules.Constant(0.01), **case})
    assert result.passes[0].rows == N


# Racy strategies


@pytest.mark.parametrize("penalty", WITH_L1, ids=name)
@pytest.mark.parametrize("strategy", RACY.values(), ids=list(RACY))
def test_racy_strategies_have_no_l1(strategy: Any, penalty: Any) -> None:
    """Neither as instances nor by name, nor on one thread."""
    message = f"strategy='{strategy.name}' does not work with penalty='{penalty.name}': .*pay too often or not at all; "
    message += "use a strategy in rounds"
    for choice in (strategy, strategy.name):
        refused(message, strategy=choice, penalty=penalty)
    refused(message, strategy=strategy, penalty=penalty.name, n_threads=1)
    accepted(strategy=strategy, penalty=penalties.L2(0.1))
    accepted(strategy=strategy, penalty=None)


@pytest.mark.parametrize("average", [True, 1, 10])
@pytest.mark.parametrize("strategy", RACY.values(), ids=list(RACY))
def test_racy_strategies_have_no_averages(strategy: Any, average: Any) -> None:
    message = f"strategy='{strategy.name}' does not work with average: its threads leave no sequence of models"
    refused(message, strategy=strategy, average=average)
    accepted(strategy=strategy, average=False)


@pytest.mark.parametrize("strategy", IN_ROUNDS, ids=name)
def test_strategies_in_rounds_have_both(strategy: Any) -> None:
    for penalty in WITH_L1:
        accepted(strategy=strategy, penalty=penalty)
    for average in (True, 10):
        accepted(strategy=strategy, average=average)
        accepted(strategy=strategy, average=average, penalty=WITH_L1[0])


@pytest.mark.parametrize("strategy", ["hogwild", "parameter-server", "async-symsgd"])
def test_estimators_refuse_too(strategy: str) -> None:
    """And stay as they were."""
    model = SGDClassifier(max_iter=3, tol=None, n_jobs=2, strategy=strategy).fit(X, Y)
    before = dict(vars(model))
    for parameters in ({"penalty": "l1"}, {"penalty": "elasticnet"}, {"penalty": "l2", "average": True}):
        model.set_params(**parameters)
        before |= parameters
        for fit in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=f"strategy='{strategy}' does not work with"):
                fit(X, Y)
        assert vars(model).keys() == before.keys()
        assert all(value is before[key] for key, value in vars(model).items() if key.endswith("_"))


# AdaGrad


@pytest.mark.parametrize("strategy", ADAGRAD, ids=name)
def test_adagrad_has_its_own_steps(strategy: Any) -> None:
    for schedule in (schedules.PassiveAggressive1(1.0), schedules.PassiveAggressive2(1.0)):
        message = f"strategy='{strategy.name}' brings AdaGrad's step sizes; schedule='{schedule.name}' takes its own"
        refused(message, strategy=strategy, schedule=schedule, loss="hinge")
    message = f"strategy='{strategy.name}' has a step size for each weight; penalty='lasso' .* use penalty='l1'"
    refused(message, strategy=strategy, penalty="lasso")
    message = f"strategy='{strategy.name}' has a step size for each weight; the offset of the one-class loss"
    refused(message, strategy=strategy, loss="one_class")
    for penalty in WITH_L1[:2]:
        accepted(strategy=strategy, penalty=penalty)


@pytest.mark.parametrize("schedule", [schedules.Constant(1e-9), schedules.InvScaling(100.0), schedules.Optimal(1e-9)])
def test_and_does_not_read_the_schedule(schedule: Any) -> None:
    for strategy in ADAGRAD:
        results = [
            train(X, Y, strategy=strategy, n_threads=2, schedule=chosen, penalty=penalties.L2(0.1))
            for chosen in (schedule, schedules.Constant(0.5))
        ]
        np.testing.assert_array_equal(results[0].coef, results[1].coef)
        assert np.isfinite(results[0].coef).all()


# Combiners


KEEPS: dict[str, Any] = {
    "loss": "squared_error",
    "penalty": "l2",
    "schedule": schedules.Constant(0.01),
    "shuffle": False,
    "average": False,
    "strategy": MapReduce(Exact(keep=True)),
}


@pytest.mark.parametrize(
    ("change", "need"),
    [
        ({"loss": "huber"}, "loss='squared_error'"),
        ({"loss": "log_loss"}, "loss='squared_error'"),
        ({"penalty": "l1"}, "penalty None or 'l2'"),
        ({"penalty": "lasso"}, "penalty None or 'l2'"),
        ({"schedule": "optimal"}, "schedule='constant'"),
        ({"schedule": "invscaling"}, "schedule='constant'"),
        ({"schedule": "adaptive"}, "schedule='constant'"),
        ({"shuffle": True}, "shuffle=False"),
        ({"shuffle": "full"}, "shuffle=False"),
        ({"average": True}, "no average"),
        ({"loss": "huber", "shuffle": True}, "loss='squared_error' and shuffle=False"),
    ],
    ids=lambda case: "-".join(case) if isinstance(case, dict) else "",
)
def test_what_kept_combiners_need(change: dict[str, Any], need: str) -> None:
    refused(rf"combiner=Exact\(keep=True\) needs {need}: only then are a block's combiners", **KEEPS | change)
    accepted(**KEEPS | change | {"strategy": MapReduce(Exact())})


@pytest.mark.parametrize("penalty", [None, "l2", penalties.L2(0.1)], ids=str)
def test_where_combiners_are_kept(penalty: Any) -> None:
    accepted(**KEEPS | {"penalty": penalty})


def test_a_walk_keeps_no_matrix() -> None:
    with pytest.raises(ValueError, match="keep=True keeps matrices, which form='walk' does not make"):
        Exact(form="walk", keep=True)


@pytest.mark.parametrize("form", ["", "Matrix", "second walk", None, 3])
def test_forms_of_exact(form: Any) -> None:
    with pytest.raises(ValueError, match=r"form=.* is not known; accepted are 'auto', 'matrix', 'walk'"):
        Exact(form=form)


@pytest.mark.parametrize("combiner", [Mean(), AdaGradMean(), "projected", None, Projected, 3], ids=repr)
def test_combiners_of_async(combiner: Any) -> None:
    message = r"combiner=.* is not accepted; it must be one of symsgd.combiners: "
    message += "Exact, Projected, Curvature, Sum"
    with pytest.raises(ValueError, match=message):
        Async(combiner)


@pytest.mark.parametrize("combiner", [Exact("walk"), Exact(keep=True)], ids=repr)
def test_async_has_no_second_walk(combiner: Any) -> None:
    with pytest.raises(
        ValueError, match=r"no second walk and no block that comes again; combiner=Exact\(form='matrix'\)"
    ):
        Async(combiner)


@pytest.mark.parametrize("combiner", ["projected", None, Projected, 3, Hogwild()], ids=repr)
def test_combiners_of_rounds(combiner: Any) -> None:
    message = r"combiner=.* is not accepted; it must be one of symsgd.combiners: "
    message += "Exact, Projected, Curvature, Sum, Mean, AdaGradMean"
    with pytest.raises(ValueError, match=message):
        MapReduce(combiner)


# Curvature


CURVATURE = [MapReduce(Curvature()), MapReduce(Curvature(), "auto"), MapReduce(Curvature(8, 2, 0.1), 16)]
ASYNC_CURVATURE = [Async(Curvature()), Async(Curvature(), "auto"), Async(Curvature(8, 0, 0.1), 16)]


@pytest.mark.parametrize("strategy", CURVATURE, ids=lambda s: str(s.block_size))
def test_curvature_does_not_merge_halves(strategy: Any) -> None:
    """On one thread too, so that what is refused does not depend on the machine."""
    message = (
        r"strategy='mr-symsgd' with combiner=Curvature\(\) does not merge the halves of weights that penalty='lasso'"
    )
    refused(message, strategy=strategy, penalty="lasso")
    refused(message, strategy=strategy, penalty=penalties.Lasso(0.1), n_threads=1)
    for penalty in (None, "l2", penalties.L2(0.1)):
        for average in (False, True, 10):
            accepted(strategy=strategy, penalty=penalty, average=average)


def test_sweeps_would_pay_l1_again() -> None:
    for penalty in (penalties.L1(0.1), penalties.ElasticNet(0.1, 0.5)):
        message = rf"combiner=Curvature\(refine=2\) trains blocks again, and would pay penalty='{penalty.name}' again"
        refused(message, strategy=MapReduce(Curvature(refine=2)), penalty=penalty)
        for refine in (0, "auto"):
            accepted(strategy=MapReduce(Curvature(refine=refine)), penalty=penalty)


@pytest.mark.parametrize("schedule", [schedules.PassiveAggressive1(1.0), schedules.PassiveAggressive2(1.0)], ids=name)
@pytest.mark.parametrize("strategy", [*CURVATURE, *ASYNC_CURVATURE], ids=lambda s: f"{s.name}-{s.block_size}")
def test_curvature_knows_step_sizes_beforehand(strategy: Any, schedule: Any) -> None:
    message = r"combiner=Curvature\(\) needs to know the step sizes of a block beforehand; "
    message += f"schedule='{schedule.name}' takes them from the margins"
    for loss in ("hinge", "epsilon_insensitive"):
        refused(message, strategy=strategy, schedule=schedule, loss=loss)


@pytest.mark.parametrize("combiner", [Exact(), Projected(), Sum(), Mean(), AdaGradMean()], ids=name)
def test_only_curvature_measures_errors(combiner: Any) -> None:
    message = r"block_size='auto' follows the measured error of combiner=Curvature\(\), which .* does not measure; "
    with pytest.raises(ValueError, match=message + "give a number of rows"):
        MapReduce(combiner, block_size="auto")  # type: ignore[arg-type]
    if combiner in (Exact(), Projected(), Sum()):
        with pytest.raises(ValueError, match=message + "give a number of rows"):
            Async(combiner, block_size="auto")


@pytest.mark.parametrize("value", ["Auto", "", 0, None, 1.5], ids=repr)
def test_blocks_of_curvature(value: Any) -> None:
    with pytest.raises(ValueError, match=r"block_size=.* is not accepted; it must be 'auto' or an integer >= 1"):
        MapReduce(Curvature(), block_size=value)
    with pytest.raises(ValueError, match=r"block_size=.* is not accepted; it must be 'auto' or an integer >= 1"):
        Async(Curvature(), block_size=value)


@pytest.mark.parametrize("refine", [0, 1, 5])
def test_blocks_follow_an_error_that_is_measured(refine: int) -> None:
    message = r"block_size='auto' follows the error that combiner=Curvature\(refine='auto'\) measures; "
    with pytest.raises(ValueError, match=message + f"refine={refine} needs a number of rows"):
        MapReduce(Curvature(refine=refine), block_size="auto")
    with pytest.raises(ValueError, match=message + f"refine={refine} needs a number of rows"):
        Async(Curvature(refine=refine), block_size="auto")


@pytest.mark.parametrize("refine", [1, 5])
def test_async_has_no_rounds_to_refine(refine: int) -> None:
    message = rf"Async has no rounds that combiner=Curvature\(refine={refine}\) could sweep over again"
    with pytest.raises(ValueError, match=message):
        Async(Curvature(refine=refine))


@pytest.mark.parametrize(
    "frequent", [{"frequent_threshold": 0.2}, {"frequent_sample": 10}], ids=lambda f: next(iter(f))
)
def test_async_with_curvature_shares_nothing(frequent: Any) -> None:
    with pytest.raises(ValueError, match=r"as in Hogwild!; combiner=Curvature\(\) merges all of them"):
        Async(Curvature(), **frequent)


@pytest.mark.parametrize("value", [0, -1, 1.5, 129, 2**40, True, "64", "AUTO", None, math.nan], ids=repr)
def test_ranks(value: Any) -> None:
    with pytest.raises(ValueError, match=r"rank=.* is not accepted; it must be 'auto' or an integer >= 1"):
        Curvature(rank=value)


@pytest.mark.parametrize("value", [-1, 1.5, True, "2", "AUTO", None, math.nan, math.inf, 2**40], ids=repr)
def test_sweeps(value: Any) -> None:
    with pytest.raises(ValueError, match=r"refine=.* is not accepted; it must be 'auto' or an integer >= 0"):
        Curvature(refine=value)


@pytest.mark.parametrize("value", [False, 0.0], ids=repr)
def test_sweeps_that_only_look_like_none(value: Any) -> None:
    with pytest.raises(ValueError, match=r"refine=.* is not accepted"):
        Curvature(refine=value)


@pytest.mark.parametrize("value", [0, 0.0, -0.1, math.nan, math.inf], ids=repr)
def test_tolerances(value: Any) -> None:
    with pytest.raises(ValueError, match=r"tolerance=.* is not accepted; it must be a finite number > 0"):
        Curvature(tolerance=value)


def test_parameters_of_curvature() -> None:
    for combiner in (
        Curvature(rank=1, refine=0, tolerance=1e-9),
        Curvature(rank=128, refine=10**6, tolerance=1e9),
        Curvature(rank=np.int8(5), refine=np.uint16(1), tolerance=np.float32(0.5)),  # type: ignore[arg-type]
        Curvature(rank=7, refine=2, tolerance=1),
    ):
        accepted(strategy=MapReduce(combiner, np.int64(3)))  # type: ignore[arg-type]
        assert hash(combiner) == hash(Curvature(combiner.rank, combiner.refine, combiner.tolerance))
    assert Curvature() == Curvature("auto", "auto", 0.01)


# Names and numbers


@pytest.mark.parametrize("strategy", ["", "symsgd", "Hogwild", "mr_symsgd", None, 3, Hogwild, Exact()], ids=repr)
def test_unknown_strategies_list_the_known(strategy: Any) -> None:
    with pytest.raises(ValueError, match=r"strategy=.* is not known; accepted are ") as error:
        train(Untouched(), Untouched(), strategy=strategy)
    for known in [*NAMES, "auto"]:
        assert repr(known) in str(error.value)
    assert "or an instance of symsgd.strategies.Strategy" in str(error.value)


@pytest.mark.parametrize("estimator", [SGDClassifier, SGDRegressor, Perceptron, SGDOneClassSVM])
def test_estimators_list_them_too(estimator: Any) -> None:
    with pytest.raises(ValueError, match="'mr-symsgd'"):
        estimator(strategy="symsgd").fit(X, Y)


COUNTS = [0, -1, 1.5, 2.0, "3", None, True, math.nan, math.inf, [1]]


@pytest.mark.parametrize("value", COUNTS, ids=repr)
@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda v: HogBatch(v), "batch_size"),
        (lambda v: RoundRobin(v), "batch_size"),
        (lambda v: ParameterServer(v), "block_size"),
        (lambda v: MapReduce(block_size=v), "block_size"),
        (lambda v: Async(block_size=v), "block_size"),
        (lambda v: Async(frequent_sample=v), "frequent_sample"),
        (lambda v: Projected(v), "k"),
    ],
    ids=["hogbatch", "round-robin", "parameter-server", "mr-symsgd", "async-symsgd", "sample", "k"],
)
def test_counts(make: Any, argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{argument}=.* is not accepted; it must be an integer >= 1"):
        make(value)


@pytest.mark.parametrize("make", [HogBatch, RoundRobin])
def test_batches_are_part_of_what_a_thread_takes_at_a_time(make: Any) -> None:
    with pytest.raises(ValueError, match="batch_size=257 is not accepted; it must be an integer >= 1 and <= 256"):
        make(257)
    accepted(strategy=make(256))


@pytest.mark.parametrize("value", [np.int8(3), np.int64(3), np.uint32(3)], ids=lambda v: v.dtype.name)
def test_integers_of_every_type(value: Any) -> None:
    for strategy in (HogBatch(value), RoundRobin(value), ParameterServer(value), MapReduce(Projected(value), value)):
        accepted(strategy=strategy)
    accepted(strategy=Async(Projected(value), value, 0.5, value))


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_thresholds(value: float) -> None:
    with pytest.raises(
        ValueError, match=r"frequent_threshold=.* is not accepted; it must be a finite number >= 0 and <= 1"
    ):
        Async(frequent_threshold=value)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("make", [AllReduce, AdaGradMean])
def test_step_sizes(make: Any, value: float) -> None:
    with pytest.raises(ValueError, match=r"step_size=.* is not accepted; it must be a finite number > 0"):
        make(value)


@pytest.mark.parametrize("value", ["0.5", None, True, [0.5]], ids=repr)
def test_what_is_no_number(value: Any) -> None:
    for make in (AllReduce, AdaGradMean, lambda v: Async(frequent_threshold=v), lambda v: Curvature(tolerance=v)):
        with pytest.raises(TypeError, match=r"=.* is not a number"):
            make(value)


def test_choices_cannot_be_changed() -> None:
    for choice in (Sequential(), Hogwild(), MapReduce(), Async(), Projected(), Exact()):
        with pytest.raises(AttributeError):
            choice.block_size = 3  # type: ignore[attr-defined, union-attr]
        assert hash(choice) == hash(type(choice)())
        assert choice == type(choice)()
    assert set(strategies.STRATEGIES) == {*NAMES, "sliced", "directions", "auto"}


# Decay that shared weights cannot follow


TOO_STRONG = (
    "step size × l2 is so large that weights vanish within a block, which threads that share them cannot follow"
)
SHARING = [Hogwild(), HogBatch(4), RoundRobin(2), Async(block_size=16)]


@pytest.mark.parametrize("schedule", [schedules.Constant(0.5), schedules.InvScaling(0.5, power=0.1)], ids=name)
@pytest.mark.parametrize("strategy", SHARING, ids=name)
def test_decay_that_shared_weights_cannot_follow(strategy: Any, schedule: Any) -> None:
    """step × l2 = 1, which leaves nothing of the weights."""
    rows = sp.csr_matrix(np.maximum(X, 0.0))
    case = {"schedule": schedule, "n_threads": 2, "loss": "squared_error"}
    with pytest.raises(ValueError, match=f"{TOO_STRONG}; a smaller step size or alpha"):
        train(rows, Y, strategy=strategy, penalty=penalties.L2(2.0), **case)
    for other in (MapReduce(block_size=4), ParameterServer(4), Averaging()):
        assert np.isfinite(train(rows, Y, strategy=other, penalty=penalties.L2(2.0), **case).coef).all()


@pytest.mark.parametrize("strategy", SHARING, ids=name)
def test_an_estimator_is_left_as_it_was_by_it(strategy: Any) -> None:
    rows = sp.csr_matrix(np.maximum(X, 0.0))
    model = SGDClassifier(learning_rate="constant", eta0=0.1, strategy=strategy, n_jobs=2, tol=None, max_iter=3)
    model.fit(rows, Y)
    before, coef = dict(vars(model)), model.coef_.copy()
    model.set_params(alpha=20.0)
    for fit in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=TOO_STRONG):
            fit(rows, Y)
    assert vars(model).keys() == before.keys()
    assert all(value is before[key] for key, value in vars(model).items() if key.endswith("_"))
    np.testing.assert_array_equal(model.coef_, coef)


@pytest.mark.parametrize("strategy", SHARING, ids=name)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda t: t.__name__)
def test_decay_that_they_can_follow(strategy: Any, dtype: Any) -> None:
    """Half of the weights every few steps: a pass is cut into many stretches. On one thread it is sequential."""
    rng = np.random.default_rng(1)
    rows = sp.csr_matrix((rng.standard_normal((900, F)) * (rng.random((900, F)) < 0.5)).astype(dtype))
    y = np.where(rng.random(900) < 0.5, 1, -1)
    case = {"schedule": schedules.Constant(0.1), "penalty": penalties.L2(1.0), "n_passes": 2}
    wanted = train(rows, y, strategy="sequential", **case)
    found = train(rows, y, strategy=strategy if strategy.name != "hogbatch" else HogBatch(1), n_threads=1, **case)
    if strategy.name == "round-robin":
        found = train(rows, y, strategy=RoundRobin(1), n_threads=1, **case)
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(found.coef, wanted.coef, rtol=tolerance, atol=tolerance)
    several = train(rows, y, strategy=strategy, n_threads=5, **case)
    assert np.abs(several.coef).max() < 10 * np.abs(wanted.coef).max()
