"""Estimators on rows that are in a GPU's memory: what comes out is there too."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpu_arrays import Gpu, GpuArray, here, there
from gpu_cases import as_cuda
from strategy_cases import dense_rows, targets
from symsgd import Perceptron, Result, SGDClassifier, SGDOneClassSVM, SGDRegressor, load, losses, save, train
from symsgd.models.predictor import Predictor

ESTIMATORS = [SGDClassifier, SGDRegressor, Perceptron, SGDOneClassSVM]
X = dense_rows(400, 6)
y = targets(X, losses.LogLoss())
several = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with as_cuda(Gpu()):
        yield


def new(kind: Any, **parameters: Any) -> Any:
    return kind(**{"max_iter": 3, "tol": None, "random_state": 0, "device": "cuda", **parameters})


def same(found: Any, wanted: Any) -> None:
    """The host's numbers, in the memory of the GPU."""
    assert type(found) is GpuArray
    assert found.dtype == wanted.dtype
    assert_allclose(here(found), wanted, rtol=1e-12)


def model_of(model: Any) -> tuple[Any, Any]:
    return model.coef_, model.offset_ if isinstance(model, SGDOneClassSVM) else model.intercept_


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("targets_there", [False, True])
def test_the_model_and_its_predictions_are_where_the_rows_are(kind: Any, targets_there: bool) -> None:
    found, wanted = new(kind).fit(there(X), there(y) if targets_there else y), new(kind).fit(X, y)
    for own, other in zip(model_of(found), model_of(wanted), strict=True):
        same(own, other)
    assert found.n_features_in_ == 6
    assert type(found.result_.coef) is GpuArray
    same(found.predict(there(X)), wanted.predict(X))
    assert_array_equal(found.predict(X), wanted.predict(X))  # rows of the host: on the host
    same(wanted.predict(there(X)), wanted.predict(X))
    if kind is not SGDOneClassSVM:
        assert found.score(there(X), there(y)) == found.score(X, y) == pytest.approx(wanted.score(X, y), abs=1e-12)
    if kind is not SGDRegressor:
        same(found.decision_function(there(X)), wanted.decision_function(X))


@pytest.mark.parametrize("labels", [y, several], ids=["two", "three"])
@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
def test_probabilities(loss: str, labels: Any) -> None:
    found, wanted = new(SGDClassifier, loss=loss).fit(there(X), labels), new(SGDClassifier, loss=loss).fit(X, labels)
    same(found.predict(there(X)), wanted.predict(X))
    same(found.predict_proba(there(X)), wanted.predict_proba(X))
    same(found.predict_log_proba(there(X)), wanted.predict_log_proba(X))


def test_outliers_scores_before_the_offset() -> None:
    model = new(SGDOneClassSVM).fit(there(X))
    same(model.score_samples(there(X)), model.score_samples(X))


def test_words_are_predicted_on_the_host() -> None:
    words = np.where(y > 0, "yes", "no")
    model = new(SGDClassifier).fit(there(X), words)
    predicted = model.predict(there(X))
    assert type(predicted) is np.ndarray
    assert_array_equal(predicted, model.predict(X))
    assert model.score(there(X), words) == np.mean(predicted == words) > 0.7


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_it_goes_on_from_a_model_that_is_there(kind: Any) -> None:
    classes = {"classes": [-1.0, 1.0]} if kind in (SGDClassifier, Perceptron) else {}
    found, wanted = new(kind), new(kind)
    for part in (slice(0, 150), slice(150, 400)):
        found.partial_fit(there(X[part]), y[part], **classes)
        wanted.partial_fit(X[part], y[part], **classes)
    same(found.coef_, wanted.coef_)
    wanted.partial_fit(X, y)
    assert_allclose(found.partial_fit(X, y).coef_, wanted.coef_, rtol=1e-12)  # and comes back with rows of the host
    warm, other = (new(kind, warm_start=True) for _ in range(2))
    for _ in range(2):
        same(warm.fit(there(X), y).coef_, other.fit(X, y).coef_)


