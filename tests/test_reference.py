"""The oracle against scikit-learn 1.9, against finite differences, and against its own definitions.

What agrees with scikit-learn agrees to 1e-9. What differs on purpose (averages under L1, objectives of sparse rows; see
symsgd/reference/) is held against its definition instead.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.linear_model
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils._seq_dataset import ArrayDataset64

from symsgd import losses, penalties, reference, schedules

LARGEST_INT = np.iinfo(np.int32).max
ALPHA = 0.05
N, F = 31, 7

MARGIN_LOSSES = [
    losses.LogLoss(),
    losses.Hinge(),
    losses.Perceptron(),
    losses.SquaredHinge(),
    losses.ModifiedHuber(),
]
REGRESSION_LOSSES = [
    losses.SquaredError(),
    losses.Huber(epsilon=0.3),
    losses.EpsilonInsensitive(epsilon=0.2),
    losses.SquaredEpsilonInsensitive(epsilon=0.2),
]
ALL_LOSSES = [*MARGIN_LOSSES, *REGRESSION_LOSSES, losses.OneClass(nu=0.3)]
LEARNERS = [
    *[("classifier", loss) for loss in [*MARGIN_LOSSES, *REGRESSION_LOSSES]],
    *[("regressor", loss) for loss in REGRESSION_LOSSES],
]
PENALTIES = [
    penalties.NoPenalty(),
    penalties.L2(ALPHA),
    penalties.L1(ALPHA),
    penalties.ElasticNet(ALPHA, l1_ratio=0.4),
]
SCHEDULES = [
    schedules.Constant(0.3),
    schedules.Optimal(ALPHA),
    schedules.InvScaling(0.5, power=0.3),
    schedules.Adaptive(0.2),
]
PASSIVE_AGGRESSIVE = [schedules.PassiveAggressive1(0.4), schedules.PassiveAggressive2(0.7)]
PASSIVE_AGGRESSIVE_LEARNERS = [("classifier", losses.Hinge()), ("regressor", losses.EpsilonInsensitive(epsilon=0.2))]
LAYOUTS = ["dense, storage order", "dense, shuffled", "sparse, shuffled"]


def name(case: Any) -> str:
    return "-".join(map(name, case)) if isinstance(case, tuple) else getattr(case, "name", str(case))


def rows(sparse: bool = False, seed: int = 0) -> np.ndarray:
    """Rows short enough (‖x‖² about 0.3) for the first steps of "optimal" not to diverge."""
    rng = np.random.default_rng(seed)
    X = 0.2 * rng.standard_normal((N, F))
    return np.where(rng.random((N, F)) < 0.5, X, 0.0) if sparse else X


def targets(X: np.ndarray, learner: str, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = X @ rng.standard_normal(F) * 3 + 0.5 + 0.3 * rng.standard_normal(len(X))
    return np.where(y > np.median(y), 1.0, -1.0) if learner == "classifier" else y


def estimator(learner: str, loss: Any, penalty: Any, schedule: Any, **more: Any) -> Any:
    """scikit-learn's estimator for our choices, without a stopping rule."""
    parameters: dict[str, Any] = {"learning_rate": schedule.name, "tol": None, "random_state": 3, **more}
    for here, there in [("step_size", "eta0"), ("aggressiveness", "eta0"), ("power", "power_t")]:
        if hasattr(schedule, here):
            parameters[there] = getattr(schedule, here)
    if learner == "one-class":
        return sklearn.linear_model.SGDOneClassSVM(nu=loss.nu, **parameters)
    parameters |= {"loss": loss.name, "penalty": None if penalty.name == "none" else penalty.name}
    parameters["alpha"] = getattr(penalty, "alpha", ALPHA)
    parameters["l1_ratio"] = getattr(penalty, "l1_ratio", 0.15)
    if hasattr(loss, "epsilon"):
        parameters["epsilon"] = loss.epsilon
    theirs = sklearn.linear_model.SGDClassifier if learner == "classifier" else sklearn.linear_model.SGDRegressor
    return theirs(**parameters)


