"""Rows into a store, in one pass and bounded memory.

Parts are written as they come, each array to extents of its own; nothing is kept but the checksums of the extents that
are still being filled. What is known only at the end (the schema, that all indices have to be shifted, that they need
64 bits after all) is put right then, in passes over the array concerned that are bounded too.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.data.dataset import Part, Schema, SparseColumns
from symsgd.data.store.columns import CHUNK, Column
from symsgd.data.store.disk import GrowingFile, NewFile, WritableFile
from symsgd.data.store.layout import Extent, Superblock, Table, checksum, to_json
from symsgd.data.store.reader import parse_schema, read_checked, read_table
from symsgd.data.store.summary import NOTHING
from symsgd.errors import StoreError

Array = npt.NDArray[Any]

NARROW = np.iinfo(np.int32).max  # starts and indices have 32 bits while they fit, as SciPy's have


class StoreWriter:
    """Writes a new store, or with ``append=True`` to the end of one there is.

    Nothing counts before :meth:`commit` returns, and everything from then on. Leaving the ``with`` block without it
    leaves things as they were; so does a kill.

    ``dtype`` is float32 or float64; by default the type of the first part's values. An append keeps the store's, and a
    ``dtype`` only says that wider values may be rounded to it.
    """

    def __init__(self, path: str | PathLike[str], *, append: bool = False, dtype: npt.DTypeLike | None = None) -> None:
        self.path = Path(path)
        self._dtype = None if dtype is None else _value_type(dtype)
        self._narrows = dtype is not None
        self._columns: dict[str, Column] = {}
        self._sparse: bool | None = None
        self._width = 0  # of dense rows
        self._rows = self._entries = 0
        self._lowest, self._highest = 0, -1  # of the indices added
        self._summary = NOTHING
        self._generation = 1
        self._schema: Schema | None = None
        self._notes: tuple[str, ...] = ()
        self._first_entry = 0
        self._file: WritableFile | None = None
        if append:
            self._reopen()
        else:
            self._file = NewFile(self.path)

    def _reopen(self) -> None:
        self._file = file = GrowingFile(self.path)
        try:
            table = read_table(file.read, file.superblock, self.path)
            self._schema = parse_schema(read_checked(file.read, table.schema, "schema", self.path), table, self.path)
            for name, stored in table.arrays.items():
                self._columns[name] = Column.reopen(name, stored, table.n_bytes(name), file)
        except BaseException:
            self.close()
            raise
        self._dtype = _value_type(table.arrays["values"].dtype)
        self._sparse, self._width = table.sparse, table.n_features
        self._rows, self._entries, self._first_entry = table.n_rows, table.n_entries, table.n_entries
        self._summary, self._notes = table.summary, table.notes
        self._generation = file.superblock.generation + 1

    @property
    def schema(self) -> Schema | None:
        """Of the rows there are already; ``None`` for a new store."""
        return self._schema

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Of the values; ``None`` for a new store whose first part is to decide."""
        return self._dtype

    def __len__(self) -> int:
        return self._rows

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Abandon what has not been committed."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.abandon()
            finally:
                file.close()

    def add(self, part: Part) -> None:
        """Write some rows."""
        rows, y, weight = part.rows, np.asarray(part.y), part.weight
        if self._sparse is None:
            self._begin(rows)
        if isinstance(rows, SparseColumns) != self._sparse:
            raise StoreError(
                self.path, f"sparse and dense rows cannot be in one store, but are from row {self._rows} on"
            )
        for name, column in (("y", y), ("weight", weight)):
            if column is not None and column.shape != (len(rows),):
                raise ValueError(f"a part has {len(rows)} rows, but its {name} has shape {column.shape}")
        if isinstance(rows, SparseColumns):
            self._add_sparse(rows)
        else:
            self._add_dense(rows)
        self._column("y").write(y)
        if weight is not None or "weight" in self._columns:
            self._fill_weights(self._rows)
            self._columns["weight"].write(np.ones(len(y)) if weight is None else weight)
        self._summary = self._summary.with_part(part)
        self._rows += len(rows)

    def commit(self, schema: Schema, *, index_shift: int = 0, notes: Sequence[str] = ()) -> None:
        """Make the store count. ``index_shift`` is added to the indices of all parts that were added."""
        file = self._open_file()
        if self._sparse is None:
            self._begin(SparseColumns(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)))
        schema = self._joined(schema)
        self._put_indices_right(index_shift, schema.n_features)
        packed = to_json(schema.to_json())
        table = Table(
            n_rows=self._rows,
            n_features=schema.n_features,
            n_entries=self._entries,
            arrays={name: column.stored() for name, column in self._columns.items()},
            schema=self._append_bytes(packed),
            notes=(*self._notes, *notes),
            summary=self._summary,
            library=f"symsgd {version('symsgd')}",
        )
        superblock = Superblock(self._generation, self._append_bytes(table.pack()), file.end)
        file.sync()
        file.commit(superblock)
        self._file = None
        file.close()

    def _open_file(self) -> WritableFile:
        if self._file is None:
            raise StoreError(self.path, "its writer has been closed")
        return self._file

    def _begin(self, rows: SparseColumns | Array) -> None:
        """The first part says what kind of rows there are."""
        self._sparse = isinstance(rows, SparseColumns)
        if isinstance(rows, SparseColumns):
            self._dtype = _value_type(rows.values.dtype) if self._dtype is None else self._dtype
            self._column("starts").write(np.zeros(1, np.int32))
            self._column("indices")
        else:
            if rows.ndim != 2:
                raise ValueError(f"dense rows have shape {rows.shape}; accepted is (rows, features)")
            self._dtype = _value_type(rows.dtype) if self._dtype is None else self._dtype
            self._width = rows.shape[1]
        self._column("values")
        self._column("y")

    def _column(self, name: str) -> Column:
        if name not in self._columns:
            types: dict[str, Any] = {"starts": np.int32, "indices": np.int32, "values": self._dtype}
            self._columns[name] = Column(name, np.dtype(types.get(name, np.float64)), self._open_file())
        return self._columns[name]

    def _add_sparse(self, rows: SparseColumns) -> None:
        _check_starts(rows)
        indices = rows.indices
        if len(indices):
            self._lowest = min(self._lowest, int(indices.min())) if self._highest >= 0 else int(indices.min())
            self._highest = max(self._highest, int(indices.max()))
            self._make_room_for(self._highest)
        if self._entries + len(indices) > NARROW:
            self._widen("starts")
        self._columns["starts"].write(rows.starts[1:] + self._entries)
        self._columns["indices"].write(indices)
        self._add_values(rows.values)
        self._entries += len(indices)

    def _add_dense(self, rows: Array) -> None:
        if rows.ndim != 2 or rows.shape[1] != self._width:
            raise ValueError(f"a part has shape {rows.shape}, but the rows before it have {self._width} features")
        self._add_values(rows)
        self._entries += rows.size

    def _add_values(self, values: Array) -> None:
        if values.dtype.itemsize > self._columns["values"].dtype.itemsize and not self._narrows:
            raise StoreError(
                self.path,
                f"its values are {self._dtype}, but those from row {self._rows} on are {values.dtype}; "
                f"dtype={str(self._dtype)!r} would round them",
            )
        self._columns["values"].write(values)

    def _fill_weights(self, n_rows: int) -> None:
        """Rows that came without a weight before the first that has one weigh 1."""
        column = self._column("weight")
        for begin in range(len(column), n_rows, CHUNK):
            column.write(np.ones(min(CHUNK, n_rows - begin)))

    def _make_room_for(self, index: int) -> None:
        if index > NARROW:
            self._widen("indices")
            self._widen("starts")  # which are never narrower: the core and SciPy know no such rows

    def _widen(self, name: str) -> None:
        if self._columns[name].dtype.itemsize == 4:
            self._columns[name] = self._columns[name].widened(np.dtype(np.int64))

    def _put_indices_right(self, shift: int, n_features: int) -> None:
        if not self._sparse or self._highest < 0:
            return
        if self._lowest + shift < 0 or self._highest + shift >= n_features:
            raise StoreError(
                self.path,
                f"rows have features {self._lowest + shift} to {self._highest + shift}, "
                f"but the schema has {n_features} features",
            )
        if shift:
            self._make_room_for(self._highest + shift)
            self._columns["indices"].add_to_items(self._first_entry, shift)

    def _joined(self, schema: Schema) -> Schema:
        """The schema of all rows, if those added mean what the ones before them do."""
        if not self._sparse and schema.n_features != self._width:
            raise StoreError(self.path, f"rows have {self._width} features, but the schema has {schema.n_features}")
        try:
            return schema if self._schema is None else self._schema.joined(schema)
        except ValueError as error:
            raise StoreError(self.path, str(error)) from None

    def _append_bytes(self, data: bytes) -> Extent:
        file = self._open_file()
        offset = file.allocate(len(data), 8)
        file.write(data, offset)
        return Extent(offset, len(data), checksum(data))


def _value_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    chosen = np.dtype(dtype).newbyteorder("=")
    if chosen not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} is not accepted; it must be float32 or float64")
    return chosen


def _check_starts(rows: SparseColumns) -> None:
    starts, n_entries = rows.starts, len(rows.indices)
    if len(rows.values) != n_entries:
        raise ValueError(f"a part has {n_entries} indices, but {len(rows.values)} values")
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != n_entries or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"the starts of a part do not ascend from 0 to {n_entries}, the number of its entries")
