"""The promise: with ``shuffle=False``, and but for multiclass with ``shuffle="full"``, our models are scikit-learn's.

To 1e-9 in float64, for every choice and every way of training. Which inputs, and predictions: test_like_sklearn.py.
What differs on purpose is held against its definition instead, and says why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit

import symsgd
from helpers import (
    ALPHA,
    CLASSES,
    CLASSIFIERS,
    LEARNERS,
    PENALTIES,
    REGRESSORS,
    SCHEDULES,
    F,
    N,
    assert_same_model,
    both,
    fit_both,
    name,
    rows,
    settings,
    targets,
)
from symsgd import losses, penalties, reference, schedules, stopping
from symsgd.judging import EarlyStopping

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LAYOUTS = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
AVERAGING = [case for case in LEARNERS if case[0] != "Perceptron"]
PASSIVE_AGGRESSIVE = [("SGDClassifier", "hinge"), ("SGDRegressor", "epsilon_insensitive")]
SMOOTH = [case for case in LEARNERS if case[1] not in ("hinge", "perceptron", "epsilon_insensitive", "one_class")]


def choices(learners: list[Any], penalties: Any = PENALTIES, schedules: Any = tuple(SCHEDULES)) -> list[Any]:
    """Of these, all (learner, loss, penalty, schedule) that there are."""
    return [
        (learner, loss, penalty, schedule)
        for learner, loss in learners
        for penalty in (["l2"] if learner == "SGDOneClassSVM" else penalties)
        for schedule in (["constant"] if learner == "Perceptron" else schedules)
        if not schedule.startswith("pa") or (learner, loss) in PASSIVE_AGGRESSIVE
    ]


def rows_for(case: Any, sparse: bool = False) -> Any:
    """Passive-aggressive steps overshoot on short rows, by the intercept, and let rounding errors grow."""
    return rows(sparse=sparse, scale=3.0 if case[3].startswith("pa") else 1.0)


# Every loss, penalty and schedule


@LAYOUTS
@pytest.mark.parametrize("shuffle", [False, "full"])
@pytest.mark.parametrize("case", choices(LEARNERS), ids=name)
def test_every_choice(case: Any, shuffle: Any, sparse: bool) -> None:
    X = rows_for(case, sparse)
    y = targets(X, case[0])
    assert_same_model(*fit_both(case[0], X, y, shuffle=shuffle, **settings(*case)))


@LAYOUTS
@pytest.mark.parametrize("case", choices(SMOOTH, schedules=["constant", "optimal"]), ids=name)
def test_float32_of_losses_without_kinks(case: Any, sparse: bool) -> None:
    X = rows(sparse=sparse, dtype=np.float32)
    for classes in [2] if case[0] == "SGDRegressor" else [2, 5]:
        assert_same_model(*fit_both(case[0], X, targets(X, case[0], classes), **settings(*case)), tolerance=1e-4)


@LAYOUTS
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("case", choices(CLASSIFIERS, schedules=["constant", "pa1"]), ids=name)
def test_multiclass(case: Any, classes: int, sparse: bool) -> None:
    X = rows_for(case, sparse)
    assert_same_model(*fit_both(case[0], X, targets(X, case[0], classes), **settings(*case)))


@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_random_states(case: Any) -> None:
    """Numbers, a state that several fits draw from, and NumPy's own."""
    X = rows()
    y = targets(X, case[0])
    early = {"early_stopping": True} if case[1] in ("hinge", "huber") else {}
    for kind in (0, 1, 2**31, "shared", None):
        fits = []
        for model in both(case[0], **settings(*case, None), shuffle="full"):
            np.random.seed(3)
            model.set_params(random_state=np.random.RandomState(7) if kind == "shared" else kind, **early)
            fits.append([model.fit(X, y).coef_.copy() for _ in range(3)])
        assert_allclose(*fits, rtol=1e-9, atol=1e-9)
        assert np.array_equal(fits[0][0], fits[0][1]) == isinstance(kind, int)


