"""svmlight and LIBSVM text: ``LABEL [qid:ID] INDEX:VALUE … [# comment]``, a row a line.

Files count features from 0 or from 1 and do not say which. Where nobody else does, an index 0 anywhere in the file
decides; so the indices of parts are those in the file until its end, and ``index_shift`` says what to make of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from symsgd import _core
from symsgd._choices import check_count
from symsgd.data.compressed import open_bytes
from symsgd.data.dataset import Dataset, Part, Schema, gather
from symsgd.data.text import PIECE_BYTES, check_dtype, line_chunks, part_of, raise_error, rows_have
from symsgd.errors import DataError
from symsgd.threads import resolve_threads

FORMAT = "svmlight"
GREATEST_INDEX = 2**63 - 2  # so that the number of features is an int64


@dataclass
class _Met:
    """What the file has held so far."""

    lines: int = 0
    query_ids: int = 0
    unknown_features: int = 0
    unordered_rows: int = 0
    greatest: int = -1
    widest: tuple[int, int] = (0, 0)
    zero_line: int = 0

    def add(self, facts: _core.SvmlightFacts) -> None:
        if facts.greatest > self.greatest:
            self.greatest = facts.greatest
            self.widest = (self.lines + facts.widest.line, facts.widest.column)
        if facts.zero.line and not self.zero_line:
            self.zero_line = self.lines + facts.zero.line
        self.lines += facts.lines
        self.query_ids += facts.query_ids
        self.unknown_features += facts.beyond_last
        self.unordered_rows += facts.unordered_rows


class SvmlightReader:
    """Reads svmlight text in bounded memory (a :class:`symsgd.data.dataset.Reader`).

    Parameters
    ----------
    source
        A path, ``"-"`` for standard input, or a file object opened for bytes; compressed or not.
    n_threads
        Threads that parse; ``None`` means every core. The rows are the same for any number.
    dtype
        Of the values: float32 or float64, the double nearest to the text rounded to it.
    schema
        How an earlier file was read: its base and width are used, features beyond are skipped and counted.
    n_features
        The width, if it is to be more than the greatest index says. An index beyond is an error.
    zero_based
        Whether indices count from 0. ``"auto"``: if there is an index 0 anywhere in the file.
    """

    def __init__(
        self,
        source: Any,
        *,
        n_threads: int | None = None,
        dtype: npt.DTypeLike = np.float32,
        schema: Schema | None = None,
        n_features: int | None = None,
        zero_based: bool | Literal["auto"] = "auto",
    ) -> None:
        if zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based={zero_based!r} is not accepted; it must be True, False or 'auto'")
        self._source = source
        self._n_threads = resolve_threads(n_threads, "n_threads")
        self._dtype = check_dtype(dtype)
        self._width = None if n_features is None else check_count("n_features", n_features, GREATEST_INDEX, 0)
        self._base = None if zero_based == "auto" else int(not zero_based)
        self._knows_features = schema is not None
        self._label_names: tuple[str, ...] | None = None
        self._feature_names: tuple[str, ...] | None = None
        if schema is not None:
            self._follow(schema)
        self._met = _Met()

    def _follow(self, schema: Schema) -> None:
        if schema.format != FORMAT:
            raise ValueError(f"schema is that of {schema.format!r} data; accepted is one of format {FORMAT!r}")
        if self._width is not None:
            raise ValueError(f"n_features={self._width} and a schema exclude each other: the schema has the width")
        base = schema.options["base"]
        if self._base not in (None, base):
            raise ValueError(f"zero_based={not self._base} contradicts the schema, which counts features from {base}")
        self._base, self._width = base, schema.n_features
        self._label_names, self._feature_names = schema.label_names, schema.feature_names

    def parts(self) -> Iterator[Part]:
        """The rows in order, some thousands at a time. Raises :class:`symsgd.errors.DataError` where text is wrong."""
        self._met = _Met()
        with open_bytes(self._source) as stream:
            for chunk in line_chunks(stream, self._n_threads):
                yield from self._parse(chunk, stream.name)
            if not self._met.lines:
                yield from self._parse(b"\n", stream.name)  # so that no rows have their type too
            self._check_width(stream.name)

    def _parse(self, chunk: bytes | memoryview, name: str) -> Iterator[Part]:
        base = self._base or 0
        last = GREATEST_INDEX if self._width is None else self._width - 1 + (1 if self._base is None else base)
        parts, facts, error = _core.parse_svmlight(
            chunk,
            single=self._dtype == np.float32,
            first=base,
            last=last,
            skip_beyond_last=self._knows_features,
            base=base,
            n_threads=self._n_threads,
            piece_bytes=PIECE_BYTES,
        )
        raise_error(error, name, self._met.lines)
        self._met.add(facts)
        return map(part_of, parts)

    def _check_width(self, name: str) -> None:
        """What could not be said before the base was known: an index equal to the width counts from 1, or is beyond."""
        if self._base is None and self._found_base == 0 and self._met.greatest == self._width:
            raise DataError(
                name,
                *self._met.widest,
                f"index {self._width} is out of range; accepted are 0 to {self._width - 1}, since there is an index 0 "
                f"on line {self._met.zero_line}",
            )

    @property
    def _found_base(self) -> int:
        return (0 if self._met.zero_line else 1) if self._base is None else self._base

    @property
    def schema(self) -> Schema:
        """Width and base; complete once ``parts`` has ended."""
        width = self._met.greatest + 1 - self._found_base if self._width is None else self._width
        return Schema(
            FORMAT, max(0, width), self._feature_names, self._label_names, options={"base": self._found_base}
        )  # fmt: skip

    @property
    def index_shift(self) -> int:
        """What to add to the indices of all parts, known once ``parts`` has ended."""
        return -self._found_base if self._base is None else 0

    @property
    def notes(self) -> list[str]:
        """What was ignored, and how features are counted."""
        met, notes = self._met, []
        if self._base is None and met.zero_line:
            notes.append(f"features count from 0: there is an index 0 on line {met.zero_line}")
        if met.query_ids:
            notes.append(f"{rows_have(met.query_ids)} a query (qid:…), which was ignored")
        if met.unknown_features:
            notes.append(
                f"{met.unknown_features:,} values of features beyond the {self._width:,} that are known were ignored"
            )
        if met.unordered_rows:
            notes.append(
                f"{rows_have(met.unordered_rows)} indices out of order or repeated, which are kept as they are; "
                "values of a repeated index add up"
            )
        return notes


def read_svmlight(
    source: Any,
    *,
    n_threads: int | None = None,
    dtype: npt.DTypeLike = np.float32,
    schema: Schema | None = None,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
) -> Dataset:
    """All rows of an svmlight or LIBSVM file: CSR rows ``X``, labels ``y``, ``schema`` and ``notes``.

    The parameters are those of :class:`SvmlightReader`. Values equal those of scikit-learn's ``load_svmlight_file``.
    """
    return gather(
        SvmlightReader(
            source, n_threads=n_threads, dtype=dtype, schema=schema, n_features=n_features, zero_based=zero_based
        )
    )
