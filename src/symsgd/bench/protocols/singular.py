"""Singular values of the combiners of blocks, as the paper's figure has them: how near to I a combiner is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from symsgd.analysis import singular_values
from symsgd.bench.datasets import Dataset
from symsgd.bench.systems.base import Model
from symsgd.training import SPARSE_INTERCEPT_DECAY

RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # of the values that are kept
WHOLE, REST = "M", "M − I"


@dataclass(frozen=True)
class Values:
    """Of one block: those of M, smallest first, or those of M − I, largest first, by their rank."""

    matrix: str
    block_size: int
    by_rank: dict[str, float]


def block_values(
    data: Dataset, model: Model, loss: str, step_size: float, block_sizes: Sequence[int], seed: int
) -> Iterator[Values]:
    """For blocks of rows drawn from the training set, at a model that does not move meanwhile but by the block's steps.

    Blocks larger than the set are left out. Only the features that the rows have are looked at: the others have a
    combiner of I among themselves, whatever the weights.
    """
    sizes = [size for size in block_sizes if size <= data.n_rows]
    if not sizes:
        return
    drawn = np.random.default_rng(seed).permutation(data.n_rows)[: max(sizes)]
    X, y, w = data.X[drawn], data.signs[drawn], np.asarray(model.coef, np.float64)
    sparse = sp.issparse(X)
    if sparse:
        observed = np.unique(X.indices)
        X, w = X[:, observed], w[observed]
    found = singular_values(
        X, y, w, block_sizes=sizes, loss=loss, step_size=step_size, intercept=model.intercept,
        intercept_decay=SPARSE_INTERCEPT_DECAY if sparse else 1.0,
    )  # fmt: skip
    for one in found:
        for matrix, values in ((WHOLE, one.M[::-1]), (REST, one.N)):
            yield Values(matrix, one.block_size, {str(r): float(values[r - 1]) for r in RANKS if r <= len(values)})
