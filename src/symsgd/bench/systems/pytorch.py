"""What a user with a GPU would take instead: mini-batch SGD in PyTorch, the data already on the device.

In a process of its own: the threads of PyTorch and of the GPU's driver would be in the way of those that are timed
after it.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

BATCHES = (256, 8192)


@dataclass(frozen=True)
class Trained:
    """Weights and the seconds of all passes; ``reason`` says why there are none."""

    coef: NDArray[np.float32]
    seconds: float = 0.0
    reason: str = ""


def reason_against() -> str | None:
    """Why there is nothing to be trained with, as far as it is known without asking the device."""
    return "PyTorch is not installed" if importlib.util.find_spec("torch") is None else None


def train_apart(
    X: Any, positive: NDArray[np.bool_], step_size: float, alpha: float, batch_size: int, n_passes: int
) -> Trained:
    """`train` in another process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(train, X, positive, step_size, alpha, batch_size, n_passes).result()


def train(
    X: Any, positive: NDArray[np.bool_], step_size: float, alpha: float, batch_size: int, n_passes: int
) -> Trained:
    """Logistic loss and L2. The step of a batch is its size times that of a row, at most 32 rows' worth: beyond that
    plain SGD with these steps diverges. Batches are in storage order, cut once, so that no time goes into shuffling."""
    nothing = np.zeros(0, np.float32)
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return Trained(nothing, reason="there is no GPU")
    device = torch.device("cuda")
    cuts = range(0, X.shape[0], batch_size)
    batches = [_to_device(torch, X[begin : begin + batch_size], device) for begin in cuts]
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
            for (rows, columns), begin in zip(batches, cuts, strict=True):
                y = signs[begin : begin + batch_size]
                g = -y * torch.sigmoid(-y * (rows @ w + b)) / len(y)
                w.mul_(1 - step * alpha).sub_(columns @ g, alpha=step)
                b.sub_(g.sum(), alpha=step)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - before
    return Trained(w.cpu().numpy(), seconds)


def _to_device(torch: Any, rows: Any, device: Any) -> tuple[Any, Any]:
    """A batch, and its transpose, which the gradient needs."""
    if not sp.issparse(rows):
        dense = torch.from_numpy(np.ascontiguousarray(rows, np.float32)).to(device)
        return dense, dense.T
    return tuple(
        torch.sparse_csr_tensor(
            torch.from_numpy(part.indptr.astype(np.int64)),
            torch.from_numpy(part.indices.astype(np.int64)),
            torch.from_numpy(part.data.astype(np.float32)),
            size=part.shape,
        ).to(device)
        for part in (rows, rows.T.tocsr())
    )