def shuffle_seed(learner: str, random_state: int = 3) -> int:
    """The seed of the shuffle that scikit-learn draws from `random_state`."""
    rng = np.random.RandomState(random_state)
    if learner == "classifier":
        rng.randint(1, LARGEST_INT)
    return int(rng.randint(0, LARGEST_INT))


def ours(learner: str, loss: Any, penalty: Any, schedule: Any, X: np.ndarray, y: np.ndarray, **more: Any) -> Any:
    """Our run of it; `learner` is there for the signature of `estimator`."""
    arguments = {"orders": reference.storage_order(len(X), 1), **more}
    return reference.sequential(X, y, loss=loss, penalty=penalty, schedule=schedule, **arguments)


def assert_same_model(model: Any, coef: np.ndarray, intercept: float, tolerance: float = 1e-9) -> None:
    their_intercept = 1 - model.offset_ if hasattr(model, "offset_") else model.intercept_
    scale = max(1e-3, float(np.abs(model.coef_).max()))
    assert_allclose(coef, model.coef_.ravel(), rtol=tolerance, atol=tolerance * scale)
    assert_allclose(intercept, float(their_intercept[0]), rtol=tolerance, atol=tolerance * scale)


def compare(learner: str, loss: Any, penalty: Any, schedule: Any, layout: str, passes: int) -> None:
    sparse, shuffled = layout.startswith("sparse"), layout.endswith("shuffled")
    X = rows(sparse)
    y = targets(X, learner)
    model = estimator(learner, loss, penalty, schedule, max_iter=passes, shuffle=shuffled)
    model.fit(scipy.sparse.csr_matrix(X) if sparse else X, y)
    orders = reference.full_order(N, shuffle_seed(learner), passes) if shuffled else reference.storage_order(N, passes)
    run = ours(
        learner,
        loss,
        penalty,
        schedule,
        X,
        y,
        orders=orders,
        intercept_decay=0.01 if sparse else 1.0,
        touched="nonzero" if sparse else "all",
        intercept=1.0 if learner == "one-class" else 0.0,
    )
    assert_same_model(model, run.coef, run.intercept)
    skipped = (X == 0).all(axis=1).sum() * passes if schedule.name == "pa1" else 0  # model.t_ counts those too
    assert run.t == model.t_ - skipped
    assert_allclose(
        reference.decision(X, run.coef, run.intercept),
        model.predict(X) if learner == "regressor" else model.decision_function(X) + (learner == "one-class"),
        rtol=1e-8,
        atol=1e-8,
    )


# scikit-learn's models


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=name)
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_sequential_is_scikit_learns(case: Any, penalty: Any, schedule: Any, layout: str) -> None:
    compare(*case, penalty, schedule, layout, passes=2)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("schedule", PASSIVE_AGGRESSIVE, ids=name)
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("case", PASSIVE_AGGRESSIVE_LEARNERS, ids=name)
def test_passive_aggressive_is_scikit_learns(case: Any, penalty: Any, schedule: Any, layout: str) -> None:
    compare(*case, penalty, schedule, layout, passes=2)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("schedule", [schedules.Optimal(0.3), *SCHEDULES[:1], *SCHEDULES[2:]], ids=name)
def test_one_class_is_scikit_learns(schedule: Any, layout: str) -> None:
    """Its L2 strength, and the alpha of "optimal", are ν; scikit-learn starts it from an intercept of 1."""
    compare("one-class", losses.OneClass(nu=0.3), penalties.L2(0.3), schedule, layout, passes=4)


