"""Where the rows of a training are: in the machine's memory, or in the host's, from where they come in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from symsgd.gpu.machine import Array, Machine

MEMORY_SHARE = 0.7  # of what is free, that rows may take; the rest is for what is kept of them
PIECE_SHARE = 0.15  # of what is free, for a piece of rows that are not all there; three of them are there at once
MOST_PIECE = 1 << 17  # rows


@dataclass(frozen=True)
class Piece:
    """Rows ``begin`` … ``end`` of a pass's order: their numbers in ``X``, and in the data."""

    X: Array
    rows: Array
    originals: Array
    begin: int
    end: int


class Source(Protocol):
    """``whole`` says whether all rows are in the machine's memory, as one array ``X``."""

    @property
    def whole(self) -> bool: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...

    def pieces(self, rows: Array) -> Iterator[Piece]:
        """A pass in pieces, in order."""

    def take(self, rows: Array) -> Array:
        """A few rows, on the machine."""


@dataclass(frozen=True)
class OnMachine:
    """All rows are there."""

    X: Array
    whole: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = np.dtype(self.X.dtype)
        return kind

    def pieces(self, rows: Array) -> Iterator[Piece]:
        yield Piece(self.X, rows, rows, 0, len(rows))

    def take(self, rows: Array) -> Array:
        return self.X[rows]


@dataclass(frozen=True, kw_only=True)
class SparseOnMachine(OnMachine):
    """Sparse rows, all of them there; ``host`` is what samples are taken from."""

    host: Any

    def take(self, rows: Array) -> Array:
        raise AssertionError("sparse rows are sampled on the host")


@dataclass(frozen=True)
class Streamed:
    """Rows in the host's memory, or in a file, padded on their way. The next piece is gathered and copied while one is
    trained."""

    machine: Machine
    host: np.ndarray[Any, Any]
    n_features: int
    most_rows: int
    whole: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.host), self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = self.host.dtype
        return kind

    def pieces(self, rows: Array) -> Iterator[Piece]:
        order = self.machine.to_host(rows)
        begins = range(0, len(order), self.most_rows)
        with ThreadPoolExecutor(1, thread_name_prefix="symsgd-rows") as fetcher:
            following = fetcher.submit(self._fetch, order[: self.most_rows])
            for begin in begins:
                end = min(begin + self.most_rows, len(order))
                X = following.result()
                if end < len(order):
                    following = fetcher.submit(self._fetch, order[end : end + self.most_rows])
                yield Piece(X, self.machine.xp.arange(end - begin, dtype=np.int32), rows[begin:end], begin, end)

    def take(self, rows: Array) -> Array:
        return self._fetch(self.machine.to_host(rows))

    def _fetch(self, rows: np.ndarray[Any, Any]) -> Array:
        gathered = self.machine.pinned((len(rows), self.n_features), self.dtype)
        width = self.host.shape[1]
        gathered[:, width:] = 0
        gathered[:, :width] = self.host[rows]
        return self.machine.upload(gathered)


def too_large(machine: Machine, entries: int, itemsize: int) -> str:
    """Why there is no room for so many numbers of sparse rows; nothing if there is."""
    needed = entries * (itemsize + 4)
    if needed <= MEMORY_SHARE * machine.free_bytes():
        return ""
    return (
        f"X has {entries:,} numbers, {needed / 2**30:.1f} GiB, more than the GPU has free for sparse rows, which are "
        "not streamed"
    )


def source_of(machine: Machine, rows: Any, on_gpu: bool) -> Source:
    """Rows of the host or of the machine itself, put where they fit."""
    n_rows, width = rows.shape
    dtype = np.dtype(rows.dtype)
    if sp.issparse(rows):
        reason = too_large(machine, len(rows.data), dtype.itemsize)
        if max(n_rows, width) >= 2**31:
            reason = f"X is {n_rows:,} × {width:,}, and sparse rows and features have numbers of 32 bits on a GPU"
        if reason:
            raise ValueError(f"{reason}; use device='cpu'")
        return SparseOnMachine(X=machine.sparse_rows(rows.data, rows.indices, rows.indptr, rows.shape), host=rows)
    n_features = machine.padded(width)
    free, needed = machine.free_bytes(), n_rows * n_features * dtype.itemsize
    if on_gpu and (n_features == width or needed > MEMORY_SHARE * free):
        return OnMachine(rows)  # without padding, if there is no room for another copy
    if needed > MEMORY_SHARE * free:
        most = int(PIECE_SHARE * free) // (n_features * dtype.itemsize)
        return Streamed(machine, rows, n_features, max(1, min(most, MOST_PIECE)))
    if n_features == width:
        return OnMachine(machine.asarray(rows))
    padded = machine.xp.zeros((n_rows, n_features), dtype)
    padded[:, :width] = machine.asarray(rows)
    return OnMachine(padded)
