"""Where a training runs, and what is said where it cannot."""

from __future__ import annotations

import builtins
import logging
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gpu_cases import as_cuda, on_machine
from strategy_cases import EVERY, dense_rows, name, targets
from symsgd import devices, losses, penalties, strategies, train
from symsgd.gpu import build
from symsgd.gpu.host import Host
from symsgd.strategies import MapReduce

X = dense_rows(60, 4)
y = targets(X, losses.LogLoss())
ON_A_GPU = ("curvature", "curvature-auto")


@pytest.fixture
def without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "CUDA sees no device")


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU, of NumPy."""
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "")
    monkeypatch.setattr(devices, "cuda", Host)


@pytest.mark.parametrize("device", ["tpu", "gpu", "CUDA", "cuda:0", "", None, 0, True])
def test_other_devices_are_refused(device: Any) -> None:
    with pytest.raises(ValueError, match=r"device=.* is not accepted; it must be 'cpu', 'cuda' or 'auto'"):
        train(X, y, device=device)


def test_cuda_without_a_gpu_says_why(without_cuda: None) -> None:
    with pytest.raises(RuntimeError, match="device='cuda' needs a GPU and CuPy: CUDA sees no device"):
        train(X, y, device="cuda")


def test_the_cpu_needs_no_gpu(without_cuda: None) -> None:
    assert np.array_equal(train(X, y, device="cpu").coef, train(X, y).coef)


def reason_with(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> str:
    """What `why_not_cuda` says where `import cupy` gives this module, or raises it."""
    find = builtins.__import__

    def found(module: str, *arguments: Any) -> Any:
        if module == "cupy" and isinstance(cupy, Exception):
            raise cupy
        return find(module, *arguments)

    monkeypatch.setattr(builtins, "__import__", found)
    if not isinstance(cupy, Exception):
        monkeypatch.setitem(sys.modules, "cupy", cupy)
    return devices.why_not_cuda.__wrapped__()


class CUDARuntimeError(RuntimeError):
    pass


def some_cupy(count: Any, capability: str = "80") -> Any:
    """A CuPy that sees so many devices, or fails to look."""

    def look() -> int:
        if isinstance(count, Exception):
            raise count
        return int(count)

    runtime = types.SimpleNamespace(getDeviceCount=look, CUDARuntimeError=CUDARuntimeError)
    device = types.SimpleNamespace(compute_capability=capability)
    return types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime, Device=lambda: device))


@pytest.mark.parametrize(
    ("cupy", "reason"),
    [
        (ImportError("No module named 'cupy'"), "CuPy is not installed; pip install 'symsgd[cuda]'"),
        (OSError("libnvrtc.so.13: no such file"), "CuPy does not load: libnvrtc.so.13: no such file"),
        (some_cupy(CUDARuntimeError("no driver")), "CUDA does not start: no driver"),
        (some_cupy(0), "CUDA sees no device"),
        (some_cupy(1, "75"), "the GPU has compute capability 7.5, and 8.0 is the least that works"),
        (some_cupy(1), ""),
        (some_cupy(2, "103"), ""),
    ],
    ids=["no CuPy", "no library", "no driver", "no device", "an old one", "a device", "a new one"],
)
def test_why_there_is_no_gpu(cupy: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason_with(monkeypatch, cupy) == reason


# "auto"


def test_auto_falls_back_to_the_cpu(
    without_cuda: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(build, "LEAST_WORK", 0)
    with caplog.at_level(logging.INFO, "symsgd"):
        found = train(X, y, device="auto")
    assert "on the CPU: CUDA sees no device" in caplog.text
    assert np.array_equal(found.coef, train(X, y).coef)


def test_auto_takes_a_gpu_where_the_work_is_worth_it(on_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "NumPy" not in train(X, y, device="auto").strategy
    monkeypatch.setattr(build, "LEAST_WORK", 60 * 4 * 10)
    assert "NumPy" in train(X, y, device="auto").strategy
    assert "NumPy" not in train(X, y, device="auto", n_passes=9).strategy


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"X": sp.csr_matrix(X), "strategy": "sequential"}, "trains sparse rows in rounds only"),
        ({"penalty": "l1"}, "penalty='l1'"),
        ({"average": True}, "average"),
        ({"strategy": "hogwild"}, "strategy='hogwild'"),
    ],
    ids=["sparse", "l1", "average", "hogwild"],
)
def test_auto_leaves_what_a_gpu_cannot_train_to_the_cpu(
    case: dict[str, Any], reason: str, on_host: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(build, "LEAST_WORK", 0)
    with caplog.at_level(logging.INFO, "symsgd"):
        found = train(**{"X": X, "y": y, "device": "auto", **case})
    assert "NumPy" not in found.strategy
    assert "on the CPU: " in caplog.text
    assert reason in caplog.text


def test_auto_takes_a_gpu_for_sparse_rows(on_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "LEAST_WORK", 0)
    assert "curvature combiner on NumPy" in train(sp.csr_matrix(X), y, device="auto").strategy


def test_auto_leaves_sparse_rows_that_do_not_fit_to_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(build, "LEAST_WORK", 0)
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "")
    monkeypatch.setattr(devices, "cuda", lambda: Host(memory=1000))
    with caplog.at_level(logging.INFO, "symsgd"):
        assert "NumPy" not in train(sp.csr_matrix(X), y, device="auto").strategy
    assert "on the CPU: X has 240 numbers" in caplog.text
    with pytest.raises(ValueError, match=r"X has 240 numbers.* use device='cpu'"):
        train(sp.csr_matrix(X), y, device="cuda")


def test_auto_leaves_files_to_the_cpu(on_host: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "LEAST_WORK", 0)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert "NumPy" not in train(mapped, y, device="auto").strategy
    assert "NumPy" in train(mapped, y, device="cuda").strategy


# What a GPU does not train


@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "lasso", penalties.L1(0.1)], ids=name)
def test_penalties(penalty: Any) -> None:
    with pytest.raises(ValueError, match=r"penalty='(l1|elasticnet|lasso)' does not work with device='cuda'"):
        on_machine(Host(), X, y, penalty=penalty)


@pytest.mark.parametrize("average", [True, 7])
def test_averages(average: Any) -> None:
    with pytest.raises(ValueError, match="average does not work with device='cuda'"):
        on_machine(Host(), X, y, average=average)


@pytest.mark.parametrize(
    "case", [{"strategy": "sequential"}, {"strategy": "auto", "loss": "hinge", "schedule": "pa1"}], ids=["rows", "pa1"]
)
def test_sparse_rows_one_by_one(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="device='cuda' trains sparse rows in rounds only: strategy='auto'"):
        on_machine(Host(), sp.csr_matrix(X), y, **case)


@pytest.mark.parametrize("strategy", sorted(EVERY.keys() - set(ON_A_GPU)))
def test_strategies(strategy: str) -> None:
    with pytest.raises(ValueError, match=r"strategy='[a-z-]+' does not run on device='cuda'"):
        on_machine(Host(), X, y, strategy=EVERY[strategy])


def test_strategies_by_name() -> None:
    with as_cuda(Host()):
        for strategy in strategies.STRATEGIES:
            if strategy in ("auto", "sequential"):
                assert "NumPy" in train(X, y, strategy=strategy, device="cuda").strategy
            else:
                with pytest.raises(ValueError, match=f"strategy='{strategy}' does not run on device='cuda'"):
                    train(X, y, strategy=strategy, device="cuda")


def test_the_result_says_where_it_was_trained() -> None:
    for strategy in ("sequential", "auto", MapReduce(EVERY["curvature"].combiner, 4)):
        assert " on NumPy" in on_machine(Host(), X, y, strategy=strategy).strategy