@pytest.mark.parametrize("passes", [1, 2, 7, 20])
@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_any_number_of_passes(case: Any, passes: int) -> None:
    compare(*case, penalties.ElasticNet(ALPHA, 0.15), schedules.Optimal(ALPHA), "sparse, shuffled", passes)


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_sample_and_class_weights_multiply(penalty: Any) -> None:
    X = rows()
    y = targets(X, "classifier")
    sample_weight = np.random.default_rng(2).uniform(0.0, 2.0, N)
    sample_weight[3] = 0.0
    for loss in [*MARGIN_LOSSES, *REGRESSION_LOSSES]:
        model = estimator("classifier", loss, penalty, SCHEDULES[0], max_iter=2, shuffle=False)
        model.set_params(class_weight={-1: 0.4, 1: 1.7}).fit(X, y, sample_weight=sample_weight)
        orders = reference.storage_order(N, 2)
        more = {"orders": orders, "sample_weight": sample_weight, "class_weight": (0.4, 1.7)}
        run = ours("classifier", loss, penalty, SCHEDULES[0], X, y, **more)
        assert_same_model(model, run.coef, run.intercept)


@pytest.mark.parametrize("schedule", PASSIVE_AGGRESSIVE, ids=name)
@pytest.mark.parametrize("case", PASSIVE_AGGRESSIVE_LEARNERS, ids=name)
def test_sample_weights_of_passive_aggressive(case: Any, schedule: Any) -> None:
    X, sample_weight = rows(), np.random.default_rng(2).uniform(0.0, 2.0, N)
    y = targets(X, case[0])
    model = estimator(*case, penalties.L2(ALPHA), schedule, max_iter=1, shuffle=False)
    model.fit(X, y, sample_weight=sample_weight)
    run = ours(*case, penalties.L2(ALPHA), schedule, X, y, sample_weight=sample_weight)
    assert_same_model(model, run.coef, run.intercept)


def test_sample_weights_do_not_weigh_the_pull_of_one_class() -> None:
    X, loss = rows(), losses.OneClass(nu=0.3)
    sample_weight = np.random.default_rng(2).uniform(0.0, 2.0, N)
    model = estimator("one-class", loss, None, SCHEDULES[0], max_iter=1, shuffle=False)
    model.fit(X, sample_weight=sample_weight)
    more = {"sample_weight": sample_weight, "intercept": 1.0}
    run = ours("one-class", loss, penalties.L2(0.3), SCHEDULES[0], X, -np.ones(N), **more)  # y is not read
    assert_same_model(model, run.coef, run.intercept)


@pytest.mark.parametrize("case", [LEARNERS[0], LEARNERS[1], LEARNERS[-2]], ids=name)
def test_without_an_intercept(case: Any) -> None:
    X = rows()
    y = targets(X, case[0])
    for penalty in PENALTIES:
        model = estimator(*case, penalty, SCHEDULES[1], max_iter=1, shuffle=False, fit_intercept=False).fit(X, y)
        run = ours(*case, penalty, SCHEDULES[1], X, y, fit_intercept=False)
        assert_same_model(model, run.coef, run.intercept)
        assert run.intercept == 0.0


def test_weights_are_never_scaled_below_zero() -> None:
    X, loss, penalty, schedule = rows(), losses.Hinge(), penalties.L2(ALPHA), schedules.Constant(30.0)
    y = targets(X, "classifier")
    model = estimator("classifier", loss, penalty, schedule, max_iter=2, shuffle=False).fit(X, y)
    run = ours("classifier", loss, penalty, schedule, X, y, orders=reference.storage_order(N, 2))
    assert_same_model(model, run.coef, run.intercept)


def test_gradients_are_clipped() -> None:
    X, loss, schedule = rows(), losses.SquaredError(), schedules.Constant(0.1)
    y = targets(X, "regressor") * 1e13
    model = estimator("regressor", loss, PENALTIES[0], schedule, max_iter=1, shuffle=False).fit(X, y)
    run = ours("regressor", loss, PENALTIES[0], schedule, X, y)
    assert_same_model(model, run.coef, run.intercept)
    assert abs(run.intercept) < N * 0.1 * reference.LARGEST_GRADIENT