@pytest.mark.parametrize("learner", ["SGDClassifier", "SGDRegressor", "Perceptron", "SGDOneClassSVM"])
def test_defaults(learner: str) -> None:
    """Up to a few thousand rows ``shuffle=True`` is scikit-learn's permutation too."""
    X = rows(500, 5)
    y = targets(X, learner)
    ours, theirs = (type(model)(random_state=0).fit(X, y) for model in both(learner))
    assert_same_model(ours, theirs)


def test_perceptron_on_rows_without_features() -> None:
    """Such a row is right or wrong by the intercept alone, which comes back to zero exactly, if it is rounded so."""
    X = rows(sparse=True)
    assert_same_model(*fit_both("Perceptron", X, targets(X, "Perceptron"), eta0=0.3))


# Weights


@LAYOUTS
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_sample_weights(case: Any, penalty: Any, sparse: bool) -> None:
    X = rows(sparse=sparse)
    weights = np.random.default_rng(2).uniform(0.0, 2.0, N)
    weights[5::7] = 0.0
    more = settings(*case, penalty)
    assert_same_model(*fit_both(case[0], X, targets(X, case[0]), {"sample_weight": weights}, **more))


@LAYOUTS
@pytest.mark.parametrize("classes", [2, *CLASSES])
@pytest.mark.parametrize("case", CLASSIFIERS, ids=name)
def test_class_weights(case: Any, classes: int, sparse: bool) -> None:
    X = rows(sparse=sparse)
    y = np.minimum(targets(X, case[0], classes + 1), classes - 1)  # the last class is twice as frequent
    some = {0: 0.4, 1: 1.7}
    weights = np.random.default_rng(2).uniform(0.5, 1.5, N)
    for class_weight in ("balanced", some):
        more = {**settings(*case), "class_weight": class_weight}
        assert_same_model(*fit_both(case[0], X, y, {"sample_weight": weights}, **more))


# Averages


@LAYOUTS
@pytest.mark.parametrize("average", [True, 40, N + 9, 3 * N, 3 * N + 1])
@pytest.mark.parametrize("penalty", [None, "l2"])
@pytest.mark.parametrize("case", AVERAGING, ids=name)
def test_averages(case: Any, penalty: Any, average: Any, sparse: bool) -> None:
    X = rows(sparse=sparse)
    more = {**settings(*case, penalty), "average": average}
    assert_same_model(*fit_both(case[0], X, targets(X, case[0]), shuffle="full", **more))
    if case in CLASSIFIERS:
        assert_same_model(*fit_both(case[0], X, targets(X, case[0], 5), **more))


@LAYOUTS
@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_averages_under_l1_are_the_means_of_the_iterates(penalty: str, sparse: bool) -> None:
    """scikit-learn's leave out what truncation does."""
    X = rows(sparse=sparse)
    y = targets(X, "SGDRegressor")
    more = {**settings("SGDRegressor", "squared_error", penalty), "alpha": 0.01, "average": 30}
    ours, theirs = fit_both("SGDRegressor", X, y, **more)
    run = reference.sequential(
        X.toarray() if sparse else X,
        y,
        loss=losses.SquaredError(),
        penalty=penalties.L1(0.01) if penalty == "l1" else penalties.ElasticNet(0.01, 0.4),
        schedule=schedules.Constant(0.25),
        orders=reference.storage_order(N, 3),
        intercept_decay=0.01 if sparse else 1.0,
        touched="nonzero" if sparse else "all",
        average=30,
    )
    assert_allclose(ours.coef_, run.average_coef, rtol=1e-9, atol=1e-12)
    assert_allclose(ours.intercept_, run.average_intercept, rtol=1e-9)
    assert np.abs(theirs.coef_ - run.average_coef).max() > 1e-3


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-10)])
def test_averages_stay_exact_in_long_trainings(dtype: Any, tolerance: float) -> None:
    """scikit-learn's lose two digits in float32 and eight in float64."""
    X = rows(dtype=dtype)
    y = targets(rows(), "SGDRegressor").astype(dtype)
    more = settings("SGDRegressor", "squared_error", "l2")
    ours = symsgd.SGDRegressor(**more, tol=None, max_iter=30, shuffle=False, average=True).fit(X, y)
    rule = {"loss": losses.SquaredError(), "penalty": penalties.L2(ALPHA), "schedule": schedules.Constant(0.25)}
    run = reference.sequential(X, y, **rule, orders=reference.storage_order(N, 30), average=1)
    assert_allclose(ours.coef_, run.average_coef, rtol=0, atol=tolerance * np.abs(run.average_coef).max())


