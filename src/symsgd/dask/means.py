"""The means of workers' models, once a pass: averaging (Zinkevich et al. 2010) and AllReduce (Agarwal et al. 2014).

    mean            w = Σ_p S_p / P
    AdaGrad's mean  w_i = Σ_p G_pi S_pi / Σ_p G_pi,   G_i = Σ_p G_pi² / Σ_p G_pi     (the plain mean where all are 0)

What travels are sums, which add up along any tree: Σ s, and for AdaGrad Σ G s, Σ G and Σ G², with s = S − keep w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.dask.merging import Movement
from symsgd.dask.packing import Packed, added, pack

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Sums:
    """Of the models of some blocks. ``weights`` has a line a model, or three with AdaGrad: Σ G s, Σ G, Σ G²."""

    weights: Packed
    intercept: Array
    kept: Array
    lost: Array
    rows: int
    blocks: int = 1
    diverged: bool = False
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes


def sums_of(movement: Movement) -> Sums:
    """A block's own."""
    weights, intercept = movement.change, movement.intercept
    if movement.gathered is not None and movement.gathered_intercept is not None:
        change, squares = movement.change.dense(), movement.gathered.dense()
        weights = pack(np.vstack([squares * change, squares, squares**2]))
        own = movement.gathered_intercept
        intercept = np.concatenate([own * intercept, own, own**2])
    return Sums(
        weights, intercept, np.exp(movement.log_kept), movement.lost, movement.rows, 1, movement.diverged,
        movement.seconds,
    )  # fmt: skip


def summed(parts: Sequence[Sums]) -> Sums:
    """From the left."""
    whole = parts[0]
    for part in parts[1:]:
        whole = Sums(
            added(whole.weights, part.weights),
            whole.intercept + part.intercept,
            whole.kept + part.kept,
            whole.lost + part.lost,
            whole.rows + part.rows,
            whole.blocks + part.blocks,
            whole.diverged or part.diverged,
            whole.seconds + part.seconds,
        )
    return whole


def mean_of(coef: Array, intercept: Array, sums: Sums) -> tuple[Array, Array]:
    """The mean of the models that started from this one."""
    out: Array = coef * (sums.kept / sums.blocks)[:, None].astype(coef.dtype)
    out += sums.weights.dense(coef.dtype) / sums.blocks
    return out, intercept + sums.intercept / sums.blocks


def adagrad_mean_of(coef: Array, intercept: Array, sums: Sums) -> tuple[Array, Array, Array, Array]:
    """The weighted mean, and what it has gathered: weights, intercepts, and the squares of both."""
    models = len(coef)
    weighted, squares, fourth = sums.weights.dense(np.float64).reshape(3, models, -1)
    own, own_squares, own_fourth = sums.intercept.reshape(3, models)
    out = coef * (sums.kept / sums.blocks)[:, None] + _over(weighted, squares)
    return (
        out.astype(coef.dtype),
        intercept + _over(own, own_squares),
        _over(fourth, squares),
        _over(own_fourth, own_squares),
    )


def _over(numerator: Array, denominator: Array) -> Array:
    """Their ratio; 0 where both are."""
    out: Array = numerator / np.where(denominator > 0, denominator, 1.0)
    return out