def test_masked_rows_are_passed_over() -> None:
    """As scikit-learn passes over the rows it keeps to validate on, which stay in the shuffle."""
    for learner, loss, splitter in [
        ("classifier", losses.Hinge(), StratifiedShuffleSplit),
        ("regressor", losses.Huber(0.3), ShuffleSplit),
    ]:
        X = rows()
        y = targets(X, learner)
        more = {"early_stopping": True, "validation_fraction": 0.3, "n_iter_no_change": 99, "max_iter": 3}
        model = estimator(learner, loss, PENALTIES[2], SCHEDULES[1], **more).fit(X, y)
        mask = np.zeros(N, dtype=bool)
        mask[next(splitter(test_size=0.3, random_state=3).split(X, y))[1]] = True
        orders = reference.full_order(N, shuffle_seed(learner), 3)
        run = ours(learner, loss, PENALTIES[2], SCHEDULES[1], X, y, orders=orders, mask=mask)
        assert_same_model(model, run.coef, run.intercept)
        assert run.t == 1 + 3 * (N - mask.sum())


@pytest.mark.parametrize("schedule", PASSIVE_AGGRESSIVE, ids=name)
@pytest.mark.parametrize("case", PASSIVE_AGGRESSIVE_LEARNERS, ids=name)
def test_rows_of_zeros_under_passive_aggressive(case: Any, schedule: Any) -> None:
    """PA-I takes no step on them, not even the penalty's, and does not count them; PA-II moves the intercept."""
    X = rows()
    y = targets(X, case[0])
    X[[2, 3, 11]] = 0.0
    more = {"average": 6, "orders": reference.storage_order(N, 2)}
    model = estimator(*case, PENALTIES[1], schedule, max_iter=2, shuffle=False, average=6).fit(X, y)
    run = ours(*case, PENALTIES[1], schedule, X, y, **more)
    assert_same_model(model, run.average_coef, run.average_intercept)
    assert run.t == 1 + 2 * N - (6 if schedule.name == "pa1" else 0)


@pytest.mark.parametrize("average", [1, 40])
@pytest.mark.parametrize("schedule", SCHEDULES[:2], ids=name)
@pytest.mark.parametrize("penalty", PENALTIES[:2], ids=name)
@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_averages_are_scikit_learns_without_l1(case: Any, penalty: Any, schedule: Any, average: int) -> None:
    for sparse in (False, True):
        X = rows(sparse)
        y = targets(X, case[0])
        model = estimator(*case, penalty, schedule, max_iter=2, average=average)
        model.fit(scipy.sparse.csr_matrix(X) if sparse else X, y)
        orders = reference.full_order(N, shuffle_seed(case[0]), 2)
        more = {"orders": orders, "average": average, "intercept_decay": 0.01 if sparse else 1.0}
        run = ours(*case, penalty, schedule, X, y, **more)
        assert_same_model(model, run.average_coef, run.average_intercept)


def test_average_that_never_begins() -> None:
    X = rows()
    y = targets(X, "classifier")
    case = ("classifier", losses.Hinge(), PENALTIES[1], SCHEDULES[0])
    model = estimator(*case, max_iter=1, average=N + 1, shuffle=False).fit(X, y)
    run = ours(*case, X, y, average=N + 1)
    assert_same_model(model, run.coef, run.intercept)
    assert_array_equal(run.average_coef, np.zeros(F))


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=name)
@pytest.mark.parametrize("case", [LEARNERS[0], LEARNERS[-1]], ids=name)
def test_continuing_is_partial_fit(case: Any, schedule: Any, penalty: Any) -> None:
    model = estimator(*case, penalty, schedule)
    run = reference.SequentialRun(np.zeros(F), 0.0, np.zeros(F), 0.0, 1.0, np.zeros(0), np.zeros(0))
    for seed in range(3):
        X = rows(seed=seed)
        y = targets(X, case[0])
        model.partial_fit(X, y, **({"classes": [-1, 1]} if case[0] == "classifier" else {}))
        more = {"orders": reference.full_order(N, shuffle_seed(case[0]), 1)}
        run = ours(*case, penalty, schedule, X, y, coef=run.coef, intercept=run.intercept, t=run.t, **more)
        assert_same_model(model, run.coef, run.intercept)


