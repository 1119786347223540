"""Bad input is refused before anything happens, in words that name the argument; nothing of the caller's changes."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from symsgd import (
    DivergenceError,
    EarlyStopping,
    Perceptron,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
    Start,
    decision,
    losses,
    penalties,
    schedules,
    strategies,
    train,
)

N, F = 24, 5
CLASSIFIERS = [SGDClassifier, Perceptron]
SUPERVISED = [*CLASSIFIERS, SGDRegressor]
ESTIMATORS = [*SUPERVISED, SGDOneClassSVM]


def dense() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, F))


def sparse() -> sp.csr_matrix:
    return sp.csr_matrix(np.maximum(dense(), 0.0))


def labels() -> np.ndarray:
    return np.where(dense()[:, 0] > 0, 1, -1)


def numbers() -> np.ndarray:
    return dense()[:, 0] * 2 + 1


def ones(n: int = N) -> np.ndarray:
    return np.ones(n)


def with_value(array: np.ndarray, at: Any, value: float) -> np.ndarray:
    changed = np.array(array, dtype=np.float64)
    changed[at] = value
    return changed


def new(estimator: type, **parameters: Any) -> Any:
    return estimator(max_iter=3, tol=None, **parameters)


def fit(model: Any, X: Any = None, y: Any = None, **more: Any) -> Any:
    """Fits any of the estimators; the one-class SVM has no use for y."""
    X = dense() if X is None else X
    if isinstance(model, SGDOneClassSVM):
        return model.fit(X, **more)
    return model.fit(X, labels() if y is None else y, **more)


# X


WAYS_TO_USE_X: dict[str, Callable[[Any], Any]] = {
    "train": lambda X: train(X, labels()),
    "decision": lambda X: decision(X, np.ones((1, F)), np.zeros(1)),
    "eval_set": lambda X: train(dense(), labels(), eval_set=(X, labels())),
    **{f"{e.__name__}.fit": lambda X, e=e: fit(new(e), X) for e in ESTIMATORS},
    **{f"{e.__name__}.predict": lambda X, e=e: fit(new(e)).predict(X) for e in ESTIMATORS},
    "partial_fit": lambda X: SGDClassifier().partial_fit(X, labels(), classes=[-1, 1]),
    "fit(eval_set)": lambda X: SGDClassifier().fit(dense(), labels(), eval_set=(X, labels())),
}


def with_indices(at: int, value: int) -> sp.csr_matrix:
    X = sparse()
    X.indices[at] = value
    return X


def with_indptr(at: int, value: int) -> sp.csr_matrix:
    X = sparse()
    X.indptr[at] = value
    return X


def with_part(**parts: Any) -> sp.csr_matrix:
    X = sparse()
    for name, array in parts.items():
        setattr(X, name, array)
    return X


DAMAGED = {
    "index out of range": (lambda: with_indices(3, F), f"row 1 has the column index {F}, outside 0 … {F - 1}"),
    "huge index": (lambda: with_indices(-1, 2**31 - 1), "has the column index 2147483647"),
    "negative index": (lambda: with_indices(3, -1), "has the column index -1"),
    "decreasing indptr": (lambda: with_indptr(4, 1), "indptr decreases at row 3"),
    "negative indptr": (lambda: with_indptr(1, -1), "indptr decreases at row 0"),
    "indptr beyond the data": (lambda: with_indptr(-1, 10**6), "indptr ends at 1000000, but there are only"),
    "indptr far beyond and back": (lambda: with_indptr(5, 10**6), "indptr decreases at row 5"),
    "indptr not from 0": (lambda: with_indptr(0, 1), "indptr starts with 1, not 0"),
    "negative start": (lambda: with_indptr(0, -5), "indptr starts with -5, not 0"),
    "indptr too short": (lambda: with_part(indptr=sparse().indptr[:-2]), r"indptr has shape \(23,\), but there are 24"),
    "indptr too long": (
        lambda: with_part(indptr=np.append(sparse().indptr, sparse().nnz)),
        r"indptr has shape \(26,\)",
    ),
    "no indptr": (lambda: with_part(indptr=np.zeros(0, np.int32)), r"indptr has shape \(0,\)"),
    "too few values": (lambda: with_part(data=sparse().data[:-3]), r"\d+ indices and \d+ values"),
    "too few indices": (lambda: with_part(indices=sparse().indices[:-3]), r"\d+ indices and \d+ values"),
    "64-bit index out of range": (
        lambda: with_part(
            indices=with_value(sparse().indices, 3, 2.0**40).astype(np.int64), indptr=sparse().indptr.astype(np.int64)
        ),
        "has the column index 1099511627776",
    ),
}


@pytest.mark.parametrize("way", WAYS_TO_USE_X)
@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_sparse_matrices(damage: str, way: str) -> None:
    make, message = DAMAGED[damage]
    with pytest.raises(ValueError, match=f"is a damaged CSR matrix: .*{message}"):
        WAYS_TO_USE_X[way](make())


@pytest.mark.parametrize("way", WAYS_TO_USE_X)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["single", "double"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_values_that_are_not_finite(layout: Any, dtype: Any, value: float, way: str) -> None:
    what = "NaN" if math.isnan(value) else f"infinity or a value too large for {np.dtype(dtype)!r}"
    for row, column in [(0, 0), (N - 1, F - 1)]:
        at = (row, column)
        message = rf"Input \S+ contains {re.escape(what)}. "
        with pytest.raises(ValueError, match=message + f"The first is in row {row}, column {column}"):
            WAYS_TO_USE_X[way](layout(with_value(dense(), at, value).astype(dtype)))


@pytest.mark.parametrize(
    "X", [np.zeros((0, F)), np.zeros((N, 0)), sp.csr_matrix((0, F)), sp.csr_matrix((N, 0))], ids=str
)
def test_empty_data(X: Any) -> None:
    y = np.zeros(X.shape[0])
    for use in (lambda: train(X, y), lambda: SGDClassifier().fit(X, y), lambda: SGDOneClassSVM().fit(X)):
        with pytest.raises(ValueError, match="minimum of 1"):
            use()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (dense()[:, 0], r"X has 1 dimension\(s\), shape \(24,\); accepted is \(rows, features\)"),
        (dense()[None], r"X has 3 dimension\(s\)"),
        (None, r"X has 0 dimension\(s\)"),
        (dense().astype(complex), "X has dtype complex128; accepted are real numbers"),
        (sparse().astype(complex), "X has dtype complex128; accepted are real numbers"),
        (dense().astype(str), "X has dtype <U.*; accepted are real numbers"),
        (dense().astype("M8[s]"), "X has dtype datetime64"),
        (np.full((N, F), object()), "X has dtype object; accepted are real numbers"),
    ],
    ids=["1d", "3d", "none", "complex", "sparse complex", "text", "dates", "objects"],
)
def test_data_of_another_kind(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(X, labels())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_another_number_of_features(estimator: Any) -> None:
    model = fit(new(estimator))
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 5"):
        model.predict(dense()[:, :3])
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 5"):
        model.partial_fit(dense()[:, :3], labels())


def test_a_model_of_another_shape() -> None:
    with pytest.raises(ValueError, match="X has 5 features, but the model has 3"):
        decision(dense(), np.ones(3), 0.0)
    for coef, intercept in [((2, F), (3,)), ((3, F), (2,)), ((3, F), ()), ((1, 1, F), (1,))]:
        with pytest.raises(ValueError, match="coef and intercept do not match"):
            decision(dense(), np.ones(coef), np.ones(intercept))


# y


def not_finite(value: float) -> np.ndarray:
    return with_value(labels(), 3, value)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_targets_that_are_not_finite(loss: str, value: float) -> None:
    with pytest.raises(ValueError, match="y contains NaN or infinity"):
        train(dense(), not_finite(value), loss=loss)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("estimator", SUPERVISED)
def test_targets_of_an_estimator_that_are_not_finite(estimator: Any, value: float) -> None:
    with pytest.raises(ValueError, match=r"Input y contains (NaN|infinity)"):
        new(estimator).fit(dense(), not_finite(value))


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (labels()[:-1], "y has 23 targets, but there are 24 rows"),
        (np.append(labels(), 1), "y has 25 targets, but there are 24 rows"),
        ([], "y has 0 targets, but there are 24 rows"),
        (labels()[:, None], r"y has shape \(24, 1\); accepted is one target a row, shape \(24,\)"),
        (1, r"y has shape \(\); accepted is one target a row"),
        (None, "y is missing; loss='.*' needs one target a row"),
    ],
    ids=["short", "long", "empty", "column", "scalar", "none"],
)
def test_targets_of_another_shape(loss: str, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(dense(), y, loss=loss)


@pytest.mark.parametrize("estimator", SUPERVISED)
def test_targets_of_another_length_for_an_estimator(estimator: Any) -> None:
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        new(estimator).fit(dense(), labels()[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        new(estimator).fit(dense(), None)


def test_targets_that_are_no_numbers() -> None:
    for y in (np.array(["a"] * N), labels().astype(complex), np.full(N, object()), sp.csr_matrix(labels())):
        with pytest.raises(ValueError, match=r"y has dtype .*; accepted are real numbers"):
            train(dense(), y, loss="squared_error")
    with pytest.raises(ValueError, match=r"y has dtype .*; accepted are real numbers"):
        SGDRegressor().fit(dense(), np.array(["a"] * N))


def test_labels_that_cannot_be_sorted() -> None:
    with pytest.raises(ValueError, match="y mixes labels that cannot be sorted"):
        train(dense(), np.array([1, "a"] * (N // 2), dtype=object))


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_one_class_only(estimator: Any) -> None:
    message = "The number of classes has to be greater than one; got 1 class"
    with pytest.raises(ValueError, match=message):
        new(estimator).fit(dense(), ones())
    with pytest.raises(ValueError, match=message):
        new(estimator).partial_fit(dense(), ones(), classes=[1])
    with pytest.raises(ValueError, match=message):
        train(dense(), ones())


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_labels_unknown_to_partial_fit(estimator: Any) -> None:
    with pytest.raises(ValueError, match=r"y contains the label 1, which is not one of the classes \[-1, 0\]"):
        new(estimator).partial_fit(dense(), labels(), classes=[-1, 0])
    model = new(estimator).partial_fit(dense(), labels(), classes=[-1, 1])
    with pytest.raises(ValueError, match=r"y contains the label 7, which is not one of the classes \[-1, 1\]"):
        model.partial_fit(dense(), with_value(labels(), 3, 7).astype(int))
    with pytest.raises(ValueError, match="is not the same as on last call to partial_fit"):
        model.partial_fit(dense(), labels(), classes=[-1, 0, 1])


def test_partial_fit_needs_the_classes_first() -> None:
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        SGDClassifier().partial_fit(dense(), labels())


def test_an_unknown_label_far_down() -> None:
    """Labels are looked through in pieces of 2¹⁶."""
    n = 70_000
    y = np.arange(n) % 2
    y[-1] = 2
    with pytest.raises(ValueError, match="y contains the label 2"):
        train(np.ones((n, 1)), y, classes=[0, 1])
    assert len(train(np.ones((n, 1)), y, n_passes=1).classes) == 3


@pytest.mark.parametrize("classes", [[1, -1], [-1, -1, 1], [[-1, 1]], 3], ids=str)
def test_classes_that_are_not_ascending(classes: Any) -> None:
    with pytest.raises(ValueError, match=r"classes=.* is not accepted; they must be distinct and ascending"):
        train(dense(), labels(), classes=classes)


@pytest.mark.parametrize(
    "class_weight", [[1.0], [1.0, 2.0, 3.0], [1, -1], [1, math.nan], "balanced", {1: 2.0}], ids=str
)
def test_class_weights(class_weight: Any) -> None:
    with pytest.raises(ValueError, match=r"class_weight=.* is not accepted; it must be 2 finite numbers >= 0"):
        train(dense(), labels(), class_weight=class_weight)


@pytest.mark.parametrize("class_weight", [{1: -1.0}, {1: math.nan}, {5: 1.0}, "uniform", 3], ids=str)
def test_class_weights_of_an_estimator(class_weight: Any) -> None:
    with pytest.raises(ValueError, match="class_weight"):
        SGDClassifier(class_weight=class_weight).fit(dense(), labels())


# Weights


BAD_WEIGHTS = {
    "nan": (with_value(ones(), 3, math.nan), "sample_weight contains NaN or infinity"),
    "infinite": (with_value(ones(), 3, math.inf), "sample_weight contains NaN or infinity"),
    "negative": (
        with_value(ones(), 3, -0.5),
        "sample_weight contains the negative value -0.5; accepted are numbers >= 0",
    ),
    "one negative for all": (-1.0, "sample_weight contains the negative value"),
    "zeros": (np.zeros(N), "Sample weights must contain at least one non-zero number"),
    "short": (ones(N - 1), r"sample_weight.shape == \(23,\), expected \(24,\)"),
    "column": (ones()[:, None], "Sample weights must be 1D array or scalar"),
    "text": (np.array(["a"] * N), "sample_weight has dtype .*; accepted are real numbers"),
    "complex": (ones().astype(complex), "sample_weight has dtype complex128; accepted are real numbers"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_sample_weights(case: str) -> None:
    weights, message = BAD_WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        train(dense(), labels(), sample_weight=weights)
    for estimator in ESTIMATORS:
        with pytest.raises(ValueError, match=message):
            fit(new(estimator), sample_weight=weights)


# Choices


@pytest.mark.parametrize(
    ("argument", "known"),
    [
        ("loss", losses.LOSSES),
        ("penalty", penalties.PENALTIES),
        ("schedule", schedules.SCHEDULES),
        ("strategy", strategies.STRATEGIES),
    ],
)
@pytest.mark.parametrize("value", ["no-such-name", 3, []], ids=str)
def test_unknown_choices_list_the_known(argument: str, known: dict[str, Any], value: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{argument}={value!r} is not known; accepted are ")) as error:
        train(dense(), labels(), **{argument: value})
    assert re.findall(r"'([\w-]+)'", str(error.value).split("accepted are")[1]) == sorted(known)


@pytest.mark.parametrize(
    ("parameter", "listed"),
    [
        ("loss", ["hinge", "log_loss", "huber"]),
        ("penalty", ["l1", "l2", "elasticnet", "lasso"]),
        ("learning_rate", ["constant", "optimal", "pa1"]),
        ("strategy", ["auto", "sequential"]),
        ("shuffle", ["full"]),
    ],
)
def test_unknown_choices_of_an_estimator_list_the_known(parameter: str, listed: list[str]) -> None:
    with pytest.raises(ValueError, match=f"{parameter}.*no-such-name|no-such-name.*{parameter}") as error:
        SGDClassifier(**{parameter: "no-such-name"}).fit(dense(), labels())
    assert all(f"'{name}'" in str(error.value) for name in listed)


@pytest.mark.parametrize("shuffle", ["no-such-order", None, 0, 1, "True"], ids=repr)
def test_shuffle(shuffle: Any) -> None:
    with pytest.raises(ValueError, match=r"shuffle=.* is not accepted; it must be True, False, 'full' or 'blocks'"):
        train(dense(), labels(), shuffle=shuffle)


def test_averages_and_the_lasso_do_not_go_together() -> None:
    for use in (
        lambda: train(dense(), labels(), penalty="lasso", average=True),
        lambda: SGDClassifier(penalty="lasso", average=True).fit(dense(), labels()),
    ):
        with pytest.raises(ValueError, match=r"average does not work with penalty='lasso'.*use penalty='l1'"):
            use()


@pytest.mark.parametrize("schedule", ["pa1", "pa2"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "one_class", "perceptron"])
def test_passive_aggressive_steps_need_a_margin(loss: str, schedule: str) -> None:
    message = f"schedule='{schedule}' .* losses 'hinge' and 'epsilon_insensitive' only, not with '{loss}'"
    with pytest.raises(ValueError, match=message):
        train(dense(), labels(), loss=loss, schedule=schedule)


def test_passive_aggressive_steps_of_an_estimator_need_a_margin() -> None:
    with pytest.raises(ValueError, match="'pa1' only works with loss 'hinge'"):
        SGDClassifier(loss="log_loss", learning_rate="pa1").fit(dense(), labels())
    with pytest.raises(ValueError, match="'pa2' only works with loss 'epsilon_insensitive'"):
        SGDRegressor(learning_rate="pa2").fit(dense(), labels())


# Numbers


@pytest.mark.parametrize("step_size", [0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "schedule", [schedules.Constant, schedules.InvScaling, schedules.Adaptive, schedules.PassiveAggressive1]
)
def test_step_sizes(schedule: Any, step_size: float) -> None:
    with pytest.raises(
        ValueError, match=r"(step_size|aggressiveness)=.* is not accepted; it must be a finite number > 0"
    ):
        schedule(step_size)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: schedules.Optimal(0), "alpha"),
        (lambda: schedules.InvScaling(0.1, power=math.nan), "power"),
        (lambda: schedules.Linear(-1.0), "step_size"),
        (lambda: schedules.Linear(n_steps=0.5), "n_steps"),
        (lambda: schedules.Linear(first=0), "first"),
        (lambda: penalties.L2(-1), "alpha"),
        (lambda: penalties.L1(math.inf), "alpha"),
        (lambda: penalties.Lasso(math.nan), "alpha"),
        (lambda: penalties.ElasticNet(0.1, l1_ratio=1.5), "l1_ratio"),
        (lambda: losses.Huber(-0.1), "epsilon"),
        (lambda: losses.OneClass(0), "nu"),
        (lambda: losses.OneClass(1.1), "nu"),
    ],
)
def test_parameters_of_choices(make: Any, argument: str) -> None:
    with pytest.raises(ValueError, match=f"{argument}=.* is not accepted; it must be a finite number"):
        make()


@pytest.mark.parametrize("value", ["0.1", None, True, [1.0]], ids=repr)
@pytest.mark.parametrize("choice", [schedules.Constant, penalties.L2, losses.Huber])
def test_parameters_that_are_no_numbers(choice: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"=.* is not a number"):
        choice(value)


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("n_passes", 0, "n_passes=0 is not accepted; it must be an integer >= 1"),
        ("n_passes", 1.5, "n_passes=1.5 is not accepted"),
        ("n_passes", True, "n_passes=True is not accepted"),
        ("patience", 0, "patience=0 is not accepted; it must be an integer >= 1"),
        ("average", -1, "average=-1 is not accepted; it must be an integer >= 1"),
        ("average", "yes", "average='yes' is not accepted"),
        ("tol", -1e-3, "tol=-0.001 is not accepted; it must be a finite number >= 0"),
        ("tol", math.nan, "tol=nan is not accepted"),
        ("seed", -1, r"seed=-1 is not accepted; it must be an integer from 0 to 2\*\*32 - 1"),
        ("seed", 2**32, "seed=4294967296 is not accepted"),
        ("seed", 0.5, "seed=0.5 is not accepted"),
        ("seed", None, "seed=None is not accepted"),
        ("seed", True, "seed=True is not accepted"),
        ("n_threads", 0, "n_threads=0 is not accepted; it must be None or an integer other than 0"),
        ("n_threads", 1.5, "n_threads=1.5 is not accepted"),
        ("n_threads", "x", "n_threads='x' is not accepted"),
    ],
)
def test_numbers(argument: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(dense(), labels(), **{argument: value})


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("max_iter", [0, 1.5]),
        ("tol", [-1.0, "x"]),
        ("eta0", [0.0, -1.0]),
        ("n_jobs", [0, 1.5, "x"]),
        ("random_state", [-1, "x"]),
        ("average", [-1, "x"]),
        ("strategy", ["no-such-name", 3]),
        ("shuffle", ["no-such-order", 3]),
        ("callbacks", [3, "abc"]),
    ],
)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_of_estimators(estimator: Any, parameter: str, values: list[Any]) -> None:
    if parameter not in estimator().get_params():
        assert (estimator, parameter) == (Perceptron, "average")
        return
    for value in values:
        with pytest.raises(ValueError, match=parameter):
            fit(estimator(**{parameter: value}))


# Callbacks, validation rows, rows held out, starts


@pytest.mark.parametrize("callbacks", [3, [3], "abc", [None], [print, 3]], ids=repr)
def test_callbacks(callbacks: Any) -> None:
    with pytest.raises(TypeError, match=r"callbacks has .* neither a symsgd.callbacks.Callback nor callable"):
        train(dense(), labels(), callbacks=callbacks)


@pytest.mark.parametrize(
    ("eval_set", "message"),
    [
        (3, r"eval_set must be one pair \(X, y\), not a int"),
        ((dense(),), r"eval_set must be one pair \(X, y\), not a tuple of length 1"),
        (dense(), r"eval_set must be one pair \(X, y\), not a ndarray"),
        ((dense()[:, :3], labels()), r"3 features"),
        ((dense(), labels()[:3]), r"eval_set\[1\] has 3 targets, but there are 24 rows"),
        ((dense(), labels()[:, None]), r"eval_set\[1\] has shape \(24, 1\)"),
        ((dense(), labels() + 6), r"eval_set\[1\] contains the label \d, which is not one of the classes \[-1, 1\]"),
        ((with_value(dense(), 0, math.nan), labels()), r"eval_set\[0\] contains NaN"),
    ],
    ids=["int", "one", "array", "features", "length", "column", "labels", "nan"],
)
def test_validation_rows(eval_set: Any, message: str) -> None:
    for use in (
        lambda: train(dense(), labels(), eval_set=eval_set),
        lambda: SGDClassifier().fit(dense(), labels(), eval_set=eval_set),
    ):
        with pytest.raises(ValueError, match=message):
            use()


def test_validation_numbers() -> None:
    with pytest.raises(ValueError, match=r"eval_set\[1\] contains NaN or infinity"):
        SGDRegressor().fit(dense(), numbers(), eval_set=(dense(), with_value(numbers(), 0, math.nan)))


def test_one_class_has_nothing_to_score() -> None:
    with pytest.raises(ValueError, match="eval_set needs targets to score, which loss='one_class' does not use"):
        train(dense(), loss="one_class", eval_set=(dense(), labels()))
    with pytest.raises(ValueError, match="early_stopping needs targets to score"):
        train(dense(), loss="one_class", early_stopping=EarlyStopping(np.arange(N) < 3))


@pytest.mark.parametrize(
    "held_out", [np.ones(N, bool), np.zeros(N, bool), np.ones(3, bool)], ids=["all", "none", "few"]
)
def test_rows_held_out(held_out: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"early_stopping.held_out must mark some but not all of the 24 rows"):
        train(dense(), labels(), early_stopping=EarlyStopping(held_out))


def test_early_stopping_is_no_switch() -> None:
    with pytest.raises(TypeError, match=r"early_stopping=True is not a symsgd.EarlyStopping"):
        train(dense(), labels(), early_stopping=True)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (Start(np.zeros(3), np.zeros(1)), r"init.coef has shape \(3,\); expected \(1, 5\)"),
        (Start(np.zeros(F), np.zeros(2)), r"init.intercept has shape \(2,\); expected \(1,\)"),
        (Start(np.full(F, math.nan), np.zeros(1)), "init.coef is not made of finite numbers"),
        (Start(np.zeros(F), np.array([math.inf])), "init.intercept is not made of finite numbers"),
        (Start(np.array(["a"] * F), np.zeros(1)), "init.coef is not made of finite numbers"),
        (Start(np.zeros(F), np.zeros(1), t=0), "init.t=0 is not accepted"),
        (Start(np.zeros(F), np.zeros(1), t=math.nan), "init.t=nan is not accepted"),
    ],
)
def test_starts(start: Start, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(dense(), labels(), init=start)


def test_a_start_of_another_type() -> None:
    with pytest.raises(TypeError, match=r"init=3 is neither a symsgd.Start nor a symsgd.Result"):
        train(dense(), labels(), init=3)


@pytest.mark.parametrize("estimator", SUPERVISED)
def test_starts_of_an_estimator(estimator: Any) -> None:
    for more in ({"coef_init": np.zeros(3)}, {"intercept_init": np.zeros(3)}):
        with pytest.raises(ValueError, match=f"Provided {next(iter(more))} does not match dataset"):
            fit(new(estimator), **more)
    with pytest.raises(ValueError, match="Provided coef_init contains NaN or infinity"):
        fit(new(estimator), coef_init=np.full(F, math.nan))


# Divergence


DIVERGING = {
    "float32, huge steps": (np.float32, 1e15, "squared_hinge", schedules.Constant(1e20)),
    "float32, huge values": (np.float32, 1e30, "log_loss", schedules.Constant(1.0)),
    "float64, huge values": (np.float64, 1e200, "log_loss", schedules.Constant(1.0)),
    "float64, huge values, numbers": (np.float64, 1e200, "squared_error", schedules.Constant(1.0)),
    "float64, huge values and steps": (np.float64, 1e300, "hinge", schedules.Constant(1e20)),
}


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("case", DIVERGING)
def test_divergence(case: str, average: bool) -> None:
    dtype, scale, loss, schedule = DIVERGING[case]
    X, y = (dense() * scale).astype(dtype), np.arange(N) % 2 * 2 - 1
    message = r"Floating-point under-/overflow occurred at epoch #1\. Scaling input data .*a smaller step size"
    with pytest.raises(DivergenceError, match=message) as error:
        train(X, y, loss=loss, schedule=schedule, average=average)
    assert isinstance(error.value, ValueError)
    assert error.value.n_pass == 1
    assert np.isfinite(error.value.result.coef).all()
    assert np.isfinite(error.value.result.intercept).all()
    assert error.value.result.average_coef is None


def test_divergence_keeps_the_last_finite_model() -> None:
    """Every step adds 10³⁸ on the way to 3.3 × 10³⁸; the fourth is more than float32 has room for."""
    X, y = np.ones((1, 1), np.float32), [3.3e38]
    steps = {"schedule": schedules.Constant(1e38), "penalty": None, "fit_intercept": False}
    with pytest.raises(DivergenceError, match="occurred at epoch #4") as error:
        train(X, y, n_passes=50, loss="epsilon_insensitive", **steps)
    assert error.value.n_pass == 4
    assert error.value.result.n_passes == 3
    np.testing.assert_allclose(error.value.result.coef, 3e38)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_divergence_of_an_estimator(estimator: Any) -> None:
    model = fit(new(estimator, random_state=0)).set_params(eta0=1e10)
    if "learning_rate" in model.get_params():
        model.set_params(learning_rate="constant")
    before = dict(vars(model))
    with pytest.raises(DivergenceError, match="Floating-point under-/overflow occurred at epoch"):
        fit(model, (dense() * 1e35).astype(np.float32))
    assert_unchanged(model, before)


# What is left behind


def assert_unchanged(model: Any, before: dict[str, Any]) -> None:
    """The very same objects under the same names: a failed fit replaces nothing (and arrays are never written to)."""
    assert vars(model).keys() == before.keys()
    for name, value in vars(model).items():
        assert value is before[name], name


def checksum(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        for part in (array.data, array.indices, array.indptr) if sp.issparse(array) else (array,):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def locked(array: Any) -> Any:
    for part in (array.data, array.indices, array.indptr) if sp.issparse(array) else (array,):
        part.setflags(write=False)
    return array


def messy() -> sp.csr_matrix:
    """Unsorted and repeated indices, which some penalties sort for themselves."""
    X = sparse()
    indices = X.indices.copy()
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        indices[begin:end] = indices[begin:end][::-1]
        if end - begin > 2:
            indices[begin] = indices[begin + 1]
    return sp.csr_matrix((X.data, indices, X.indptr), shape=X.shape)


@pytest.mark.parametrize("make", [dense, sparse, messy], ids=["dense", "csr", "messy"])
@pytest.mark.parametrize("penalty", ["l2", "l1", "lasso"])
def test_train_leaves_the_callers_arrays_alone(penalty: str, make: Any) -> None:
    X, y, weights = locked(make()), locked(labels()), locked(ones())
    start = Start(locked(np.ones((1, F))), locked(np.ones(1)), 5.0, locked(np.ones((1, F))), locked(np.ones(1)))
    arrays = (X, y, weights, start.coef, start.intercept, start.average_coef, start.average_intercept)
    before = checksum(*arrays)
    case = {"penalty": penalty, "average": penalty != "lasso", "sample_weight": weights, "init": start}
    result = train(X, y, eval_set=(X, y), tol=1e-3, **case)
    train(X, y, early_stopping=EarlyStopping(locked(np.arange(N) % 4 == 0)), **case)
    decision(X, start.coef, start.intercept)
    assert checksum(*arrays) == before
    after = checksum(result.coef, result.intercept)
    train(X, y, init=result, penalty=penalty)
    assert checksum(result.coef, result.intercept) == after


@pytest.mark.parametrize("make", [dense, sparse, messy], ids=["dense", "csr", "messy"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_leave_the_callers_arrays_alone(estimator: Any, make: Any) -> None:
    X, y, weights, coef = locked(make()), locked(labels()), locked(ones()), locked(np.ones((1, F)))
    before = checksum(X, y, weights, coef)
    model = fit(new(estimator), X, y, sample_weight=weights, coef_init=coef)
    model.partial_fit(X, y, sample_weight=weights)
    model.predict(X)
    assert checksum(X, y, weights, coef) == before


# parameters to set first, and what then fails
FAILURES: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "nan": ({}, lambda m: fit(m, with_value(dense(), 0, math.nan))),
    "weights": ({}, lambda m: fit(m, sample_weight=-ones())),
    "strategy": ({"strategy": "no-such-name"}, fit),
    "threads": ({"n_jobs": 0}, fit),
    "callback that raises": ({"callbacks": [lambda record: 1 / 0]}, fit),
    "other features": ({}, lambda m: fit(m, with_value(dense()[:, :3], 0, math.inf))),
    "partial fit": ({}, lambda m: m.partial_fit(with_value(dense(), 0, math.nan), labels())),
    "partial fit of other features": ({}, lambda m: m.partial_fit(dense()[:, :3], -labels(), sample_weight=-ones())),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_failed_fit_leaves_a_fitted_estimator_as_it_was(estimator: Any, failure: str) -> None:
    model = fit(new(estimator, random_state=0))
    prepare, fail = FAILURES[failure]
    model.set_params(**prepare)
    before, coef = dict(vars(model)), model.coef_.copy()
    with pytest.raises((ValueError, ZeroDivisionError)):
        fail(model)
    assert_unchanged(model, before)
    np.testing.assert_array_equal(model.coef_, coef)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_failed_fit_leaves_a_fresh_estimator_without_attributes(estimator: Any, failure: str) -> None:
    prepare, fail = FAILURES[failure]
    model = new(estimator).set_params(**prepare)
    with pytest.raises((ValueError, ZeroDivisionError)):
        fail(model)
    assert set(vars(model)) == set(estimator().get_params())
    with pytest.raises(NotFittedError):
        model.predict(dense())


def test_numbers_are_no_labels() -> None:
    with pytest.raises(ValueError, match=r"y contains .*, which is a number, not a label; loss='log_loss' predicts"):
        train(dense(), np.linspace(0.1, 0.9, N))


@pytest.mark.parametrize(("classes", "fits"), [(2, 300_000), (5, 60_000)])
def test_a_model_that_cannot_fit_is_refused(classes: int, fits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = 1 << 22
    monkeypatch.setattr("symsgd.training.available_memory", lambda: memory)
    y = np.arange(10) % classes
    train(sp.csr_matrix((10, fits), dtype=np.float32), y, n_passes=1)
    with pytest.raises(MemoryError, match=r"a model of 1,000,000 features needs [\d.]+ GiB, and there are 0.0"):
        train(sp.csr_matrix((10, 1_000_000), dtype=np.float32), y, n_passes=1)
