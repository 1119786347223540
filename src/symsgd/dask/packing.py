"""Vectors of features on their way between machines: float32, and only the features that are not zero where that is
smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ROUNDING = 1e-6  # of a weight: less than that is what scaling it back and forth leaves, not a step
PIECE = 1 << 15  # features at a time: what is made on the way stays in the cache
MASK_UP_TO = 1 << 28  # features up to which a byte for each is cheaper than sorting


@dataclass(frozen=True)
class Packed:
    """``values`` (lines × features, or × those in ``indices``, ascending); all other features are 0."""

    n_features: int
    values: Array
    indices: Array | None = None

    @property
    def nbytes(self) -> int:
        """What travels."""
        return int(self.values.nbytes + (0 if self.indices is None else self.indices.nbytes))

    def dense(self, dtype: npt.DTypeLike = np.float32) -> Array:
        """lines × features, the caller's own."""
        if self.indices is None:
            return self.values.astype(dtype)
        out = np.zeros((len(self.values), self.n_features), dtype)
        out[:, self.indices] = self.values
        return out

    def at(self, features: Array) -> Array:
        """lines × these features, float64."""
        if self.indices is None:
            return self.values[:, features].astype(np.float64)
        where = np.minimum(np.searchsorted(self.indices, features), max(0, len(self.indices) - 1))
        if len(self.indices) == 0:
            return np.zeros((len(self.values), len(features)))
        return np.where(self.indices[where] == features, self.values[:, where], 0.0).astype(np.float64)

    def add_to(self, out: Array) -> None:
        """Adds it to an array of lines × features."""
        if self.indices is None:
            out += self.values
        else:
            out[:, self.indices] += self.values.astype(out.dtype, copy=False)


def index_type(n_features: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if n_features < 2**31 else np.int64)


def pack(dense: Array, there: Array | None = None, dtype: npt.DTypeLike = np.float32) -> Packed:
    """lines × features as they travel; ``there`` (lines × features) says what may be other than 0, if the caller knows.
    Another type than float32 is for what others already have in that type."""
    n_features = dense.shape[1]
    if there is None:
        there = dense != 0
    touched = there[0] if len(there) == 1 else there.any(axis=0)
    if not sparse_is_smaller(n_features, int(np.count_nonzero(touched)), len(dense)):
        return Packed(n_features, dense.astype(dtype))
    indices = np.flatnonzero(touched)
    return Packed(n_features, dense[:, indices].astype(dtype), indices.astype(index_type(n_features)))


def pack_columns(n_features: int, indices: Array, values: Array) -> Packed:
    """Features ``indices`` (ascending) with lines × indices ``values``."""
    if sparse_is_smaller(n_features, len(indices), len(values)):
        return Packed(n_features, values.astype(np.float32), indices.astype(index_type(n_features)))
    out = np.zeros((len(values), n_features), np.float32)
    out[:, indices] = values
    return Packed(n_features, out)


def sparse_is_smaller(n_features: int, count: int, lines: int) -> bool:
    return count * (index_type(n_features).itemsize + 4 * lines) < n_features * 4 * lines


def moved(start: Array, end: Array) -> Packed:
    """end − start, without features that differ by no more than rounding."""
    change, there = np.empty_like(end), np.empty(end.shape, bool)
    for begin in range(0, end.shape[1], PIECE):
        own = np.s_[:, begin : begin + PIECE]
        np.subtract(end[own], start[own], out=change[own])
        np.greater(np.abs(change[own]), ROUNDING * np.abs(start[own]), out=there[own])
        change[own] *= there[own]
    return pack(change, there)


def added(first: Packed, second: Packed) -> Packed:
    """first + second."""
    if first.indices is None or second.indices is None:
        out = first.dense()
        second.add_to(out)
        return Packed(first.n_features, out)
    indices = _union(first.n_features, first.indices, second.indices)
    values = np.zeros((len(first.values), len(indices)), np.float32)
    for part in (first, second):
        assert part.indices is not None
        values[:, np.searchsorted(indices, part.indices)] += part.values
    return pack_columns(first.n_features, indices, values)


def _union(n_features: int, first: Array, second: Array) -> Array:
    if n_features > MASK_UP_TO:
        return np.union1d(first, second)
    mask = np.zeros(n_features, bool)
    mask[first] = True
    mask[second] = True
    return np.flatnonzero(mask)
