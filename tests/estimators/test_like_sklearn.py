"""What goes in and what comes out: arrays and labels of every kind give scikit-learn's model, and that its predictions.

How the models agree for every loss, penalty and schedule is in test_equals_sklearn.py.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

import symsgd
from helpers import (
    CLASSES,
    CLASSIFIERS,
    LEARNERS,
    PENALTIES,
    N,
    assert_same_model,
    both,
    fit_both,
    name,
    rows,
    settings,
    targets,
)

LAYOUTS = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
PLAIN = [
    ("SGDClassifier", "log_loss"),
    ("SGDRegressor", "squared_error"),
    ("Perceptron", "perceptron"),
    ("SGDOneClassSVM", "one_class"),
]


# Sparse rows


def scrambled(X: Any) -> Any:
    """The same matrix with the indices of every row in random order, and half of the values in two parts."""
    rng, starts, indices, values = np.random.default_rng(0), [0], [], []
    for r in range(X.shape[0]):
        row = X[[r]]
        index = np.concatenate([row.indices, row.indices[::2]])
        value = np.concatenate([row.data, 0.3 * row.data[::2]])
        value[: len(row.data) : 2] *= 0.7
        order = rng.permutation(len(index))
        indices.append(index[order])
        values.append(value[order])
        starts.append(starts[-1] + len(index))
    arrays = (np.concatenate(values), np.concatenate(indices).astype(np.int32), np.array(starts, np.int32))
    return scipy.sparse.csr_matrix(arrays, shape=X.shape)


@pytest.mark.parametrize(("penalty", "average"), [(None, 50), ("l2", 50), ("l1", False), ("elasticnet", False)])
@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_unsorted_and_repeated_indices(case: Any, penalty: Any, average: Any) -> None:
    """scikit-learn walks them as they are, and so do we."""
    X = scrambled(rows(sparse=True))
    before = [array.copy() for array in (X.data, X.indices, X.indptr)]
    more = settings(*case, penalty) | ({} if case[0] == "Perceptron" else {"average": average})
    for classes in (2, 5) if case in CLASSIFIERS else (2,):
        assert_same_model(*fit_both(case[0], X, targets(X, case[0], classes), **more))
    for array, copy in zip((X.data, X.indices, X.indptr), before, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize(("learner", "loss"), [("SGDClassifier", "hinge"), ("SGDRegressor", "epsilon_insensitive")])
@pytest.mark.parametrize("schedule", ["pa1", "pa2"])
def test_passive_aggressive_steps_see_repeated_indices_as_one_feature(learner: str, loss: str, schedule: str) -> None:
    """Their step needs ‖x‖², which scikit-learn gets wrong there."""
    X = rows(sparse=True, scale=3.0)
    y = targets(X, learner)
    more = settings(learner, loss, "l2", schedule)
    ours, theirs = both(learner, **more)
    assert_same_model(ours.fit(scrambled(X), y), theirs.fit(X, y))


@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_wide_indices(case: Any) -> None:
    """scikit-learn refuses 64-bit indices."""
    X = rows(sparse=True)
    wide = scipy.sparse.csr_matrix((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert wide.indices.dtype == np.int64
    y = targets(X, case[0], 5)
    one, other = (both(case[0], **settings(*case))[0].fit(matrix, y) for matrix in (X, wide))
    assert_array_equal(one.coef_, other.coef_)
    assert_array_equal(one.predict(X), other.predict(wide))


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "csr_array"])
def test_other_sparse_formats(form: str) -> None:
    X = rows(sparse=True)
    y = targets(X, "SGDClassifier")
    other = scipy.sparse.csr_array(X) if form == "csr_array" else X.asformat(form)
    assert_same_model(*fit_both("SGDClassifier", other, y))


def test_rows_without_any_feature() -> None:
    X = scipy.sparse.csr_matrix((20, 4))
    for case in PLAIN:
        y = np.arange(20) % 2
        assert_same_model(*fit_both(case[0], X, y, **settings(*case)))


# Dense rows


@pytest.mark.parametrize("case", PLAIN, ids=name)
def test_strides_and_types(case: Any) -> None:
    X = rows(2 * N, 40)
    y = targets(X, case[0])
    more = {**settings(*case), "eta0": 2**-8}
    for form in [np.asfortranarray(X), X[:, ::2], X[:, ::-1], X.tolist(), np.round(20 * X).astype(np.int16), X > 0]:
        assert_same_model(*fit_both(case[0], form, y, **more))
    assert_same_model(*fit_both(case[0], X[::2], None if y is None else y[::2], **more))


@LAYOUTS
@pytest.mark.parametrize("case", PLAIN, ids=name)
def test_read_only_arrays(case: Any, sparse: bool) -> None:
    X = rows(sparse=sparse)
    y, weights = targets(X, case[0]), np.linspace(0.5, 1.5, N)
    ours, theirs = both(case[0], **settings(*case))
    theirs.fit(X, y, sample_weight=weights)
    for array in [weights, *([X.data, X.indices, X.indptr] if sparse else [X]), *([] if y is None else [y])]:
        array.flags.writeable = False
    assert_same_model(ours.fit(X, y, sample_weight=weights), theirs)


@LAYOUTS
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("case", PLAIN, ids=name)
def test_few_features_and_few_rows(case: Any, penalty: Any, sparse: bool) -> None:
    for n, f in [(N, 1), (N, 2), (2, 5), (7, 3)]:
        X = rows(n, f, sparse=sparse)
        y = targets(X, case[0])
        assert_same_model(*fit_both(case[0], X, y, **settings(*case, penalty), max_iter=5, shuffle="full"))


def test_one_row_at_a_time() -> None:
    X = rows()
    for case in PLAIN:
        y = targets(X, case[0])
        ours, theirs = both(case[0], **settings(*case))
        for i in range(30):
            more = {"classes": [0, 1]} if case in CLASSIFIERS and i == 0 else {}
            for model in (ours, theirs):
                model.partial_fit(X[[i]], None if y is None else y[[i]], **more)
        assert_same_model(ours, theirs)


# Targets


def labels(y: np.ndarray) -> dict[str, Any]:
    """The classes 0, 1, … as labels of many kinds."""
    words = np.array(["", "ox", "Übel", "wolf", "yak"])
    return {
        **{
            kind: y.astype(kind) for kind in ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint64", "float32")
        },
        "negative": (3 * y - 4).astype(np.int8),
        "float64": 2.0 * y - 1.0,
        "beyond doubles": y + 2**60,
        "str": words[y],
        "object": words[y].astype(object),
        "list": y.tolist(),
        "every second": np.repeat(y, 2)[::2],
    }


@pytest.mark.parametrize("learner", ["SGDClassifier", "Perceptron"])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("kind", labels(np.arange(5)))
def test_labels(kind: str, classes: int, learner: str) -> None:
    X = rows()
    y = labels(targets(X, learner, classes))[kind]
    ours, theirs = fit_both(learner, X, y)
    assert_same_model(ours, theirs)
    for here, there in [(ours.classes_, theirs.classes_), (ours.predict(X), theirs.predict(X))]:
        assert here.dtype == there.dtype
        assert_array_equal(here, there)
    assert ours.score(X, y) == theirs.score(X, y)
    weight = dict(zip(ours.classes_, np.linspace(0.5, 2.0, classes), strict=True))
    assert_same_model(*fit_both(learner, X, y, class_weight=weight))
    pair = both(learner)
    for model in pair:
        model.partial_fit(X[:40], y[:40], classes=theirs.classes_).partial_fit(X[40:], y[40:])
    assert_same_model(*pair)


def test_boolean_labels() -> None:
    X = rows()
    y = targets(X, "SGDClassifier") == 1
    ours, theirs = fit_both("SGDClassifier", X, y)
    assert_same_model(ours, theirs)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.predict(X).dtype == bool


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64", bool])
def test_numbers_to_predict(dtype: Any) -> None:
    X = rows()
    y = np.round(5 * np.abs(targets(X, "SGDRegressor"))).astype(dtype)
    assert_same_model(*fit_both("SGDRegressor", X, y))
    assert_same_model(*fit_both("SGDRegressor", X.astype(np.float32), y), tolerance=1e-4)


@pytest.mark.parametrize("weights", [2, 0.5, np.arange(N), np.arange(N, dtype=np.float32), np.arange(N) % 2 == 0])
def test_kinds_of_sample_weights(weights: Any) -> None:
    X = rows()
    for case in PLAIN:
        y = targets(X, case[0])
        more = {**settings(*case), "eta0": 2**-8}
        assert_same_model(*fit_both(case[0], X, y, {"sample_weight": weights}, **more))


def test_classes_that_the_first_rows_lack() -> None:
    X = rows()
    y = np.sort(targets(X, "SGDClassifier", 5))
    pair = both("SGDClassifier")
    for begin in range(0, N, 20):
        for model in pair:
            model.partial_fit(X[begin : begin + 20], y[begin : begin + 20], classes=np.arange(5))
        assert_same_model(*pair)


# Predictions


def assert_same_predictions(ours: Any, theirs: Any, X: Any, tolerance: float = 1e-12) -> None:
    """Whatever of these a scikit-learn estimator has; to `tolerance` of the largest finite number."""
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba", "score_samples"):
        assert hasattr(ours, method) == hasattr(theirs, method), method
        if hasattr(ours, method):
            here = getattr(ours, method)(X)
            with np.errstate(divide="ignore"):
                there = getattr(theirs, method)(X)
            scale = np.abs(there[np.isfinite(there)]).max()
            assert here.shape == there.shape, method
            assert_allclose(here, there, rtol=tolerance, atol=tolerance * scale, err_msg=method)


@LAYOUTS
@pytest.mark.parametrize(
    ("case", "classes"),
    [*[(case, 2) for case in LEARNERS], *[(case, n) for case in CLASSIFIERS[::4] for n in CLASSES]],
    ids=name,
)
def test_predictions(case: Any, classes: int, sparse: bool) -> None:
    X = rows(sparse=sparse, scale=2.0)
    ours = both(case[0], **settings(*case))[0].fit(X, targets(X, case[0], classes))
    theirs = ours.to_sklearn()
    for matrix in (X, rows(30, seed=7), rows(30, sparse=True, seed=8), rows(1, seed=9), scrambled(rows(sparse=True))):
        assert_same_predictions(ours, theirs, matrix)
    single = rows(30, dtype=np.float32, sparse=sparse)
    assert_same_predictions(ours, theirs, single, tolerance=1e-3)
    assert_same_predictions(ours.sparsify(), theirs, X)
    assert_same_predictions(ours.densify(), theirs, X)


@pytest.mark.parametrize("case", CLASSIFIERS, ids=name)
def test_predictions_far_out(case: Any) -> None:
    """Probabilities of 0 and 1, their logarithms, and rows that every one-vs-rest model denies."""
    X = rows()
    for classes in (2, 3):
        ours = both(case[0], **settings(*case))[0].fit(X, targets(X, case[0], classes))
        assert_same_predictions(ours, ours.to_sklearn(), np.concatenate([1e3 * X, -1e3 * X]), tolerance=1e-9)


def test_predictions_in_single_precision() -> None:
    """Scores and numbers have the type of X; scikit-learn's are float64 where the intercept is."""
    X = rows(dtype=np.float32)
    for case in PLAIN:
        ours = both(case[0], **settings(*case))[0].fit(X, targets(X, case[0]))
        assert_same_predictions(ours, ours.to_sklearn(), X, tolerance=1e-5)
        assert_same_predictions(ours, ours.to_sklearn(), X.astype(np.float64))
        scores = ours.predict if case[0] == "SGDRegressor" else ours.decision_function
        assert [scores(X).dtype, scores(X.astype(np.float64)).dtype] == [np.float32, np.float64]


