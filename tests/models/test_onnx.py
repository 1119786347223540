"""onnxruntime computes what the estimator computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest

import symsgd
from helpers import MARGIN_LOSSES, REAL_LOSSES
from model_cases import MODELS, RESULTS, F, fitted, labels, numbers, rows
from symsgd.data import Schema


def run(proto: Any, X: Any) -> dict[str, Any]:
    content = proto if isinstance(proto, (bytes, str)) else proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return dict(zip([own.name for own in session.get_outputs()], session.run(None, {"X": X}), strict=True))


def assert_computes(model: Any, proto: Any, X: Any) -> None:
    outputs = run(proto, X)
    tolerance = 1e-5 if X.dtype == np.float32 else 1e-13
    if not hasattr(model, "decision_function"):
        assert outputs.keys() == {"prediction"}
        predicted = model.predict(X)
        assert outputs["prediction"].shape == predicted.shape
        np.testing.assert_allclose(outputs["prediction"], predicted, rtol=tolerance, atol=tolerance)
        return
    scores = model.decision_function(X)
    assert outputs["scores"].shape == scores.shape
    np.testing.assert_allclose(outputs["scores"], scores, rtol=tolerance, atol=tolerance * abs(scores).max())
    assert outputs["label"].tolist() == model.predict(X).tolist()
    assert ("probabilities" in outputs) == hasattr(model, "predict_proba")
    if "probabilities" in outputs:
        probabilities = model.predict_proba(X)
        assert outputs["probabilities"].shape == probabilities.shape
        np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=20 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("names", [(-1, 1), ("no", "yes"), (0, 1, 2), ("ä", "b", "c", "d"), (0.5, 1.5)])
@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_classifiers(loss: str, names: Any, dtype: Any) -> None:
    X = rows(dtype=dtype)
    y = labels(*names)
    if names == (0.5, 1.5):  # scikit-learn does not take these for labels, other ways to a model do
        model = fitted(symsgd.SGDClassifier, y > 1, X, loss=loss)
        model.classes_ = np.array(names)
    else:
        model = fitted(symsgd.SGDClassifier, y, X, loss=loss)
    assert_computes(model, symsgd.to_onnx(model), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", REAL_LOSSES)
def test_regressors(loss: str, dtype: Any) -> None:
    X = rows(dtype=dtype)
    model = fitted(symsgd.SGDRegressor, numbers(), X, loss=loss)
    assert_computes(model, symsgd.to_onnx(model), X)


@pytest.mark.parametrize("name", MODELS)
def test_models_of_every_kind(name: str) -> None:
    model = MODELS[name]()
    X = rows(dtype=model.coef_.dtype)
    assert_computes(model, symsgd.to_onnx(model), X)


@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
def test_probabilities_where_all_or_none_are_likely(loss: str) -> None:
    """Sums of zero and exponents beyond every double."""
    model = fitted(symsgd.SGDClassifier, labels(0, 1, 2), rows(dtype=np.float32), loss=loss)
    model.coef_ = np.repeat(np.float32([[-40.0]]), 3, axis=0) * np.ones((1, F), np.float32)
    model.intercept_ = np.zeros(3, np.float32)
    X = np.float32([[1.0] * F, [-1.0] * F, [1e4] * F, [-1e4] * F, [0.0] * F])
    outputs = run(symsgd.to_onnx(model), X)
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X), rtol=1e-6)
    assert np.isfinite(outputs["probabilities"]).all()


def test_a_float64_model_for_float32_rows() -> None:
    model = MODELS["two classes"]()
    X = rows(dtype=np.float32)
    assert_computes(model, symsgd.to_onnx(model, dtype="float32"), X)


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    result = RESULTS[name]()
    X = rows(dtype=result.coef.dtype)
    outputs = run(symsgd.to_onnx(result), X)
    scores = outputs["prediction" if result.classes is None else "scores"]
    np.testing.assert_allclose(scores, result.decision(X), rtol=1e-5, atol=1e-5)
    assert ("label" in outputs) == (result.classes is not None)


def test_the_file_is_the_model_and_names_its_features(tmp_path: Path) -> None:
    names = [f"column {i}" for i in range(F)]
    model = fitted(symsgd.SGDRegressor, numbers(), pd.DataFrame(rows(), columns=names))
    proto = symsgd.to_onnx(model, tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx") == proto
    assert proto.producer_name == "symsgd"
    assert {own.key: json.loads(own.value) for own in proto.metadata_props} == {"feature_names": names}

    model = MODELS["regressor"]()
    model.schema_ = Schema("csv", F, tuple(names))
    assert [own.key for own in symsgd.to_onnx(model).metadata_props] == ["feature_names"]


def test_bad_arguments() -> None:
    model = MODELS["regressor"]()
    with pytest.raises(ValueError, match="dtype=int64 is not accepted; it must be float32 or float64"):
        symsgd.to_onnx(model, dtype=int)
    with pytest.raises(TypeError, match="a str is neither one of symsgd's estimators"):
        symsgd.to_onnx("model")
    with pytest.raises(ValueError, match="not fitted"):
        symsgd.to_onnx(symsgd.SGDClassifier())


def test_without_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install symsgd\[onnx\]"):
        symsgd.to_onnx(MODELS["regressor"]())