@pytest.mark.parametrize("penalty", PENALTIES[:2], ids=name)
def test_continuing_an_average_is_partial_fit(penalty: Any) -> None:
    case = ("regressor", losses.SquaredError())
    model = estimator(*case, penalty, SCHEDULES[2], average=20)
    run = reference.SequentialRun(np.zeros(F), 0.0, np.zeros(F), 0.0, 1.0, np.zeros(0), np.zeros(0))
    for seed in range(3):
        X = rows(seed=seed)
        y = targets(X, "regressor")
        model.partial_fit(X, y)
        state = {"coef": run.coef, "intercept": run.intercept, "t": run.t}
        state |= {"average_coef": run.average_coef, "average_intercept": run.average_intercept}
        more = {"orders": reference.full_order(N, shuffle_seed("regressor"), 1), "average": 20}
        run = ours(*case, penalty, SCHEDULES[2], X, y, **state, **more)
        assert_same_model(model, run.average_coef, run.average_intercept)


def test_warm_start_from_given_weights() -> None:
    X, coef = rows(), np.random.default_rng(5).standard_normal(F)
    for case in LEARNERS:
        y = targets(X, case[0])
        for penalty in PENALTIES:
            model = estimator(*case, penalty, SCHEDULES[1], max_iter=1, shuffle=False)
            model.fit(X, y, coef_init=coef.copy(), intercept_init=np.array([0.7]))
            run = ours(*case, penalty, SCHEDULES[1], X, y, coef=coef, intercept=0.7)
            assert_same_model(model, run.coef, run.intercept)


# Losses and objectives of a pass


def printed(text: str, what: str) -> np.ndarray:
    return np.array([float(number) for number in re.findall(rf"{what}: (-?[\d.]+)", text)])


@pytest.mark.parametrize("schedule", [*SCHEDULES, *PASSIVE_AGGRESSIVE], ids=name)
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_losses_and_objectives_are_what_scikit_learn_prints(penalty: Any, schedule: Any, capsys: Any) -> None:
    for sparse in (False, True):
        X = rows(sparse)
        y = targets(X, "classifier")
        weights = np.linspace(0.5, 2.0, N)
        model = estimator("classifier", losses.Hinge(), penalty, schedule, max_iter=4, shuffle=False, verbose=1)
        model.fit(scipy.sparse.csr_matrix(X) if sparse else X, y, sample_weight=weights)
        text = capsys.readouterr().out
        more = {"orders": reference.storage_order(N, 4), "sample_weight": weights}
        more |= {"intercept_decay": 0.01, "touched": "nonzero"} if sparse else {}
        run = ours("classifier", losses.Hinge(), penalty, schedule, X, y, **more)
        assert_allclose(run.losses, printed(text, "Avg. loss"), atol=6e-7, rtol=0)
        if penalty.name == "none" or not sparse or schedule.passive_aggressive:
            assert_allclose(run.objectives, printed(text, "Objective"), atol=6e-7, rtol=0)


def test_objective_of_one_class(capsys: Any) -> None:
    X, loss = rows(), losses.OneClass(nu=0.3)
    estimator("one-class", loss, None, SCHEDULES[0], max_iter=4, shuffle=False, verbose=1).fit(X)
    text = capsys.readouterr().out
    more = {"orders": reference.storage_order(N, 4), "intercept": 1.0}
    run = ours("one-class", loss, penalties.L2(0.3), SCHEDULES[0], X, np.ones(N), **more)
    assert_allclose(run.losses, printed(text, "Avg. loss"), atol=6e-7, rtol=0)
    assert_allclose(run.objectives, printed(text, "Objective"), atol=6e-7, rtol=0)


