"""The CUDA sources compile for every device, type of numbers and loss they are meant for. Needs NVRTC, not a GPU."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symsgd.gpu.cuda import LOSS_KINDS, definitions, source
from symsgd.gpu.machine import Step

ARCHITECTURES = (80, 90)
TYPES = ("f4", "f8")


def libraries() -> Iterator[str]:
    """Where NVRTC may be: in NVIDIA's wheels, or wherever the loader looks."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except ImportError:
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from map(str, sorted(Path(folder).glob("**/libnvrtc.so*")))
    yield from (f"libnvrtc.so.{version}" for version in (13, 12))


@pytest.fixture(scope="module")
def nvrtc() -> Any:
    for path in libraries():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    pytest.skip("there is no NVRTC; pip install nvidia-cuda-nvrtc")


def log_of(nvrtc: Any, kernel: str, architecture: str, defined: tuple[str, ...]) -> tuple[int, str]:
    """What the compiler returns, and says."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source(kernel).encode(), b"", 0, None, None) == 0
    options = ["--std=c++17", "-default-device", f"--gpu-architecture={architecture}", *defined]
    words = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    code = int(nvrtc.nvrtcCompileProgram(program, len(options), words))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode()


def step(loss: str, passive_aggressive: int = 0) -> Step:
    return Step(loss=loss, epsilon=0.1, kappa=1.0, pull=0.0, passive_aggressive=passive_aggressive)


def assert_compiles(nvrtc: Any, kernel: str, architecture: str, rule: Step, dtype: str) -> None:
    number = int(architecture.split("_")[1])
    code, log = log_of(nvrtc, kernel, architecture, definitions(rule, np.dtype(dtype), 10 * number))
    assert code == 0, log
    assert "warning" not in log, log


@pytest.mark.parametrize(
    ("kernel", "architecture", "dtype"),
    [("exact", 80, "f8"), ("exact", 90, "f4"), ("rounds", 80, "f4"), ("rounds", 90, "f8")],
)
def test_machine_code(nvrtc: Any, kernel: str, architecture: int, dtype: str) -> None:
    """To the end, assembler included: it reads what is written in the machine's own words."""
    assert_compiles(nvrtc, kernel, f"sm_{architecture}", step("log_loss"), dtype)


@pytest.mark.parametrize("loss", LOSS_KINDS)
def test_every_loss(nvrtc: Any, loss: str) -> None:
    """To PTX: float32 for older devices, float64 for newer ones."""
    for architecture, dtype in zip(ARCHITECTURES, TYPES, strict=True):
        assert_compiles(nvrtc, "exact", f"compute_{architecture}", step(loss), dtype)


@pytest.mark.parametrize(("loss", "architecture", "dtype"), [("hinge", 80, "f8"), ("squared_error", 90, "f4")])
def test_rounds_of_losses_that_jump_and_that_do_not(nvrtc: Any, loss: str, architecture: int, dtype: str) -> None:
    assert_compiles(nvrtc, "rounds", f"compute_{architecture}", step(loss), dtype)


@pytest.mark.parametrize("passive_aggressive", [1, 2])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_passive_aggressive_steps(nvrtc: Any, loss: str, passive_aggressive: int) -> None:
    dtype = TYPES[passive_aggressive - 1]
    assert_compiles(nvrtc, "exact", "compute_80", step(loss, passive_aggressive), dtype)


def test_a_mistake_is_seen(nvrtc: Any) -> None:
    """Or the tests above would see none."""
    code, log = log_of(nvrtc, "exact", "compute_80", ("-DREAL=quaternion",))
    assert code != 0
    assert "quaternion" in log
