"""Estimators around results of `train`, and trainings that continue estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symsgd
from model_cases import labels, numbers, rows
from symsgd.data import Schema


@pytest.mark.parametrize("average", [False, True, 10_000])
@pytest.mark.parametrize(
    ("kind", "y"),
    [
        (symsgd.SGDClassifier, labels(0, 1)),
        (symsgd.SGDClassifier, labels("a", "b", "c")),
        (symsgd.SGDRegressor, numbers()),
        (symsgd.SGDOneClassSVM, None),
    ],
)
def test_an_adopted_result_predicts_and_continues_as_the_training_would(kind: Any, y: Any, average: Any) -> None:
    X = rows()
    empty = kind(max_iter=2, tol=None, average=average)
    options = empty.train_options()
    first = symsgd.train(X, y, **options, seed=3)
    model = empty.adopt(first)
    assert model is empty
    shift = 1 if kind is symsgd.SGDOneClassSVM else 0  # the core's intercept is 1 − offset
    scores = (model.predict if kind is symsgd.SGDRegressor else model.decision_function)(X)
    np.testing.assert_allclose(scores, first.decision(X) - shift, rtol=1e-12, atol=1e-12)
    assert model.n_iter_ == 2
    assert model.t_ == first.t
    assert model.result_.passes == first.passes

    going_on = symsgd.train(X, y, **options, seed=4, init=first)
    continued = symsgd.train(X, y, **options, seed=4, init=model.as_start())
    np.testing.assert_array_equal(continued.coef, going_on.coef)
    if average is True:
        np.testing.assert_array_equal(continued.average_coef, going_on.average_coef)
    np.testing.assert_allclose(continued.intercept, going_on.intercept, rtol=1e-12)


def test_labels_width_and_schema_come_from_the_result() -> None:
    result = symsgd.train(rows(), labels("no", "yes"))
    object.__setattr__(result, "schema", Schema("svmlight", rows().shape[1]))
    model = symsgd.SGDClassifier(loss="log_loss").adopt(result)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.schema_ == result.schema
    assert set(model.predict(rows())) <= {"no", "yes"}
    model.partial_fit(rows(), labels("no", "yes"))


def test_a_result_of_another_kind_is_refused_and_changes_nothing() -> None:
    of_classes, of_numbers = symsgd.train(rows(), labels(0, 1)), symsgd.train(rows(), numbers(), loss="squared_error")
    classifier, regressor = symsgd.SGDClassifier(), symsgd.SGDRegressor()
    with pytest.raises(ValueError, match="predicts numbers; SGDClassifier needs one of classes"):
        classifier.adopt(of_numbers)
    with pytest.raises(ValueError, match="tells 2 classes apart; SGDRegressor has none"):
        regressor.adopt(of_classes)
    with pytest.raises(ValueError, match="average=False, but the result has the means"):
        classifier.adopt(symsgd.train(rows(), labels(0, 1), average=True))
    for model in (classifier, regressor):
        assert not hasattr(model, "coef_")
        with pytest.raises(ValueError, match="not fitted"):
            model.as_start()