def prefixes(case: Any, penalty: Any, X: np.ndarray, y: np.ndarray, order: np.ndarray, **more: Any) -> list[Any]:
    """The runs of 0, 1, 2, … steps."""
    empty = ours(*case, penalty, SCHEDULES[0], X, y, orders=[], **more)
    return [empty] + [
        ours(*case, penalty, SCHEDULES[0], X, y, orders=[order[:steps]], **more) for steps in range(1, len(order) + 1)
    ]


@pytest.mark.parametrize("penalty", [*PENALTIES, penalties.Lasso(0.01)], ids=name)
def test_averages_and_objectives_by_definition(penalty: Any) -> None:
    """Where scikit-learn's are something else: the mean of all iterates, and of the objectives before each step.

    Their norms are those of w before its last truncation, but of all features.
    """
    case, X = ("regressor", losses.SquaredError()), rows(sparse=True)
    y, order = targets(X, "regressor"), np.random.default_rng(0).permutation(N)
    iterates = prefixes(case, penalty, X, y, order, touched="nonzero")
    run = ours(*case, penalty, SCHEDULES[0], X, y, orders=[order], touched="nonzero", average=5)
    assert_allclose(run.average_coef, np.mean([it.coef for it in iterates[5:]], axis=0), rtol=1e-12, atol=1e-14)
    assert_allclose(run.average_intercept, np.mean([it.intercept for it in iterates[5:]]), rtol=1e-12)

    l1_ratio = {"none": 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": 0.4, "lasso": 1.0}[penalty.name]
    alpha, eta = getattr(penalty, "alpha", 0.0), SCHEDULES[0].step_size
    residuals = [X[i] @ it.coef + it.intercept - y[i] for i, it in zip(order, iterates, strict=False)]
    if penalty.name == "lasso":
        seen = [it.coef for it in iterates[:-1]]
    else:
        kept = 1 - eta * alpha * (1 - l1_ratio)
        steps = zip(order, iterates, residuals, strict=False)
        seen = [np.zeros(F), *[kept * it.coef - eta * r * X[i] for i, it, r in steps]][:-1]
    costs = [alpha * ((1 - l1_ratio) * 0.5 * (w @ w) + l1_ratio * np.abs(w).sum()) for w in seen]
    expected = [0.5 * r**2 + cost for r, cost in zip(residuals, costs, strict=True)]
    assert_allclose(run.losses, [np.mean([0.5 * r**2 for r in residuals])], rtol=1e-12)
    if penalty.name != "lasso":  # whose halves may overlap: ‖w₊‖₁ + ‖w₋‖₁ ≥ ‖w‖₁
        assert_allclose(run.objectives, [np.mean(expected)], rtol=1e-12)
    else:
        assert run.objectives[0] >= np.mean(expected)


# Gradients and curvatures


def kinks(loss: Any, y: float) -> list[float]:
    """Where g or h jumps, as values of p."""
    margins = {"hinge": [1], "one_class": [1], "perceptron": [0], "squared_hinge": [1], "modified_huber": [-1, 1]}
    if loss.margin:
        return [y * z for z in margins.get(loss.name, [])]
    return [y - loss.epsilon, y + loss.epsilon] if hasattr(loss, "epsilon") else []


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=name)
def test_gradient_and_curvature_by_finite_differences(loss: Any) -> None:
    for y in (1.0,) if loss.name == "one_class" else (-1.0, 1.0) if loss.margin else (-1.3, 0.0, 0.37):
        p = np.linspace(-4.0, 4.0, 803)
        for kink in kinks(loss, y):
            p = p[np.abs(p - kink) > 1e-3]
        step, ys = 1e-5, np.full_like(p, y)
        slope = (reference.value(loss, p + step, ys) - reference.value(loss, p - step, ys)) / (2 * step)
        bend = (reference.gradient(loss, p + step, ys) - reference.gradient(loss, p - step, ys)) / (2 * step)
        assert_allclose(reference.gradient(loss, p, ys), slope, atol=1e-8)
        assert_allclose(reference.curvature(loss, p, ys), bend, atol=1e-8)
        assert (reference.value(loss, p, ys) >= 0).all()
        if loss.smooth:
            assert reference.curvature(loss, p, ys).max() > 0.1
        else:
            assert_array_equal(reference.curvature(loss, p, ys), 0.0)