def test_averaging_that_begins_too_late_is_refused() -> None:
    X = rows()
    y = targets(X, "SGDRegressor")
    model = symsgd.SGDRegressor(tol=None, max_iter=1, shuffle=False).fit(X, y)
    start, b = model.coef_.copy(), model.intercept_.copy()
    with pytest.raises(ValueError, match=f"average={N + 1} begins now"):
        model.set_params(average=True).partial_fit(X, y)
    model.set_params(average=N + 1).partial_fit(X, y).partial_fit(X, y)
    rule = {"loss": losses.SquaredError(), "penalty": penalties.L2(1e-4), "schedule": schedules.InvScaling(0.01, 0.25)}
    state = {"coef": start, "intercept": b[0], "t": N + 1.0, "average": N + 1}
    run = reference.sequential(X, y, **rule, **state, orders=reference.storage_order(N, 2))
    assert_allclose(model.coef_, run.average_coef, rtol=1e-9)


def test_an_interrupted_fit_has_the_averages_so_far() -> None:
    X = rows()
    y = targets(X, "SGDClassifier")

    def interrupt(record: Any) -> None:
        if record.number == 2:
            raise KeyboardInterrupt

    more = {**settings("SGDClassifier", "log_loss"), "average": True}
    ours, theirs = both("SGDClassifier", **more, max_iter=2)
    ours.set_params(max_iter=9, callbacks=interrupt)
    with pytest.raises(KeyboardInterrupt):
        ours.fit(X, y)
    theirs.fit(X, y)
    assert_same_model(ours, theirs)
    assert_same_model(ours.set_params(callbacks=None).partial_fit(X, y), theirs.partial_fit(X, y))


# Continued trainings


def assert_same_parts(ours: Any, theirs: Any, X: Any, y: Any, classes: Any = None, size: int = 20) -> None:
    """The two agree after every call of partial_fit, on `size` rows each."""
    for begin in range(0, X.shape[0], size):
        part = slice(begin, begin + size)
        more = {"classes": classes} if begin == 0 and classes is not None else {}
        for model in (ours, theirs):
            model.partial_fit(X[part], None if y is None else y[part], **more)
        assert_same_model(ours, theirs)


@LAYOUTS
@pytest.mark.parametrize("case", choices(LEARNERS, schedules=["optimal", "pa1"]), ids=name)
def test_partial_fit(case: Any, sparse: bool) -> None:
    X = rows_for(case, sparse)
    classes = np.arange(2) if case[:2] in CLASSIFIERS else None
    pair = both(case[0], shuffle="full", **settings(*case))
    assert_same_parts(*pair, X, targets(X, case[0]), classes)


@pytest.mark.parametrize("average", [True, 35, 77])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("case", AVERAGING, ids=name)
def test_partial_fit_with_averages(case: Any, classes: int, average: Any) -> None:
    """With scikit-learn's habits about intercepts, wherever among the calls the averages begin."""
    X = rows()
    y = targets(X, case[0], classes)
    ours, theirs = both(case[0], **settings(*case), average=average)
    assert_same_parts(ours, theirs, X, y, np.arange(classes) if case in CLASSIFIERS else None)
    assert_same_model(ours.fit(X, y), theirs.fit(X, y))
    assert_same_parts(ours, theirs, X, y)


@LAYOUTS
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("case", choices(LEARNERS, [None, "elasticnet"], ["optimal"]), ids=name)
def test_warm_start(case: Any, classes: int, sparse: bool) -> None:
    X = rows(sparse=sparse)
    pair = both(case[0], **settings(*case), warm_start=True)
    for seed in range(3):
        y = targets(X, case[0], classes, seed=seed)
        for model in pair:
            model.fit(X, y)
        assert_same_model(*pair)


