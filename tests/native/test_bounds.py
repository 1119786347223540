"""No loop reads beyond the caller's arrays: each ends where a page does that nobody may read."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses mmap and mprotect")

# A read too far ends the process, so it is not this one.
TRAIN_BESIDE_THE_GUARD = """
import ctypes, mmap
import numpy as np
import scipy.sparse as sp
from symsgd import decision, train

mprotect = ctypes.CDLL(None, use_errno=True).mprotect
mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
kept = []

def guarded(array):
    pages = -(-array.nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    end = pages * mmap.PAGESIZE
    copy = np.frombuffer(memory, array.dtype, array.size, end - array.nbytes).reshape(array.shape)
    copy[...] = array
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert mprotect(start + end, mmap.PAGESIZE, 0) == 0
    kept.append(memory)
    return copy

rng = np.random.default_rng(0)
for n in (1, 3, 9):
    for f in range(1, 40):
        for dtype in (np.float32, np.float64):
            X = rng.standard_normal((n, f)).astype(dtype)
            y, weights = guarded(np.arange(n, dtype=np.int8) % 3), guarded(np.ones(n))
            sparse = sp.csr_matrix(np.where(X > 0, X, 0))
            sparse.data, sparse.indices, sparse.indptr = map(guarded, (sparse.data, sparse.indices, sparse.indptr))
            for rows in (guarded(X), sparse):
                for classes in ([0, 1, 2], None):
                    loss = "squared_error" if classes is None else "log_loss"
                    for more in ({}, {"penalty": "l1", "average": True, "tol": 0.0}):
                        result = train(rows, y, loss=loss, classes=classes, sample_weight=weights, n_passes=2, **more)
                        decision(rows, guarded(result.coef), guarded(result.intercept))
            if MISREAD:
                print(np.lib.stride_tricks.as_strided(y, (n + 1,))[n])
print("done")
"""


def run(misread: bool) -> subprocess.CompletedProcess[str]:
    code = TRAIN_BESIDE_THE_GUARD.replace("MISREAD", str(misread))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)


def test_nothing_is_read_beyond_the_end() -> None:
    done = run(misread=False)
    assert done.stdout == "done\n", f"ended with {done.returncode}: {done.stderr[-2000:]}"


def test_a_read_too_far_would_be_seen() -> None:
    assert run(misread=True).returncode < 0
