"""`device` as a parameter of the estimators."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from gpu_cases import as_cuda
from strategy_cases import dense_rows, targets
from symsgd import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor, devices, load, losses
from symsgd.gpu.host import Host

ESTIMATORS = [SGDClassifier, SGDRegressor, Perceptron, SGDOneClassSVM]
X = dense_rows(120, 6)
y = targets(X, losses.LogLoss())


def new(kind: Any, **parameters: Any) -> Any:
    return kind(**{"max_iter": 3, "tol": None, "random_state": 0, **parameters})


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_fit_on_a_gpu_is_the_fit_on_the_cpu(kind: Any) -> None:
    there, here = new(kind, device="cuda"), new(kind).fit(X, y)
    with as_cuda(Host()):
        there.fit(X, y)
        assert "NumPy" in there.result_.strategy
    assert "NumPy" not in here.result_.strategy
    assert_allclose(there.coef_, here.coef_, rtol=1e-9, atol=1e-10)
    assert_allclose(there.predict(X), here.predict(X), rtol=1e-9)  # which needs no GPU


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_partial_fits_on_a_gpu(kind: Any) -> None:
    there, here = new(kind, device="cuda"), new(kind)
    classes = {"classes": [-1.0, 1.0]} if kind in (SGDClassifier, Perceptron) else {}
    with as_cuda(Host()):
        for part in (slice(0, 50), slice(50, 51), slice(51, 120)):
            for model in (there, here):
                model.partial_fit(X[part], y[part], **classes)
            assert_allclose(there.coef_, here.coef_, rtol=1e-9, atol=1e-10)
    assert there.t_ == here.t_ == 121


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_it_is_a_parameter_like_any_other(kind: Any, tmp_path: Path) -> None:
    assert kind().device == "cpu"
    model = new(kind, device="auto").fit(X, y)
    assert clone(model).get_params()["device"] == "auto"
    assert pickle.loads(pickle.dumps(model)).device == "auto"
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").device == "auto"
    assert "device" not in model.to_sklearn().get_params()
    assert kind.from_sklearn(model.to_sklearn()).device == "cpu"
    assert model.set_params(device="cpu").fit(X, y).device == "cpu"


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("device", ["tpu", "gpu", "cuda:0", None, 0])
def test_other_devices_are_refused(kind: Any, device: Any) -> None:
    with pytest.raises(ValueError, match=f"The 'device' parameter of {kind.__name__} must be a str among"):
        new(kind, device=device).fit(X, y)


def test_what_a_gpu_cannot_train_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = new(SGDClassifier, penalty="l1").fit(X, y)
    before = model.coef_.copy()
    with as_cuda(Host()), pytest.raises(ValueError, match="penalty='l1' does not work with device='cuda'"):
        model.set_params(device="cuda").fit(X, -y)
    with as_cuda(Host()), pytest.raises(ValueError, match="strategy='hogwild' does not run on device='cuda'"):
        model.set_params(penalty="l2", strategy="hogwild").fit(X, -y)
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "CUDA sees no device")
    with pytest.raises(RuntimeError, match="device='cuda' needs a GPU and CuPy: CUDA sees no device"):
        model.set_params(strategy="auto").fit(X, -y)
    assert_array_equal(model.coef_, before)


def test_auto_fits_sparse_rows_on_the_cpu() -> None:
    found = new(SGDClassifier, device="auto").fit(sp.csr_matrix(X), y)
    assert_array_equal(found.coef_, new(SGDClassifier).fit(sp.csr_matrix(X), y).coef_)
    assert np.abs(found.coef_).max() > 0