@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_given_weights_to_start_from(case: Any) -> None:
    X, rng = rows(), np.random.default_rng(5)
    for classes in (2, 5) if case in CLASSIFIERS else (2,):
        many = classes if classes > 2 else 1
        coef, b = rng.standard_normal((many, F)), rng.standard_normal(many)
        before = coef.copy()
        y = targets(X, case[0], classes)
        ours, theirs = both(case[0], **settings(*case))
        b_name = "offset_init" if case[0] == "SGDOneClassSVM" else "intercept_init"
        ours.fit(X, y, coef_init=coef, **{b_name: b})
        assert (coef == before).all()
        assert_same_model(ours, theirs.fit(X, y, coef_init=coef.copy(), **{b_name: b.copy()}))


def test_warm_start_of_an_averaged_regression() -> None:
    """It goes on from the last iterate and averages afresh; scikit-learn adds the old average to the new sum."""
    X = rows()
    y = targets(X, "SGDRegressor")
    more = {**settings("SGDRegressor", "huber"), "average": True, "tol": None, "max_iter": 1, "shuffle": False}
    model = symsgd.SGDRegressor(**more, warm_start=True).fit(X, y)
    last = symsgd.SGDRegressor(**more | {"average": False}).fit(X, y)
    again = symsgd.SGDRegressor(**more).fit(X, y, coef_init=last.coef_, intercept_init=last.intercept_)
    assert_allclose(model.fit(X, y).coef_, again.coef_, rtol=1e-12)


# Stopping


@pytest.mark.parametrize("case", choices(LEARNERS), ids=name)
def test_stopping_by_tolerance(case: Any) -> None:
    """On dense rows: scikit-learn's objective on sparse ones counts the last row's features alone."""
    X = rows_for(case)
    y = targets(X, case[0])
    counts = set()
    for seed, tol in enumerate([1e3, 1e-2, 1e-3]):
        more = {**settings(*case), "tol": tol, "max_iter": 150, "random_state": seed, "shuffle": "full"}
        ours, theirs = fit_both(case[0], X, y, **more)
        assert_same_model(ours, theirs)
        counts.add(ours.n_iter_)
    assert min(counts) < 150


@pytest.mark.parametrize("classes", [3, 20])
@pytest.mark.parametrize("case", choices(CLASSIFIERS, ["l2", "l1"], ["constant", "adaptive"]), ids=name)
def test_stopping_of_classes(case: Any, classes: int) -> None:
    """Each class stops, and lowers its adaptive step, by itself."""
    X = rows()
    more = {**settings(*case), "tol": 1e-3, "max_iter": 150}
    assert_same_model(*fit_both(case[0], X, targets(X, case[0], classes), **more))


@pytest.mark.parametrize("average", [True, 300])
@pytest.mark.parametrize("classes", [2, 11])
def test_stopping_of_averaged_classes(classes: int, average: Any) -> None:
    X = rows()
    more = {**settings("SGDClassifier", "log_loss", None), "tol": 1e-3, "max_iter": 150, "average": average}
    assert_same_model(*fit_both("SGDClassifier", X, targets(X, "SGDClassifier", classes), **more))


@pytest.mark.parametrize("case", choices(CLASSIFIERS + REGRESSORS, [None], ["constant", "adaptive"]), ids=name)
def test_stopping_on_sparse_rows_without_penalty(case: Any) -> None:
    X = rows(sparse=True)
    more = {**settings(*case), "tol": 1e-3, "max_iter": 150, "shuffle": "full"}
    assert_same_model(*fit_both(case[0], X, targets(X, case[0]), **more))


