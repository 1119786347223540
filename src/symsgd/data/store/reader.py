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
from symsgd.data.store.layout import LayoutError, StoredArray, Superblock, Table, checksum, from_json, used
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
        self._verdict: StoreError | bool = False
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            superblock = newest_superblock(descriptor, self.path)
            self._table = table = read_table(lambda n, at: read_all(descriptor, n, at), superblock, self.path)
            self._schema = read_all(descriptor, table.schema.length, table.schema.offset)
            if checksum(self._schema) != table.schema.checksum:
                raise StoreError(self.path, f"its schema, at byte {table.schema.offset}, is damaged")
            self._arrays = {
                name: self._map(descriptor, stored, table.n_bytes(name)) for name, stored in table.arrays.items()
            }
        finally:
            os.close(descriptor)
        self.generation = superblock.generation
        self.nbytes = superblock.end
        if table.sparse and (self._arrays["starts"][0], self._arrays["starts"][-1]) != (0, table.n_entries):
            raise StoreError(self.path, f"its array 'starts' is damaged: it does not go from 0 to {table.n_entries}")

    def _map(self, descriptor: int, stored: StoredArray, n_bytes: int) -> Array:
        if n_bytes == 0:
            return np.zeros(0, stored.dtype)
        extents = [(extent.offset, length) for extent, length in used(stored.extents, n_bytes)]
        try:
            return _core.map_extents(descriptor, extents).view(stored.dtype)
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
        self._arrays = {}
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
        try:
            schema = Schema.from_json(from_json(self._schema, "schema"))
        except (LayoutError, TypeError, ValueError) as error:
            raise StoreError(self.path, f"its schema is malformed: {error}") from None
        if schema.n_features != self._table.n_features:
            raise StoreError(
                self.path, f"its schema has {schema.n_features} features, and its rows have {self._table.n_features}"
            )
        return schema

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
        if self._verdict is False:
            try:
                verify_arrays(self._table, self._arrays, self.path, resolve_threads(n_threads, "n_threads"))
                self._verdict = True
            except StoreError as error:
                self._verdict = error
        if isinstance(self._verdict, StoreError):
            raise self._verdict

    def _array(self, name: str) -> Array:
        if not self._arrays:
            raise StoreError(self.path, "it has been closed")
        return self._arrays[name]


def read_table(read: Callable[[int, int], bytes], superblock: Superblock, path: Path) -> Table:
    """The table of contents that a superblock speaks of; ``read`` gives so many bytes at an offset."""
    place = superblock.table
    data = read(place.length, place.offset)
    if checksum(data) != place.checksum:
        raise StoreError(path, f"its table of contents, at byte {place.offset}, is damaged")
    try:
        return Table.unpack(data, superblock.end)
    except LayoutError as error:
        raise StoreError(path, str(error)) from None
