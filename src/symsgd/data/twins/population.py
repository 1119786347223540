"""What the twins share: the rows a twin returns, what a population must offer, and labels with noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from symsgd.data.dataset import Array, Part, SparseColumns

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]
Rows: TypeAlias = Any  # CSR or a dense array, by set; a union would make every caller say which
Drawn = tuple[tuple[Array, Array, Array] | Array, tuple[Array, Array, Array]]


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


class NativePopulation(Protocol):
    """What draws rows, in the core: one of ``symsgd._core``'s populations."""

    def draw(self, key: int, first: int, count: int, n_threads: int) -> Drawn:
        """``count`` rows from the ``first`` of those with this key: as (starts, indices, values), or a dense array;
        and, of each row, its hidden score, x·v, and logistic noise."""
        ...


class Pilot(NamedTuple):
    """The first rows of a population, which say how to scale what decides the labels."""

    key: int
    rows: SparseColumns | Array
    hidden: Floats
    linear: Floats  # x·v
    noise: Floats


@dataclass(frozen=True)
class Population:
    """Draws rows, each from random numbers of its own, and labels them: y = +1 if u + ε/γ > t, else −1.

    ε ~ logistic, so P(y = +1) = 1 / (1 + exp(−γ (u − t))); u is ``hidden`` times the hidden score and ``linear`` times
    x·v.
    """

    native: NativePopulation
    hidden: float
    linear: float
    label_sharpness: float  # γ
    threshold: float = 0.0  # t

    def with_threshold(self, pilot: Pilot, positive_share: float) -> Population:
        """The t that leaves the share of positive labels above it."""
        noisy = self._noisy_scores(pilot.hidden, pilot.linear, pilot.noise)
        return replace(self, threshold=float(np.quantile(noisy, 1 - positive_share)))

    def draw(self, key: int, first: int, count: int, n_threads: int) -> Part:
        """The same rows for the same key and numbers, whatever else is drawn, and on how many threads."""
        rows, *scores = draw(self.native, key, first, count, n_threads)
        return Part(rows, np.where(self._noisy_scores(*scores) > self.threshold, 1.0, -1.0))

    def _noisy_scores(self, hidden: Floats, linear: Floats, noise: Floats) -> Floats:
        return self.hidden * hidden + self.linear * linear + noise / self.label_sharpness


@dataclass(frozen=True, kw_only=True)
class TwinSpec(ABC):
    """What a twin imitates. ``n_rows`` are the training rows at scale 1; ``chunk_rows`` are drawn at a time."""

    n_rows: int
    n_features: int
    positive_share: float
    label_sharpness: float  # γ
    chunk_rows: int = 20_000

    @abstractmethod
    def population(self, rng: Generator, n_threads: int) -> Population:
        """Draw the population. The threads are for the pilot rows, which are the same on any number of them."""

    def pilot(self, native: NativePopulation, rng: Generator, n_threads: int) -> Pilot:
        """As many rows as a chunk has, with a key of their own."""
        key = int(rng.integers(1 << 64, dtype=np.uint64))
        return Pilot(key, *draw(native, key, 0, self.chunk_rows, n_threads))


def draw(
    native: NativePopulation, key: int, first: int, count: int, n_threads: int
) -> tuple[SparseColumns | Array, Array, Array, Array]:
    """Rows and their three scores."""
    rows, scores = native.draw(key, first, count, n_threads)
    return SparseColumns(*rows) if isinstance(rows, tuple) else rows, *scores
