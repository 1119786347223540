"""The CUDA kernels on a CPU: compiled as C++ with tests/cuda_on_cpu.hpp in place of the device's instructions."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from symsgd.gpu import cuda

HERE = Path(__file__).parent
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")


class Emulated(cuda.Cuda):
    """A device of ``blocks`` multiprocessors, on which blocks have ``threads`` threads at most."""

    def __init__(
        self, blocks: int = 4, threads: int = 64, gram_rows: int = 64, shared: int = 1 << 17, pads: bool = True
    ) -> None:
        self.pads = pads
        self.xp, self.name = np, "emulated"
        self.blocks, self.threads, self.gram_rows, self.shared, self.architecture = (
            blocks,
            threads,
            gram_rows,
            shared,
            0,
        )
        self._kept = {}

    def padded(self, n_features: int) -> int:
        return super().padded(n_features) if self.pads else n_features

    def to_host(self, array: Any) -> Any:
        return np.array(array)

    def free_bytes(self) -> int:
        return 1 << 30

    def upload(self, array: Any) -> Any:
        return array

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return np.empty(shape, dtype)

    @contextmanager
    def beside(self) -> Iterator[None]:
        yield

    def wait_for_beside(self) -> None:
        pass

    def project(self, X: Any, V: Any, place_of: Any) -> Any:
        here = np.flatnonzero(place_of >= 0)
        rows = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
        return np.ascontiguousarray(rows[:, here] @ V[place_of[here]])

    def gram_block(self, n_features: int, n_models: int, dtype: np.dtype[Any]) -> int:
        return self.gram_rows

    def _launch(
        self, kernel: str, defined: tuple[str, ...], blocks: int, threads: int, shared: int, struct: Any
    ) -> None:
        library = _built(kernel, defined)
        own = np.array(struct)
        library.launch_kernel(
            ctypes.c_uint(blocks), ctypes.c_uint(min(threads, self.threads)), ctypes.c_size_t(shared),
            ctypes.c_void_p(own.ctypes.data),
        )  # fmt: skip


@functools.cache
def _built(kernel: str, defined: tuple[str, ...]) -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp(prefix="symsgd-emulated-"))
    names = [name for name in cuda.FILES[kernel] if name != "device.cuh"]
    text = [f'#include "{HERE / "cuda_on_cpu.hpp"}"', *(f'#include "{cuda.KERNELS / name}"' for name in names)]
    text.append(
        'extern "C" void launch_kernel(unsigned blocks, unsigned threads, std::size_t shared, const void* pass) {'
        f" launch([&] {{ {cuda.FUNCTIONS[kernel]}(*static_cast<const Pass*>(pass)); }}, blocks, threads, shared); }}"
    )
    (folder / "kernel.cpp").write_text("\n".join(text) + "\n")
    more = os.environ.get("SYMSGD_EMULATED_FLAGS", "").split()
    command = [
        COMPILER or "c++", "-std=c++20", "-O1", "-g", "-pthread", "-shared", "-fPIC", "-w", *more, *defined,
        str(folder / "kernel.cpp"), "-o", str(folder / "kernel.so"),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "kernel.so"))
    if not more:
        shutil.rmtree(folder)
    return library
