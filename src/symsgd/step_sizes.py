"""A step size without a search: the largest that the curvature of the loss allows.

Along a row, a step of size α takes the share α c h ‖x‖² of what a Newton step would: 1 lands on the row's own least
loss, 2 is where steps begin to grow. Over many rows that factor is c h ‖x‖² weighted by itself, R = E[(c‖x‖²)²] /
E[c‖x‖²] (heavy rows count for more, as they do in the mean square of the iterates), and

    α = 1 / (h_max R)

with h_max the most that ∂²ℓ/∂p² is. Losses without curvature count as 1: the step moves a typical prediction by 1, the
width of a margin. Such a step is far too large to end with, which is why only the schedule that falls to 0 takes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symsgd.inputs import Array, Data, on_host
from symsgd.losses import Loss
from symsgd.problem import Problem

SAMPLE = 4096  # rows, spread evenly: the mean of more is no better


def largest_step(data: Data, problem: Problem, loss: Loss, intercept: float) -> float:
    """``intercept`` is the square of its feature: 0 without one, less than 1 where it learns more slowly."""
    chosen = np.unique(np.linspace(0, data.n_rows - 1, min(SAMPLE, data.n_rows)).astype(np.int64))
    squares = _squared_norms(data, chosen) + intercept
    if problem.sample_weight is not None:
        squares *= np.asarray(problem.sample_weight[chosen], np.float64)
    squares *= max(*problem.positive_weight, *problem.negative_weight)
    total = float(squares.sum())
    if total <= 0.0:
        return 1.0 / loss.most_curvature  # nothing but empty rows: any step is as good
    return total / (loss.most_curvature * float(squares @ squares))


def _squared_norms(data: Data, rows: Array) -> Array:
    found: Any = on_host(data.take(rows))
    numbers = found.data if data.sparse else found
    squares = np.square(numbers, dtype=np.float64)
    if not data.sparse:
        return squares.sum(axis=1)  # type: ignore[no-any-return]
    ends = np.r_[0.0, np.cumsum(squares)]
    norms: Array = ends[found.indptr[1:]] - ends[found.indptr[:-1]]
    return norms