@pytest.mark.parametrize(
    ("loss", "p", "y", "expected"),
    [
        (losses.Hinge(), 1.0, 1.0, -1.0),
        (losses.Hinge(), -1.0, -1.0, 1.0),
        (losses.OneClass(), 1.0, -1.0, -1.0),
        (losses.Perceptron(), 0.0, 1.0, -1.0),
        (losses.Perceptron(), 0.0, -1.0, 1.0),
        (losses.EpsilonInsensitive(0.25), 1.25, 1.0, 0.0),
        (losses.EpsilonInsensitive(0.25), 0.75, 1.0, 0.0),
        (losses.EpsilonInsensitive(0.0), 1.0, 1.0, 0.0),
    ],
)
def test_gradient_at_a_kink(loss: Any, p: float, y: float, expected: float) -> None:
    assert reference.gradient(loss, p, y) == expected


def test_log_loss_far_out() -> None:
    p, y = np.array([-800.0, 800.0, -50.0, 50.0]), np.ones(4)
    with np.errstate(over="raise", invalid="raise"):
        assert_allclose(reference.value(losses.LogLoss(), p, y), [800.0, 0.0, 50.0, np.exp(-50.0)], rtol=1e-14)
        assert_allclose(reference.gradient(losses.LogLoss(), p, y), [-1.0, 0.0, -1.0, -np.exp(-50.0)], rtol=1e-14)
        assert_allclose(reference.curvature(losses.LogLoss(), p, y)[2:], np.exp(-50.0), rtol=1e-14)


# Orders


@pytest.mark.parametrize("seed", [0, 1, 12345, LARGEST_INT])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 100])
def test_full_order_is_scikit_learns(n: int, seed: int) -> None:
    dataset = ArrayDataset64(np.zeros((n, 1)), np.zeros(n), np.ones(n))
    for order in reference.full_order(n, seed, 3):
        dataset._shuffle_py(seed)
        assert_array_equal(order, [dataset._next_py()[3] for _ in range(n)])


def test_full_order_repeats_one_permutation() -> None:
    orders = reference.full_order(50, 7, 4)
    for before, after in itertools.pairwise(orders):
        assert_array_equal(np.sort(after), np.arange(50))
        assert_array_equal(after, before[orders[0]])
        assert (after != before).any()
    assert_array_equal(reference.full_order(50, 7, 2)[1], orders[1])
    assert (reference.full_order(50, 8, 1)[0] != orders[0]).any()
    assert_array_equal(reference.full_order(50, 0, 1), reference.full_order(50, 1, 1))


def test_storage_order() -> None:
    assert_array_equal(reference.storage_order(4, 2), [[0, 1, 2, 3], [0, 1, 2, 3]])


# Schedules


