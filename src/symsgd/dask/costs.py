"""What a pass costs on several machines: bytes, rounds and seconds, on paper.

With f features, P blocks on W workers, and h hops between client and worker (two: by way of the scheduler):

    model      4 f bytes, or 8 a weight that is not 0 where that is less
    movement   4 f bytes, or 8 m where that is less: m the features that its rows have, and those of Q
    a round    P (1 − 1/W) movements, to where they are merged
               (W − 1) movements of all rows, from there to the other workers, which keep the model
               h movements of all rows, to the client
    now and then (W + h − 1) models, where workers do not have it: h hops to the first worker, which others fetch it
               from. Small models: P h of them
               (W + h − 1) estimates of H: 4 bytes × 64 directions × 4,096 features, 12 a feature that is known

Measured against it: ``python -m symsgd.bench dask``; docs/dask.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from symsgd.dask.merging import ARITY
from symsgd.dask.packing import index_type

ENTRY_SECONDS = 2e-9  # a nonzero of a row on one core
ROUND_SECONDS = 0.03  # the scheduler's: a dozen tasks, a scatter, a gather
INLINE = 1 << 16  # bytes of a model up to which it travels with every block
HOPS = 2  # from the client to a worker by way of the scheduler
LEAST_GAIN = 1.4  # over one block that goes on alone


@dataclass(frozen=True)
class Shape:
    """What decides the costs. ``row_share`` is the share of rows that has each feature, or None for dense rows."""

    n_features: int
    n_models: int
    n_blocks: int
    n_workers: int
    row_share: npt.NDArray[np.float64] | None
    places: int = 0
    hops: int = HOPS

    def touched(self, rows: float) -> float:
        """Features that a stretch of rows has, on the mean, and those of Q."""
        if self.row_share is None:
            return float(self.n_features)
        own = -np.expm1(rows * np.log1p(-np.minimum(self.row_share, 1 - 1e-12)))
        in_q = np.sort(self.row_share)[::-1][: self.places]
        own_q = -np.expm1(rows * np.log1p(-np.minimum(in_q, 1 - 1e-12)))
        return float(own.sum() + (1.0 - own_q).sum())

    def vector(self, count: float) -> float:
        """Bytes of a vector with ``count`` features that are not 0."""
        sparse = count * (index_type(self.n_features).itemsize + 4 * self.n_models)
        return min(sparse, 4.0 * self.n_features * self.n_models)


def round_bytes(shape: Shape, rows_a_block: float, checked: bool = False) -> float:
    """What a round sends. ``checked``: its last block was trained again."""
    movement = shape.vector(shape.touched(rows_a_block))
    whole = shape.vector(shape.touched(rows_a_block * shape.n_blocks))
    workers = min(shape.n_workers, shape.n_blocks)
    away = shape.n_blocks * (1 - 1 / workers)  # those that are merged on another worker than their own
    if checked:
        away += 1 - 1 / workers
    return away * movement + (workers - 1 + shape.hops) * whole


def model_bytes(shape: Shape, model: float) -> float:
    """What a model of so many bytes costs where workers do not have it."""
    workers = min(shape.n_workers, shape.n_blocks)
    return (workers + shape.hops - 1 if model > INLINE else shape.n_blocks * shape.hops) * model


def estimate_bytes(shape: Shape, rank: int, sample_rows: int) -> float:
    """What an estimate of H sends to the workers: Q, and c of the features that two rows of the sample have or more."""
    known = float(shape.n_features)
    if shape.row_share is not None:
        share = np.minimum(shape.row_share, 1 - 1e-12)
        none = np.exp(sample_rows * np.log1p(-share))
        known = float((1 - none * (1 + sample_rows * share / (1 - share))).sum())
    own = 4.0 * (shape.places + 1) * rank + 8.0 * shape.places + (8.0 + 4.0 * shape.n_models) * known
    return (min(shape.n_workers, shape.n_blocks) + shape.hops - 1) * own


def least_rows(entries_a_row: float, n_blocks: int) -> int:
    """Rows of a block from which on a round of them is 1.4 times as fast as one block that goes on alone."""
    gain = n_blocks / LEAST_GAIN - 1
    if gain <= 0:
        return 1 << 40
    return int(np.ceil(ROUND_SECONDS / (max(1.0, entries_a_row) * ENTRY_SECONDS) / gain))


@dataclass(frozen=True)
class PassCost:
    """A pass on paper: rounds, bytes that all links carry together, seconds, and how many times as fast as one core."""

    rounds: float
    sent: float
    seconds: float
    gain: float


def pass_cost(shape: Shape, n_rows: float, entries_a_row: float, rows_a_block: float, bandwidth: float) -> PassCost:
    """``bandwidth``: bytes a second between any two machines, of many pairs at a time.

    The merged movement goes from one worker to the next, each that has it serving another: log₂ W times its length. A
    merge takes in eight movements, one after the other, on each of log₈ P levels. The client takes its own meanwhile.
    """
    workers = min(shape.n_workers, shape.n_blocks)
    movement = shape.vector(shape.touched(rows_a_block))
    whole = shape.vector(shape.touched(rows_a_block * shape.n_blocks))
    computing = rows_a_block * entries_a_row * ENTRY_SECONDS * shape.n_blocks / workers
    levels = np.ceil(np.log(max(2, shape.n_blocks)) / np.log(ARITY))
    sending = (np.log2(workers) + (levels - 1) * (ARITY - 1)) * whole
    sending += min(ARITY, shape.n_blocks - 1) * movement
    rounds = n_rows / (rows_a_block * shape.n_blocks)
    seconds = rounds * (computing + ROUND_SECONDS + sending / bandwidth)
    alone = n_rows * entries_a_row * ENTRY_SECONDS
    return PassCost(rounds, rounds * round_bytes(shape, rows_a_block), float(seconds), float(alone / seconds))
