"""The categories of a table, numbered as they appear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Category = tuple[int, str | None]  # a column's place among the categorical ones, and a value; None where it is missing

UNKNOWN, NONE = -1, -2


class Categories:
    """A number for each value of each column. While it grows, new values get the next numbers; then they have none."""

    def __init__(self, columns: Sequence[str], known: Iterable[Category], grows: bool, at_most: int) -> None:
        self._columns = columns
        self._grows = grows
        self._at_most = at_most
        self._numbers: list[dict[str | None, int]] = [{} for _ in columns]
        self.known: list[Category] = []
        self.ignored = [0] * len(columns)  # cells with a value that has no number
        for category in known:
            self._add(category)

    def _add(self, category: Category) -> None:
        column, value = category
        self._numbers[column].setdefault(value, len(self.known))
        self.known.append(category)

    def encode(
        self,
        columns: Sequence[tuple[Array, Sequence[str | None]]],
        missing_counts: bool,
        too_many: Callable[[int, str, str], Exception],
    ) -> Array:
        """A row of numbers for each row of the table, NONE where a cell gives no feature.

        A column is an array of codes, and what they stand for; code −1, the last, is a missing cell, which is a
        category of its own if ``missing_counts``. ``too_many`` makes the error, from a row, a column and a message.
        """
        looked_up = [self._lookup(column, values, missing_counts) for column, (_, values) in enumerate(columns)]
        numbers = [of_code[codes] for of_code, (codes, _) in zip(looked_up, columns, strict=True)]
        strangers = [column for column, column_numbers in enumerate(numbers) if (column_numbers == UNKNOWN).any()]
        if strangers and self._grows:
            self._grow(strangers, numbers, columns, too_many)
            for column in strangers:
                codes, values = columns[column]
                numbers[column] = self._lookup(column, values, missing_counts)[codes]
        else:
            for column in strangers:
                unknown = numbers[column] == UNKNOWN
                self.ignored[column] += int(np.count_nonzero(unknown))
                numbers[column][unknown] = NONE
        return np.stack(numbers, axis=1)

    def _lookup(self, column: int, values: Sequence[str | None], missing_counts: bool) -> npt.NDArray[np.int32]:
        numbers = self._numbers[column]
        of_missing = numbers.get(None, UNKNOWN) if missing_counts else NONE
        of_values = [of_missing if value is None else numbers.get(value, UNKNOWN) for value in values]
        return np.array([*of_values, of_missing], np.int32)

    def _grow(
        self,
        strangers: Sequence[int],
        numbers: Sequence[Array],
        columns: Sequence[tuple[Array, Sequence[str | None]]],
        too_many: Callable[[int, str, str], Exception],
    ) -> None:
        new = []
        for column in strangers:
            codes, values = columns[column]
            rows = np.flatnonzero(numbers[column] == UNKNOWN)
            _, first = np.unique(codes[rows], return_index=True)
            new += [(int(row), column, values[codes[row]] if codes[row] >= 0 else None) for row in rows[first]]
        for row, column, value in sorted(new, key=lambda found: found[:2]):
            if value in self._numbers[column]:
                continue  # a dictionary may have the same value twice
            if len(self._numbers[column]) == self._at_most:
                raise too_many(
                    row,
                    self._columns[column],
                    f"has more than {self._at_most:,} different values; name the column in hashed=, in text= if it has "
                    "sentences, or in drop=, or raise max_categories",
                )
            self._add((column, value))
