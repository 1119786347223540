"""What a user with a GPU would take instead: mini-batch SGD in PyTorch, the data already on the device.

In a process of its own: the threads of PyTorch and of the GPU's driver would be in the way of those that are timed
after it.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

BATCHES = (256, 8192)
WIDE = 16  # features for every nonzero of a batch, from which on most of them are not in it
NOTHING: NDArray[np.float32] = np.zeros(0, np.float32)


@dataclass(frozen=True)
class Trained:
    """Weights, intercept and the seconds of all passes; ``reason`` says why there are none."""

    coef: NDArray[np.float32]
    intercept: float = 0.0
    seconds: float = 0.0
    reason: str = ""


def reason_against() -> str:
    """Why there is nothing to be trained with, as far as it is known without asking the device."""
    return "PyTorch is not installed" if importlib.util.find_spec("torch") is None else ""


def train_apart(
    X: Any, positive: NDArray[np.bool_], step_size: float, alpha: float, batch_sizes: Sequence[int], n_passes: int
) -> list[Trained]:
    """`train` with each size of batches, in one other process: it takes seconds until it has the rows."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(train_each, X, positive, step_size, alpha, batch_sizes, n_passes).result()
        except (BrokenProcessPool, ImportError, MemoryError, OSError) as error:
            return [Trained(NOTHING, reason=f"its process failed: {error}") for _ in batch_sizes]


def train_each(
    X: Any, positive: NDArray[np.bool_], step_size: float, alpha: float, batch_sizes: Sequence[int], n_passes: int
) -> list[Trained]:
    """`train` with one size after the other. One that the device has no room for has that as its reason."""
    found = []
    for batch_size in batch_sizes:
        try:
            found.append(train(X, positive, step_size, alpha, batch_size, n_passes))
        except RuntimeError as error:  # PyTorch's for all that goes wrong on a device
            found.append(Trained(NOTHING, reason=str(error).splitlines()[0]))
    return found


def train(
    X: Any, positive: NDArray[np.bool_], step_size: float, alpha: float, batch_size: int, n_passes: int
) -> Trained:
    """Logistic loss and L2. The step of a batch is its size times that of a row, at most 32 rows' worth: beyond that
    plain SGD with these steps diverges. Batches are in storage order, cut once, so that no time goes into shuffling."""
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return Trained(NOTHING, reason="there is no GPU")
    device = torch.device("cuda")
    cuts = range(0, X.shape[0], batch_size)
    batches = [_to_device(torch, *narrowed(X[begin : begin + batch_size]), device) for begin in cuts]
    signs = torch.from_numpy(np.where(positive, 1.0, -1.0).astype(np.float32)).to(device)
    step = step_size * min(batch_size, 32)
    w = torch.zeros(X.shape[1], device=device)
    b = torch.zeros(1, device=device)
    for warm_up in (True, False):
        w.zero_()
        b.zero_()
        torch.cuda.synchronize()
        before = time.perf_counter()
        for _ in range(1 if warm_up else n_passes):
            for (rows, columns, places), begin in zip(batches, cuts, strict=True):
                y = signs[begin : begin + batch_size]
                own = w if places is None else w[places]
                g = -y * torch.sigmoid(-y * (rows @ own + b)) / len(y)
                w.mul_(1 - step * alpha)
                if places is None:
                    w.sub_(columns @ g, alpha=step)
                else:
                    w.index_add_(0, places, columns @ g, alpha=-step)
                b.sub_(g.sum(), alpha=step)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - before
    return Trained(w.cpu().numpy(), float(b), seconds)


def narrowed(rows: Any) -> tuple[Any, NDArray[np.int64] | None]:
    """A batch with the features that it has, and which those are; as it is where they are many.

    The transpose of a batch has a number for every feature, and there are as many transposes as batches.
    """
    if not sp.issparse(rows) or rows.shape[1] <= WIDE * rows.nnz:
        return rows, None
    features, places = np.unique(rows.indices, return_inverse=True)
    shape = (rows.shape[0], len(features))
    return sp.csr_matrix((rows.data, places.astype(np.int32), rows.indptr), shape=shape), features.astype(np.int64)


def _to_device(torch: Any, rows: Any, features: NDArray[np.int64] | None, device: Any) -> tuple[Any, Any, Any]:
    """A batch, its transpose, which the gradient needs, and its features."""
    if not sp.issparse(rows):
        dense = torch.from_numpy(np.ascontiguousarray(rows, np.float32)).to(device)
        return dense, dense.T, None
    own, transposed = (
        torch.sparse_csr_tensor(
            torch.from_numpy(part.indptr.astype(np.int64)),
            torch.from_numpy(part.indices.astype(np.int64)),
            torch.from_numpy(part.data.astype(np.float32)),
            size=part.shape,
        ).to(device)
        for part in (rows, rows.T.tocsr())
    )
    return own, transposed, None if features is None else torch.from_numpy(features).to(device)