def test_step_sizes() -> None:
    loss = losses.Hinge()
    assert reference.step_size(schedules.Constant(0.3), loss, 9.0) == 0.3
    assert reference.step_size(schedules.InvScaling(0.3, power=0.5), loss, 9.0) == pytest.approx(0.1)
    line = schedules.Linear(0.3, n_steps=10, first=5.0)
    assert reference.step_size(line, loss, 5.0) == pytest.approx(0.3)
    assert reference.step_size(line, loss, 14.0) == pytest.approx(0.03)
    assert reference.step_size(line, loss, 16.0) == 0.0
    assert reference.step_size(schedules.Optimal(1e-4), loss, 1.0) == pytest.approx(10.0)
    assert reference.step_size(schedules.Optimal(1e-4), loss, 1001.0) == pytest.approx(1 / (1e-4 * 2000))


# The paper's Lasso


def test_lasso_step_by_step() -> None:
    X, alpha, eta = rows(sparse=True), 0.02, 0.3
    y, c = targets(X, "regressor"), np.random.default_rng(2).uniform(0.5, 2.0, N)
    start = np.random.default_rng(5).standard_normal(F)
    plus, minus, b = [max(v, 0.0) for v in start], [max(-v, 0.0) for v in start], 0.2
    for i in [*range(N), *range(N)]:
        g = sum((plus[j] - minus[j]) * X[i, j] for j in range(F)) + b - y[i]
        for j in range(F):
            plus[j] = max(0.0, plus[j] - eta * (alpha + c[i] * g * X[i, j]))
            minus[j] = max(0.0, minus[j] - eta * (alpha - c[i] * g * X[i, j]))
        b -= 0.01 * eta * c[i] * g
    more = {"orders": reference.storage_order(N, 2), "sample_weight": c, "coef": start, "intercept": 0.2}
    case = ("regressor", losses.SquaredError(), penalties.Lasso(alpha), schedules.Constant(eta))
    run = ours(*case, X, y, intercept_decay=0.01, **more)
    assert_allclose(run.coef, np.subtract(plus, minus), rtol=1e-11, atol=1e-13)
    assert run.intercept == pytest.approx(b, rel=1e-11)


def test_lasso_reaches_the_minimiser_and_exact_zeros() -> None:
    """KKT: the gradient of the mean loss is −α sign(w_i) where w_i ≠ 0, and within ±α where w_i = 0."""
    alpha, truth = 0.02, np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    X = rows() * np.where(truth != 0, 5.0, 1.0)  # weak features: no single row lifts them off zero again
    y = X @ truth
    case = ("regressor", losses.SquaredError(), penalties.Lasso(alpha), schedules.Constant(0.01))
    more = {"orders": reference.full_order(N, 1, 40), "coef": np.full(F, 0.1), "fit_intercept": False}
    run = ours(*case, X, y, **more)
    slope = X.T @ (X @ run.coef - y) / N
    assert_array_equal(run.coef != 0, truth != 0)
    assert_allclose(slope[:2], -alpha * np.sign(truth[:2]), atol=0.1 * alpha)
    assert (np.abs(slope[2:]) <= 1.1 * alpha).all()


def test_lasso_shrinks_features_no_row_has() -> None:
    X = np.zeros((10, 2))
    X[:, 0] = 1.0
    case = ("regressor", losses.SquaredError(), penalties.Lasso(0.5), schedules.Constant(0.1))
    run = ours(*case, X, np.ones(10), coef=[0.0, 1.0], orders=[np.arange(10)], fit_intercept=False)
    assert run.coef[1] == pytest.approx(1.0 - 10 * 0.05)
    run = ours(*case, X, np.ones(10), coef=[0.0, -0.3], orders=[np.arange(10)], fit_intercept=False)
    assert run.coef[1] == 0.0


def test_the_callers_arrays_are_left_alone() -> None:
    X = rows()
    y, coef, average = targets(X, "classifier"), np.ones(F), np.ones(F)
    before = [array.copy() for array in (X, y, coef, average)]
    ours("classifier", losses.Hinge(), PENALTIES[3], SCHEDULES[0], X, y, coef=coef, average_coef=average, average=1)
    for array, copy in zip((X, y, coef, average), before, strict=True):
        assert_array_equal(array, copy)
