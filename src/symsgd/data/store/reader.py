"""A store, opened: its arrays are mapped, and nothing of them is read before somebody looks."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd import _core
from symsgd.data.dataset import Schema
from symsgd.data.store.disk import newest_superblock, read_all
from symsgd.data.store.layout import Extent, LayoutError, StoredArray, Superblock, Table, checksum, from_json, used
from symsgd.data.store.summary import Summary
from symsgd.data.store.verify import verify_arrays
from symsgd.errors import StoreError
from symsgd.threads import resolve_threads

Array = npt.NDArray[Any]


def open_store(path: str | PathLike[str]) -> Store:
    """Open a store for reading: in milliseconds, whatever its size, and without reading its rows.

    It stays as it is now, also while another process appends to it or replaces it. Raises
    :class:`~symsgd.errors.StoreError` with the reason if ``path`` is not a store, is cut short, damaged in its header
    or table of contents, or of another version of the format; :meth:`Store.verify` looks at the rows too.
    """
    return Store(path)


class Store:
    """Rows, targets and weights mapped from a file; read-only.

    ``X`` is a CSR matrix or an array, ``y`` float64, NaN where a row has no label, ``sample_weight`` float64 or None.
    They live as long as somebody has them, also when the store has been closed.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._verdict: str | bool = False  # why it is refused, or whether it passed
        self._passed: set[int] = set()  # extents that were compared with their checksums
        self._mappings: dict[str, Any] = {}
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            superblock = newest_superblock(descriptor, self.path)
            self._table = table = read_table(lambda n, at: read_all(descriptor, n, at), superblock, self.path)
            self._schema = read_checked(lambda n, at: read_all(descriptor, n, at), table.schema, "schema", self.path)
            for name, stored in table.arrays.items():
                self._mappings[name] = self._map(descriptor, stored, table.n_bytes(name))
        finally:
            os.close(descriptor)
        self.generation = superblock.generation
        self.nbytes = superblock.end
        self._arrays = {name: np.frombuffer(self._mappings[name], a.dtype) for name, a in table.arrays.items()}
        if table.sparse and (self._arrays["starts"][0], self._arrays["starts"][-1]) != (0, table.n_entries):
            raise StoreError(self.path, f"its array 'starts' is damaged: it does not go from 0 to {table.n_entries}")

    def _map(self, descriptor: int, stored: StoredArray, n_bytes: int) -> _core.Mapping:
        try:
            return _core.Mapping(
                descriptor, [(place.offset, length) for place, length in used(stored.extents, n_bytes)]
            )
        except ValueError as error:
            raise StoreError(self.path, f"it is cut short: {error}") from None

    def __len__(self) -> int:
        return self._table.n_rows

    def __repr__(self) -> str:
        table = self._table
        kind = f"{table.n_entries} entries" if table.sparse else "dense"
        return f"<Store {str(self.path)!r}: {table.n_rows} rows × {table.n_features} features, {kind}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the arrays. Their memory is unmapped when nobody else has them."""
        self._arrays, self._mappings = {}, {}
        self.__dict__.pop("X", None)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self._table.n_rows, self._table.n_features

    @property
    def n_entries(self) -> int:
        """Numbers stored."""
        return self._table.n_entries

    @property
    def notes(self) -> tuple[str, ...]:
        """What the readers of the sources had to say."""
        return self._table.notes

    @property
    def summary(self) -> Summary:
        """What was found out about the rows while they were written."""
        return self._table.summary

    @property
    def library(self) -> str:
        """What wrote the store."""
        return self._table.library

    @cached_property
    def schema(self) -> Schema:
        """What columns and labels mean."""
        return parse_schema(self._schema, self._table, self.path)

    @property
    def y(self) -> Array:
        """One number a row."""
        return self._array("y")

    @property
    def sample_weight(self) -> Array | None:
        """One number a row, or None."""
        return self._array("weight") if "weight" in self._table.arrays else None

    @cached_property
    def X(self) -> Any:  # noqa: N802
        """The rows: a CSR matrix, or an array where they are dense."""
        values = self._array("values")
        if not self._table.sparse:
            return values.reshape(self.shape)
        # SciPy's constructor reads all indices to find a type for them, and copies arrays whose types differ
        X = sp.csr_matrix((0, self.shape[1]), dtype=values.dtype)
        X.data, X.indices, X.indptr = values, self._array("indices"), self._array("starts")
        X._shape = self.shape
        if self.summary.canonical:
            X.has_canonical_format = True
        return X

    def verify(self, n_threads: int | None = None) -> None:
        """Read everything once and compare it with its checksums; StoreError names the array and the bytes if it fails.

        What passed once is not read again.
        """
        arrays = {name: self._array(name) for name in self._table.arrays}
        if self._verdict is False:
            try:
                verify_arrays(self._table, arrays, self.path, resolve_threads(n_threads, "n_threads"))
                self._verdict = True
            except StoreError as error:
                self._verdict = error.reason
        if isinstance(self._verdict, str):
            raise StoreError(self.path, self._verdict)

    def verify_rows(self, begin: int, end: int, n_threads: int | None = None) -> None:
        """As :meth:`verify`, but of these rows alone, and of what else lies in the same extents (8 MiB each)."""
        if self._verdict is True or begin >= end:
            return
        threads, arrays = resolve_threads(n_threads, "n_threads"), {name: self._array(name) for name in self._arrays}
        rows = {"starts": (begin, end + 1), "y": (begin, end), "weight": (begin, end)}
        if not self._table.sparse:
            rows["values"] = (begin * self.shape[1], end * self.shape[1])
        self._verify_items(arrays, rows, threads)
        if self._table.sparse:
            first, last = int(arrays["starts"][begin]), int(arrays["starts"][end])
            if not 0 <= first <= last <= self.n_entries:
                raise StoreError(self.path, f"its array 'starts' is damaged: rows {begin} to {end} lie outside")
            self._verify_items(arrays, {"indices": (first, last), "values": (first, last)}, threads)

    def _verify_items(self, arrays: dict[str, Array], items: dict[str, tuple[int, int]], n_threads: int) -> None:
        spans = {
            name: (begin * arrays[name].itemsize, end * arrays[name].itemsize)
            for name, (begin, end) in items.items()
            if name in arrays
        }
        verify_arrays(self._table, arrays, self.path, n_threads, spans, self._passed)

    def will_need(self, begin: int, end: int) -> None:
        """Ask the system to read the rows from ``begin`` to ``end`` ahead. Returns at once."""
        self._advise(begin, end, wanted=True)

    def done_with(self, begin: int, end: int) -> None:
        """Give the pages of these rows back to the system; they are read again if somebody looks."""
        self._advise(begin, end, wanted=False)

    def _advise(self, begin: int, end: int, wanted: bool) -> None:
        begin, end = max(0, begin), min(end, len(self))
        if begin >= end:
            return
        if self._table.sparse:
            starts = self._array("starts")
            entries = int(starts[begin]), int(starts[end])
        else:
            entries = begin * self.shape[1], end * self.shape[1]
        for name, array in self._arrays.items():
            first, last = entries if name in ("indices", "values") else (begin, end)
            self._mappings[name].advise(first * array.itemsize, last * array.itemsize, wanted)

    def _array(self, name: str) -> Array:
        if not self._arrays:
            raise StoreError(self.path, "it has been closed")
        return self._arrays[name]


def read_table(read: Callable[[int, int], bytes], superblock: Superblock, path: Path) -> Table:
    """The table of contents that a superblock speaks of; ``read`` gives so many bytes at an offset."""
    data = read_checked(read, superblock.table, "table of contents", path)
    try:
        return Table.unpack(data, superblock.end)
    except LayoutError as error:
        raise StoreError(path, str(error)) from None


def read_checked(read: Callable[[int, int], bytes], place: Extent, what: str, path: Path) -> bytes:
    """The bytes of an extent, if they are those that were written."""
    data = read(place.length, place.offset)
    if checksum(data) != place.checksum:
        raise StoreError(path, f"its {what}, at byte {place.offset}, is damaged")
    return data


def parse_schema(data: bytes, table: Table, path: Path) -> Schema:
    """The schema, if it is one of such rows."""
    try:
        schema = Schema.from_json(from_json(data, "schema"))
    except ValueError as error:
        raise StoreError(path, f"its schema is malformed: {error}") from None
    if schema.n_features != table.n_features:
        raise StoreError(path, f"its schema has {schema.n_features} features, and its rows have {table.n_features}")
    return schema
