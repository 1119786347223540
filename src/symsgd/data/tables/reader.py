"""A table, batch by batch: what the readers of CSV and Parquet share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from symsgd.data.dataset import Part, Schema
from symsgd.data.tables import columns as arrow
from symsgd.data.tables.arrow import pa
from symsgd.data.tables.categories import Categories
from symsgd.data.tables.encoder import Encoder
from symsgd.data.tables.kinds import decide, has_names
from symsgd.data.tables.layout import Layout, TableOptions, from_schema
from symsgd.errors import DataError

Array = npt.NDArray[Any]

NUMBER, NAME, TEXT = "number", "name", "text"  # how the cells of a column are to be read
MOST_LABELS = 10_000


class Source(Protocol):
    """A file with columns."""

    types: Mapping[str, Any]  # of the columns, as far as they can be known beforehand
    empty_is_missing: bool  # whether an empty name stands for none
    once: bool  # whether the source can be read only once

    def batches(self, wanted: Mapping[str, str]) -> Iterator[Any]:
        """Batches of the columns wanted, which are read as NUMBER, NAME or TEXT."""
        ...

    def fail(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """The error of a row, counted from 0, and a column."""
        ...


class TableReader:
    """Reads a table once, in bounded memory; a :class:`symsgd.data.dataset.Reader`."""

    index_shift = 0

    def __init__(self, source: Source, options: TableOptions) -> None:
        self._source = source
        self._options = options
        self._layout = decide(source.types, options, source.fail)
        known = [] if options.schema is None else from_schema(options.schema)[1]
        self._encoder = Encoder(
            self._layout,
            Categories(self._layout.categorical, known, options.schema is None, options.max_categories),
            options.dtype,
            source.fail,
            empty_is_missing=source.empty_is_missing,
        )
        self._label = self._column_of(self._layout.label)
        self._weight = self._column_of(self._layout.weight)
        self._label_names = self._given_label_names()

    def _column_of(self, name: str | None) -> str | None:
        """The column, or None where a file that is read by a schema does not have it: a file to predict."""
        return name if name in self._source.types else None

    def _given_label_names(self) -> Sequence[str] | None:
        schema = self._options.schema
        names = self._options.label_names if schema is None else schema.label_names
        if names is not None and len(set(names)) < len(names):
            raise ValueError(f"label_names={names!r} has a name twice")
        return names

    def _scanned_label_names(self) -> Sequence[str] | None:
        """The distinct labels in ascending order, if they are names: a first look at that one column."""
        column = self._label
        if column is None or self._options.schema is not None:
            return None
        if not has_names(column, self._source.types[column], self._source.fail):
            return None
        if self._source.once:
            raise self._source.fail(
                "labels are names, and this source cannot be read twice to number them; save it to a file first, or "
                "give label_names=[…]",
                column=column,
            )
        names: set[str] = set()
        for batch in self._source.batches({column: NAME}):
            found = arrow.codes(batch.column(column), self._source.empty_is_missing)
            names.update(found.values.filter(pa.array(found.occur)).to_pylist())
            if len(names) > MOST_LABELS:
                raise self._source.fail(f"has more than {MOST_LABELS:,} different labels", column=column)
        return sorted(names)

    def parts(self) -> Iterator[Part]:
        """The rows in order, a batch at a time."""
        if self._label_names is None:
            self._label_names = self._scanned_label_names()
        first_row = 0
        for batch in self._source.batches(self._wanted()):
            rows = self._encoder.rows(batch, first_row)
            yield Part(rows, self._labels(batch, first_row), self._weights(batch, first_row))
            first_row += len(batch)
        if not first_row:
            raise self._source.fail("has no rows")

    def _wanted(self) -> dict[str, str]:
        layout = self._layout
        wanted = dict.fromkeys(layout.numeric, NUMBER)
        wanted |= dict.fromkeys(layout.categorical + layout.hashed, NAME) | dict.fromkeys(layout.text, TEXT)
        if self._label is not None:
            wanted[self._label] = NUMBER if self._label_names is None else NAME
        if self._weight is not None:
            wanted[self._weight] = NUMBER
        return wanted

    def _labels(self, batch: Any, first_row: int) -> Array:
        column = self._label
        if column is None:
            return np.full(len(batch), np.nan)
        if self._label_names is None:
            y = self._finite(batch, column, first_row)
        else:
            y = self._numbered(batch, column, first_row, self._label_names)
        absent = np.isnan(y)
        if self._options.schema is None and absent.any():
            raise self._source.fail("has no label", row=first_row + int(np.argmax(absent)), column=column)
        return y

    def _numbered(self, batch: Any, column: str, first_row: int, names: Sequence[str]) -> Array:
        cells = arrow.codes(batch.column(column), self._source.empty_is_missing)
        numbers = {name: float(number) for number, name in enumerate(names)}
        of_code = np.array([*(numbers.get(value, -1.0) for value in cells.values.to_pylist()), np.nan])
        y: Array = of_code[cells.codes]
        if (y < 0).any():
            row = int(np.argmax(y < 0))
            raise self._source.fail(
                f"{cells.values[cells.codes[row]].as_py()!r} is not one of the labels {list(names)}",
                row=first_row + row,
                column=column,
            )
        return y

    def _weights(self, batch: Any, first_row: int) -> Array | None:
        column = self._weight
        if column is None:
            return None
        weights = self._finite(batch, column, first_row)
        bad = ~(weights >= 0)
        if bad.any():
            row = int(np.argmax(bad))
            raise self._source.fail(
                f"weight {weights[row]} is not accepted; weights are numbers >= 0", row=first_row + row, column=column
            )
        return weights

    def _finite(self, batch: Any, column: str, first_row: int) -> Array:
        def refuse(row: int, value: object) -> Exception:
            return self._source.fail(f"{value!r} is not a finite number", row=first_row + row, column=column)

        array = arrow.numbers(batch.column(column), refuse)
        if np.isinf(array).any():
            row = int(np.argmax(np.isinf(array)))
            raise refuse(row, float(array[row]))
        return array

    @property
    def schema(self) -> Schema:
        """What was found out; complete once ``parts`` has ended."""
        return self._layout.to_schema(self._encoder.categories.known, self._label_names)

    @property
    def notes(self) -> list[str]:
        """What was ignored, and how many hashed features share a column."""
        layout, notes = self._layout, []
        if self._options.schema is not None:
            read = {*layout.features_from, layout.label, layout.weight}
            strange = [name for name in self._source.types if name not in read]
            if strange:
                notes.append(f"columns that the schema does not name were ignored: {', '.join(strange)}")
        for column, count in zip(layout.categorical, self._encoder.categories.ignored, strict=True):
            if count:
                notes.append(f"column {column!r}: {count:,} cells have values that the schema does not know: ignored")
        if self._encoder.hasher is not None:
            notes.append(str(self._encoder.hasher.collisions))
        return notes

    @property
    def layout(self) -> Layout:
        """Which column is what."""
        return self._layout
