"""Batches of a table to rows of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd.data.dataset import SparseColumns
from symsgd.data.hashing import Hasher
from symsgd.data.tables import columns as arrow
from symsgd.data.tables.arrow import pa, pc
from symsgd.data.tables.categories import NONE, Categories
from symsgd.data.tables.kinds import Fail
from symsgd.data.tables.layout import Layout
from symsgd.errors import DataError

Array = npt.NDArray[Any]


class Encoder:
    """Rows of features from batches. Categories are numbered as they appear, or as they were in the table before."""

    def __init__(
        self, layout: Layout, categories: Categories, dtype: Any, fail: Fail, *, empty_is_missing: bool
    ) -> None:
        self.layout = layout
        self.categories = categories
        self.hasher = Hasher(layout.hash_bits) if layout.n_hashed else None
        self._dtype = np.dtype(dtype)
        self._fail = fail
        self._empty_is_missing = empty_is_missing

    def rows(self, batch: Any, first_row: int) -> SparseColumns | Array:
        """The rows of a batch whose first is row ``first_row`` of the table. Dense if all columns are numeric."""
        layout = self.layout
        names = layout.categorical + layout.hashed
        coded = {name: arrow.codes(batch.column(name), self._empty_is_missing) for name in names}
        numbers = self._numbers(batch, first_row)
        self._check_missing(batch, numbers, coded, first_row)
        values = self._values(batch, numbers, first_row)
        if layout.features_from == layout.numeric:
            return values
        blocks = [sp.csr_matrix(values)] if layout.numeric else []
        if layout.n_hashed:
            blocks.append(self._hashed(batch, coded))
        if layout.categorical:
            blocks.append(self._ones(coded, first_row))
        joined = sp.hstack(blocks, format="csr", dtype=self._dtype)
        return SparseColumns(joined.indptr.astype(np.int64), joined.indices, joined.data)

    def _numbers(self, batch: Any, first_row: int) -> list[Array]:
        def parse(name: str) -> Array:
            def refuse(row: int, value: str) -> DataError:
                return self._fail(f"{value!r} is not a number", row=first_row + row, column=name)

            return arrow.numbers(batch.column(name), refuse)

        return [parse(name) for name in self.layout.numeric]

    def _check_missing(
        self, batch: Any, numbers: Sequence[Array], coded: Mapping[str, arrow.Codes], first_row: int
    ) -> None:
        if self.layout.missing != "error":
            return
        absent = {name: np.isnan(array) for name, array in zip(self.layout.numeric, numbers, strict=True)}
        absent |= {name: ~column.present for name, column in coded.items()}
        absent |= {
            name: pc.is_null(batch.column(name)).to_numpy(zero_copy_only=False)
            for name in self.layout.text
            if batch.column(name).null_count
        }
        first = {name: int(np.argmax(where)) for name, where in absent.items() if where.any()}
        if first:
            name = min(first, key=lambda name: first[name])
            raise self._fail(
                "has no value; missing='zero' takes none for zero, missing='indicator' makes a feature of it",
                row=first_row + first[name],
                column=name,
            )

    def _values(self, batch: Any, numbers: Sequence[Array], first_row: int) -> Array:
        """The numeric features; a missing number is 0, and its indicator 1."""
        n_numeric = len(numbers)
        values = np.zeros((len(batch), self.layout.first_hashed), self._dtype)
        with np.errstate(over="ignore"):
            for place, array in enumerate(numbers):
                values[:, place] = array
        if self.layout.missing != "error":
            missing = np.isnan(values[:, :n_numeric])
            values[:, :n_numeric][missing] = 0
            if self.layout.missing == "indicator":
                values[:, n_numeric:] = missing
        if not np.isfinite(values).all():
            row, place = np.argwhere(~np.isfinite(values))[0]
            raise self._fail(
                f"{numbers[place][row]} is not a finite number of type {self._dtype}",
                row=first_row + int(row),
                column=self.layout.numeric[place],
            )
        return values

    def _hashed(self, batch: Any, coded: Mapping[str, arrow.Codes]) -> Any:
        """Signed values in the slots of what is hashed; what meets in a row is added."""
        entries = []
        for name in self.layout.hashed:
            column = coded[name]
            entries.append((np.flatnonzero(column.present), *self._slots(name, column)))
            entries.append(self._absent(name, ~column.present))
        for name in self.layout.text:
            text = batch.column(name)
            rows, found = arrow.words(text)
            entries.append((rows, *self._slots(name, found)))
            entries.append(self._absent(name, pc.is_null(text).to_numpy(zero_copy_only=False)))
        rows, slots, signs = (np.concatenate(part) for part in zip(*entries, strict=True))
        shape = len(batch), self.layout.n_hashed
        hashed = sp.coo_matrix((signs.astype(self._dtype), (rows, slots)), shape=shape).tocsr()
        hashed.sum_duplicates()
        return hashed

    def _absent(self, name: str, where: Array) -> tuple[Array, Array, Array]:
        """Entries that say that a hashed cell is missing, if such entries are wanted."""
        rows = np.flatnonzero(where) if self.layout.missing == "indicator" else np.zeros(0, np.int64)
        if not len(rows):
            return rows, np.zeros(0, np.int32), np.zeros(0, np.int8)
        assert self.hasher is not None
        slot, sign = self.hasher(*arrow.buffers(pa.array([name])))
        return rows, np.repeat(slot, len(rows)), np.repeat(sign, len(rows))

    def _slots(self, name: str, column: arrow.Codes) -> tuple[Array, Array]:
        """The slot and the sign of each cell that is there: those of "column=value"."""
        assert self.hasher is not None
        occur, values = column.occur, column.values
        slots, signs = np.zeros(len(values), np.int32), np.zeros(len(values), np.int8)
        prefix, nothing = pa.scalar(f"{name}=", values.type), pa.scalar("", values.type)
        named = pc.binary_join_element_wise(prefix, values.filter(pa.array(occur)), nothing)
        slots[occur], signs[occur] = self.hasher(*arrow.buffers(named))
        cells = column.codes[column.present]
        return slots[cells], signs[cells]

    def _ones(self, coded: Mapping[str, arrow.Codes], first_row: int) -> Any:
        """A one for each category; indices ascend in a row."""

        def too_many(row: int, column: str, message: str) -> DataError:
            return self._fail(message, row=first_row + row, column=column)

        cells = [(coded[name].codes, coded[name].values.to_pylist()) for name in self.layout.categorical]
        numbers = self.categories.encode(cells, self.layout.missing == "indicator", too_many)
        numbers.sort(axis=1)
        there = numbers != NONE
        starts = np.append(0, np.cumsum(there.sum(axis=1)))
        indices = numbers[there]
        shape = len(numbers), len(self.categories.known)
        return sp.csr_matrix((np.ones(len(indices), self._dtype), indices, starts), shape=shape)