# Conversion


@pytest.mark.parametrize("average", [False, 13, 35])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("case", LEARNERS, ids=name)
def test_training_goes_on_after_conversion(case: Any, classes: int, average: Any) -> None:
    if case[0] == "Perceptron" and average:
        return
    X = rows()
    y = targets(X, case[0], classes)
    ours, theirs = both(case[0], **settings(*case), **({"average": average} if average else {}))
    for begin in range(0, 80, 20):
        part = slice(begin, begin + 20)
        more = {"classes": np.arange(classes)} if begin == 0 and case in CLASSIFIERS else {}
        for model in (ours, theirs):
            model.partial_fit(X[part], None if y is None else y[part], **more)
        assert_same_model(ours, theirs)
        ours, theirs = type(ours).from_sklearn(theirs), ours.to_sklearn()
        assert_same_predictions(ours, theirs, X, tolerance=1e-9)


@pytest.mark.parametrize("case", PLAIN, ids=name)
def test_conversion_keeps_parameters_and_shares_nothing(case: Any) -> None:
    X = rows()
    ours, theirs = fit_both(case[0], X, targets(X, case[0]), shuffle="full", **settings(*case))
    there, here = ours.to_sklearn(), type(ours).from_sklearn(theirs)
    assert there.get_params() == theirs.get_params()
    assert here.get_params() == ours.get_params() | {"shuffle": True}
    coef = ours.coef_.copy()
    there.coef_[...] = 7.0
    assert_array_equal(ours.coef_, coef)
    assert_same_predictions(pickle.loads(pickle.dumps(ours)), ours, X)


def test_conversion_of_what_has_no_counterpart() -> None:
    with pytest.raises(ValueError, match="lasso"):
        symsgd.SGDClassifier(penalty="lasso").to_sklearn()
    with pytest.raises(TypeError, match="Perceptron is not a scikit-learn SGDClassifier"):
        symsgd.SGDClassifier.from_sklearn(symsgd.Perceptron().to_sklearn())
