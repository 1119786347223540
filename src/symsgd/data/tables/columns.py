"""Arrow columns as NumPy arrays: numbers, codes of distinct values, words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.data.tables.arrow import pa, pc

Array = npt.NDArray[Any]

NO_WORD = r"[^\pL\pM\pN_]+"  # whatever is not a letter, a mark, a digit or an underscore


def numbers(column: Any, not_a_number: Callable[[int, str], Exception]) -> npt.NDArray[np.float64]:
    """A column as numbers, NaN where one is missing. ``not_a_number`` makes the error, from a row and a string."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    try:
        column = pc.cast(column, pa.float64(), safe=False)  # integers above 2^53 are rounded
    except pa.ArrowInvalid:
        for row, cell in enumerate(column):
            try:
                pc.cast(cell, pa.float64(), safe=False)
            except pa.ArrowInvalid:
                raise not_a_number(row, str(cell)) from None
        raise
    array: Array = column.to_numpy(zero_copy_only=False)
    return array


@dataclass(frozen=True)
class Codes:
    """A column as numbers of its distinct values; −1 where a cell is missing."""

    codes: Array
    values: Any  # Arrow strings

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Which cells are not missing."""
        return self.codes >= 0

    @property
    def occur(self) -> npt.NDArray[np.bool_]:
        """Which values occur: a dictionary may have more than a batch uses."""
        occur = np.zeros(len(self.values) + 1, bool)
        occur[self.codes] = True
        return occur[:-1]


def codes(column: Any, empty_is_missing: bool) -> Codes:
    """The codes of a column, whatever its type; values become strings as Arrow writes them."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    values = pc.cast(column.dictionary, pa.large_string())
    of_cells: Array = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    nothing = pc.is_null(values)
    if empty_is_missing:
        nothing = pc.or_(nothing, pc.fill_null(pc.equal(values, ""), True))
    if pc.any(nothing).as_py():
        final = np.where(nothing.to_numpy(zero_copy_only=False), -1, np.arange(len(values)))
        of_cells = np.append(final, -1)[of_cells]
        values = values.fill_null("")
    return Codes(of_cells, values)


def words(column: Any) -> tuple[Array, Codes]:
    """The words of a column of text, and the row of each: runs of letters, digits and underscores, in lower case.

    Texts are split at blanks, which is quick, and only what is different then is split into words.
    """
    pieces = pc.utf8_split_whitespace(pc.cast(column, pa.large_string()))
    piece_rows: Array = pc.list_parent_indices(pieces).to_numpy()
    piece = codes(pc.list_flatten(pieces), empty_is_missing=False)

    split = pc.split_pattern_regex(pc.utf8_lower(piece.values), pattern=NO_WORD)
    owner: Array = pc.list_parent_indices(split).to_numpy()
    word = codes(pc.list_flatten(split), empty_is_missing=True)
    owner, word_codes = owner[word.present], word.codes[word.present]
    n_words = np.bincount(owner, minlength=len(piece.values))
    first_word = np.cumsum(n_words) - n_words

    repeats = n_words[piece.codes]
    begins = np.cumsum(repeats) - repeats
    at = np.arange(repeats.sum()) + np.repeat(first_word[piece.codes] - begins, repeats)
    return np.repeat(piece_rows, repeats), Codes(word_codes[at], word.values)


def buffers(strings: Any) -> tuple[Array, Array]:
    """The bytes of Arrow strings, and where each begins."""
    strings = pc.cast(strings, pa.large_string())
    _, starts, data = strings.buffers()
    offsets = np.frombuffer(starts, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), offsets
