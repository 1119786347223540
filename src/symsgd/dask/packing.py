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

    @property
    def finite(self) -> bool:
        """Whether all of it is: no sum, which may overflow, and no array of answers."""
        return bool(np.isfinite(self.values.min(initial=0.0)) and np.isfinite(self.values.max(initial=0.0)))

    def dense(self, dtype: npt.DTypeLike = np.float32) -> Array:
        """lines × features, the caller's own."""
        if self.indices is None:
            return self.values.astype(dtype)
        out = np.zeros((len(self.values), self.n_features), dtype)
        out[:, self.indices] = self.values
        return out

    def at(self, features: Array) -> Array:
        """lines × these features, float32."""
        if self.indices is None:
            return self.values[:, features].astype(np.float32, copy=False)
        where = np.minimum(np.searchsorted(self.indices, features), max(0, len(self.indices) - 1))
        if len(self.indices) == 0:
            return np.zeros((len(self.values), len(features)), np.float32)
        return np.where(self.indices[where] == features, self.values[:, where], 0.0).astype(np.float32, copy=False)

    def add_to(self, out: Array) -> None:
        """Adds it to an array of lines × features."""
        if self.indices is None:
            out += self.values
        else:
            out[:, self.indices] += self.values.astype(out.dtype, copy=False)


def index_type(n_features: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if n_features < 2**31 else np.int64)


def pack(dense: Array, dtype: npt.DTypeLike = np.float32, *, copy: bool = True) -> Packed:
    """lines × features as they travel. Another type than float32 is for what others already have in that type. Without
    ``copy`` the array may be the one that is given."""
    n_features = dense.shape[1]
    there = dense != 0
    touched = there[0] if len(there) == 1 else there.any(axis=0)
    if not sparse_is_smaller(n_features, int(np.count_nonzero(touched)), len(dense)):
        return Packed(n_features, dense.astype(dtype, copy=copy))
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


def moved(start: Array, kept: Array, end: Array) -> Packed:
    """end − kept × start, without features that differ by no more than rounding; ``kept`` is a number a line. It takes
    the place of ``end``."""
    length = piece(len(end))
    spare, marks = np.empty((2, len(end), length), end.dtype), np.empty((len(end), length), bool)
    for begin in range(0, end.shape[1], length):
        change = end[:, begin : begin + length]
        before, size, steps = (array[:, : change.shape[1]] for array in (*spare, marks))
        np.multiply(start[:, begin : begin + length], kept[:, None], out=before)
        change -= before
        np.abs(change, out=size)
        np.abs(before, out=before)
        before *= ROUNDING
        np.greater(size, before, out=steps)
        change *= steps
    return pack(end, copy=False)


def piece(lines: int) -> int:
    """Features of so many lines to compute at a time. An array as large as a model that is made on the way costs more
    than what it is made for: a worker of Dask gives memory back at once, and asks for every page again."""
    return max(256, PIECE // lines)


def added(first: Packed, second: Packed, *, overwrite: bool = False) -> Packed:
    """first + second; it may take the place of ``first`` if that is to be overwritten."""
    if first.indices is None:
        out = first.values if overwrite else first.dense()
        second.add_to(out)
        return Packed(first.n_features, out)
    if second.indices is None:
        return added(second, first)
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
