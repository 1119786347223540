"""What the twins share: the rows a twin returns, what a population must offer, and labels with noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]
Rows: TypeAlias = Any  # CSR or a dense array, by set; a union would make every caller say which
RowSampler = Callable[[int, Generator], tuple[Rows, Labels]]


@dataclass(frozen=True, eq=False)
class Twin:
    """Training rows and held-out rows of one distribution.

    ``X`` is CSR float32, or a C-contiguous float32 array where the original has no zeros (epsilon); rows have unit
    length; ``y`` is −1 or +1, float64 where it is mapped from a store.
    """

    X: Rows
    y: Labels
    X_test: Rows
    y_test: Labels
    name: str


@dataclass(frozen=True, kw_only=True)
class TwinSpec(ABC):
    """What a twin imitates. ``n_rows`` are the training rows at scale 1; ``chunk_rows`` are drawn at a time."""

    n_rows: int
    n_features: int
    positive_share: float
    label_sharpness: float  # γ
    chunk_rows: int = 20_000

    @abstractmethod
    def sampler(self, rng: Generator) -> RowSampler:
        """Draw the population; return what draws n rows and their labels from it."""

    def with_noise(self, scores: Floats, rng: Generator) -> Floats:
        """u + ε/γ, ε ~ logistic."""
        return scores + rng.logistic(scale=1 / self.label_sharpness, size=len(scores))

    def threshold(self, noisy_scores: Floats) -> float:
        """The t that leaves the share of positive labels above it."""
        return float(np.quantile(noisy_scores, 1 - self.positive_share))


def labels(noisy_scores: Floats, threshold: float) -> Labels:
    """y = +1 where u + ε/γ > t, else −1; so P(y = +1) = 1 / (1 + exp(−γ (u − t)))."""
    return np.where(noisy_scores > threshold, 1, -1).astype(np.int8)


def unit_rows(values: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """The values of rows of these lengths, one after the other, each row scaled to unit length."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    norms = np.sqrt(np.bincount(row, weights=values * values, minlength=len(lengths)))
    values /= norms[row]
    return values


def add_product(out: NDArray[np.floating], left: NDArray[np.floating], right: NDArray[np.floating]) -> None:
    """out += left · right, one multiplication and one addition at a time: BLAS rounds as its threads fall."""
    step = max(1, (1 << 17) // out.shape[1])  # a block of rows stays in the cache for all factors
    for start in range(0, len(out), step):
        block = out[start : start + step]
        for column, row in zip(left[start : start + step].T, right, strict=True):
            block += column[:, None] * row