@pytest.mark.parametrize("penalty", [penalties.L2(ALPHA), penalties.L1(0.01)], ids=lambda penalty: penalty.name)
def test_stopping_on_sparse_rows_follows_the_true_objective(penalty: Any) -> None:
    X = rows(sparse=True)
    y = targets(X, "SGDRegressor")
    rule = {"loss": losses.SquaredError(), "penalty": penalty, "schedule": schedules.Constant(0.25)}
    more = {"touched": "nonzero", "intercept_decay": 0.01, "orders": reference.storage_order(N, 100)}
    objectives = reference.sequential(X.toarray(), y, **rule, **more).objectives
    patience = stopping.Patience(1e-3, 5)
    expected = next(number for number, value in enumerate(objectives, 1) if patience.exhausted(value))
    result = symsgd.train(X, y, **rule, tol=1e-3, n_passes=100, shuffle=False)
    assert (result.n_passes, result.converged) == (expected, True)


def test_warning_if_it_does_not_stop() -> None:
    X = rows()
    for model in both("SGDClassifier", tol=1e-9, max_iter=2):
        with pytest.warns(ConvergenceWarning, match="Maximum number of iteration reached"):
            model.fit(X, targets(X, "SGDClassifier"))


EARLY = {"tol": 1e-3, "max_iter": 40, "early_stopping": True, "validation_fraction": 0.2, "n_iter_no_change": 3}


@LAYOUTS
@pytest.mark.parametrize("penalty", [None, "l1"])
@pytest.mark.parametrize("case", [case for case in CLASSIFIERS + REGRESSORS if case[1] != "log_loss"], ids=name)
def test_early_stopping(case: Any, penalty: Any, sparse: bool) -> None:
    """Where scikit-learn scores rightly: without L2, whose scale it forgets, and not for log_loss."""
    X = rows(sparse=sparse)
    weights = {"sample_weight": np.random.default_rng(2).uniform(0.0, 2.0, N)}
    for classes in (2, 3) if case in CLASSIFIERS else (2,):
        y, shuffle = targets(X, case[0], classes), "full" if classes == 2 else False
        for seed in range(2):
            more = {**settings(*case, penalty), **EARLY, "random_state": seed, "shuffle": shuffle}
            assert_same_model(*fit_both(case[0], X, y, weights if seed else {}, **more))


def test_early_stopping_lowers_the_adaptive_step() -> None:
    X = rows()
    for learner, loss, classes in [("SGDClassifier", "hinge", 3), ("SGDRegressor", "huber", 2)]:
        ours, theirs = fit_both(
            learner, X, targets(X, learner, classes), **settings(learner, loss, None, "adaptive") | EARLY
        )
        assert_same_model(ours, theirs)
        assert ours.n_iter_ > 8 * 3  # 1/8 falls below 1e-6 at the eighth division by 5


@pytest.mark.parametrize(("loss", "penalty"), [("log_loss", None), ("log_loss", "l2"), ("hinge", "l2")])
def test_early_stopping_follows_the_true_accuracy(loss: str, penalty: Any) -> None:
    """Of log_loss too, whose labels scikit-learn confuses, and with L2, where it scores weights without their scale."""
    X, counts = rows(), []
    y = targets(X, "SGDClassifier", seed=3)
    rule = {"loss": loss, "penalty": penalty and penalties.L2(ALPHA), "schedule": schedules.InvScaling(0.5, 0.3)}
    for seed in range(4):
        held_out = np.zeros(N, bool)
        held_out[next(StratifiedShuffleSplit(test_size=0.2, random_state=seed).split(X, y))[1]] = True
        patience = stopping.Patience(1e-3, 3, rising=True)
        for passes in range(1, 41):
            stopper = EarlyStopping(held_out)
            run = symsgd.train(X, y, **rule, n_passes=passes, shuffle=False, early_stopping=stopper)
            if patience.exhausted(np.mean((X[held_out] @ run.coef[0] + run.intercept[0] > 0) == y[held_out])):
                break
        more = {**settings("SGDClassifier", loss, penalty, "invscaling"), **EARLY, "random_state": seed}
        ours, theirs = fit_both("SGDClassifier", X, y, **more)
        assert ours.n_iter_ == passes
        counts.append((passes, theirs.n_iter_))
    assert any(here != there for here, there in counts)
