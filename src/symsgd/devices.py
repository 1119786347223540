"""Where a training runs: the CPU, or a GPU if there is one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symsgd.gpu.machine import Machine

DEVICES = ("cpu", "cuda", "auto")
LEAST_CAPABILITY = 80


def check_device(device: Any) -> str:
    """The name, if it is one.

    Raises
    ------
    ValueError : it is none
    """
    if device not in DEVICES:
        raise ValueError(f"device={device!r} is not accepted; it must be 'cpu', 'cuda' or 'auto'")
    return str(device)


def cuda() -> Machine:
    """The GPU.

    Raises
    ------
    RuntimeError : there is none, or CuPy is not installed
    """
    reason = why_not_cuda()
    if reason:
        raise RuntimeError(f"device='cuda' needs a GPU and CuPy: {reason}")
    return _machine()


@functools.lru_cache(maxsize=1)
def why_not_cuda() -> str:
    """Why there is no GPU to train on; nothing if there is one."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed; pip install 'symsgd[cuda]'"
    except Exception as error:  # a CuPy that does not find its libraries says so in many ways
        return f"CuPy does not load: {error}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA does not start: {error}"
    if not count:
        return "CUDA sees no device"
    capability = cupy.cuda.Device().compute_capability
    if int(capability) < LEAST_CAPABILITY:
        return f"the GPU has compute capability {capability[:-1]}.{capability[-1]}, and 8.0 is the least that works"
    return ""


@functools.lru_cache(maxsize=1)
def _machine() -> Machine:
    from symsgd.gpu.cuda import Cuda

    return Cuda()


def is_on_gpu(X: Any) -> bool:
    """Whether it is an array in the memory of a GPU."""
    return hasattr(X, "__cuda_array_interface__")