def test_classes_may_be_there() -> None:
    found = new(SGDClassifier).partial_fit(there(X), there(several), classes=there(np.arange(3)))
    assert_array_equal(found.classes_, [0, 1, 2])
    given = train(there(X), several, device="cuda", classes=there(np.arange(4)), strategy="sequential", n_passes=1)
    assert given.coef.shape == (4, 6)


def test_weights_early_stopping_and_a_set_to_judge_by() -> None:
    weights = np.random.default_rng(0).uniform(0, 2, len(X))
    case = {"early_stopping": True, "max_iter": 20, "tol": 1e-3}
    seen: list[Any] = []
    found = new(SGDClassifier, **case, callbacks=seen.append)
    found.fit(there(X), there(y), sample_weight=there(weights), eval_set=(there(X[:50]), there(y[:50])))
    wanted = new(SGDClassifier, **case).fit(X, y, sample_weight=weights, eval_set=(X[:50], y[:50]))
    same(found.coef_, wanted.coef_)
    assert found.n_iter_ == wanted.n_iter_ == len(seen)
    assert seen[-1].validation_score == wanted.result_.passes[-1].validation_score


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_copies_are_on_the_host(kind: Any, tmp_path: Path) -> None:
    model = new(kind).fit(there(X), y)
    model.save(tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(model)), copy.copy(model), load(tmp_path / "model")):
        assert type(other.coef_) is type(other.result_.coef) is type(other.result_.intercept) is np.ndarray
        assert_array_equal(other.predict(X), model.predict(X))
    assert type(model.coef_) is type(model.result_.coef) is GpuArray
    assert_array_equal(model.to_sklearn().predict(X), here(model.predict(there(X))))
    assert type(Predictor.of(model).coef) is np.ndarray
    assert type(model.as_start().coef) is np.ndarray
    assert_allclose(model.sparsify().predict(X), model.densify().predict(X), rtol=1e-12)
    for changed in (model.sparsify(), model.densify()):
        other = pickle.loads(pickle.dumps(changed))
        assert all(type(own) is not GpuArray for own in (*model_of(other), other.result_.intercept))
        assert type(Predictor.of(changed).intercept) is np.ndarray
    del model.result_
    assert type(model_of(copy.copy(model))[1]) is np.ndarray


def test_results_of_train_are_copied_and_saved_too(tmp_path: Path) -> None:
    result = train(there(X), y, device="cuda", strategy="sequential", n_passes=2)
    assert type(result.coef) is GpuArray
    save(result, tmp_path / "result")
    loaded = load(tmp_path / "result")
    assert isinstance(loaded, Result)
    assert_array_equal(loaded.coef, here(result.coef))
    assert type(pickle.loads(pickle.dumps(result)).coef) is np.ndarray
    assert type(Predictor.of(result).coef) is np.ndarray
    adopted = new(SGDClassifier, loss="log_loss").adopt(result)
    assert type(adopted.coef_) is GpuArray
    same(adopted.decision_function(there(X)), loaded.decision(X))
    assert type(copy.copy(new(SGDClassifier, loss="log_loss", average=True).adopt(result)).coef_) is np.ndarray


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (X[:, 0], y, "1 dimension"),
        (X, y[:10], "y has 10 targets, but there are 400 rows"),
        (X, np.where(y > 0, np.nan, y), "NaN"),
        (np.where(X > 0.2, np.nan, X), y, "X contains NaN"),
        (X[:0], y[:0], "0 sample"),
        (X, None, "requires y to be passed"),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(rows: Any, labels: Any, message: str) -> None:
    model = new(SGDClassifier).fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=message):
        model.fit(there(rows), labels)
    assert_array_equal(model.coef_, before)


def test_a_word_is_no_target() -> None:
    with pytest.raises(TypeError, match="at least 1 dimension"):
        new(SGDClassifier).fit(there(X), "word")


def test_predictions_need_as_many_features() -> None:
    model = new(SGDClassifier).fit(there(X), y)
    with pytest.raises(ValueError, match="X has 5 features, but SGDClassifier is expecting 6 features"):
        model.predict(there(X[:, :5]))


def test_a_cpu_does_not_train_on_them() -> None:
    with pytest.raises(ValueError, match="X is in the memory of a GPU and device='cpu'"):
        new(SGDClassifier, device="cpu").fit(there(X), y)
