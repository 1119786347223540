"""Vowpal Wabbit's text: ``[LABEL [IMPORTANCE [BASE]]] ['TAG]|NAMESPACE[:SCALE] FEATURE[:VALUE] … |NAMESPACE …``.

Names are hashed as version 9 of that program hashes them, so that a feature has the index, and a model the meaning,
that it has there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd import _core
from symsgd._choices import check_count
from symsgd.data.compressed import open_bytes
from symsgd.data.dataset import Dataset, Part, Schema, gather
from symsgd.data.text import PIECE_BYTES, check_dtype, line_chunks, part_of, raise_error, rows_have
from symsgd.threads import resolve_threads

FORMAT = "vowpal"
MOST_BITS = 31
MOST_BITS_COUNTED = 24  # the table of collisions has 4 bytes an index: 64 MB


class VowpalReader:
    """Reads Vowpal Wabbit text in bounded memory (a :class:`symsgd.data.dataset.Reader`).

    Parameters
    ----------
    source
        A path, ``"-"`` for standard input, or a file object opened for bytes; compressed or not.
    bits
        Features are hashed to 2^bits indices (``-b``).
    quadratic
        Pairs of namespaces to cross, by the first letters of their names (``-q ab``); ``":"`` stands for any.
    constant
        Whether each row gets Vowpal Wabbit's constant feature. Estimators here have an intercept instead.
    n_threads
        Threads that parse; ``None`` means every core. The rows are the same for any number.
    dtype
        Of the values: float32 or float64.
    schema
        How an earlier file was read: its bits, crosses and constant.
    count_collisions
        Whether ``notes`` say how many indices stand for more than one feature: a table of 4 bytes an index, so up to
        24 bits only.
    """

    def __init__(
        self,
        source: Any,
        *,
        bits: int | None = None,
        quadratic: Sequence[str] = (),
        constant: bool = False,
        n_threads: int | None = None,
        dtype: npt.DTypeLike = np.float32,
        schema: Schema | None = None,
        count_collisions: bool = True,
    ) -> None:
        if schema is not None:
            if schema.format != FORMAT:
                raise ValueError(f"schema is that of {schema.format!r} data; accepted is one of format {FORMAT!r}")
            if bits is not None or quadratic or constant:
                raise ValueError("bits, quadratic or constant and a schema exclude each other: the schema has them")
            bits, quadratic = schema.options["bits"], schema.options["quadratic"]
            constant = schema.options["constant"]
        self._source = source
        self._bits = check_count("bits", 18 if bits is None else bits, MOST_BITS)
        self._quadratic = _check_pairs(quadratic)
        self._constant = bool(constant)
        self._n_threads = resolve_threads(n_threads, "n_threads")
        self._dtype = check_dtype(dtype)
        self._counts_collisions = count_collisions and self._bits <= MOST_BITS_COUNTED
        self._collisions: _core.Collisions | None = None
        self._lines = self._unlabelled = self._based = 0

    def parts(self) -> Iterator[Part]:
        """The rows in order, some thousands at a time. Raises :class:`symsgd.errors.DataError` where text is wrong."""
        self._lines = self._unlabelled = self._based = 0
        self._collisions = _core.Collisions(self._bits) if self._counts_collisions else None
        with open_bytes(self._source) as stream:
            for chunk in line_chunks(stream, self._n_threads):
                yield from self._parse(chunk, stream.name)
            if not self._lines:
                yield from self._parse(b"\n", stream.name)  # so that no rows have their type too

    def _parse(self, chunk: bytes | memoryview, name: str) -> Iterator[Part]:
        parts, facts, error = _core.parse_vowpal(
            chunk,
            single=self._dtype == np.float32,
            bits=self._bits,
            quadratic=self._quadratic,
            constant=self._constant,
            collisions=self._collisions,
            n_threads=self._n_threads,
            piece_bytes=PIECE_BYTES,
        )
        raise_error(error, name, self._lines)
        self._lines += facts.lines
        self._unlabelled += facts.unlabelled
        self._based += facts.based
        return map(part_of, parts)

    @property
    def schema(self) -> Schema:
        """The width, and how names become indices."""
        options = {"bits": self._bits, "quadratic": list(self._quadratic), "constant": self._constant}
        return Schema(FORMAT, 1 << self._bits, options=options)

    @property
    def index_shift(self) -> int:
        """0: hashes are indices."""
        return 0

    @property
    def notes(self) -> list[str]:
        """Rows without a label, bases that were ignored, and collisions."""
        notes = []
        if self._unlabelled:
            notes.append(f"{rows_have(self._unlabelled)} no label; a word that touches the first '|' is a tag")
        if self._based:
            notes.append(f"{rows_have(self._based)} a base to predict from, which was ignored")
        if self._collisions is not None:
            used, shared = self._collisions.count()
            if shared:
                notes.append(f"{shared:,} of {used:,} indices in use stand for more than one feature; more bits help")
        return notes


def _check_pairs(quadratic: Sequence[str]) -> tuple[str, ...]:
    if isinstance(quadratic, str):
        raise ValueError(f"quadratic={quadratic!r} is not accepted; it must be a list of pairs, as in ['ab']")
    for pair in quadratic:
        if not (isinstance(pair, str) and len(pair) == 2 and pair.isascii() and "|" not in pair):
            raise ValueError(
                f"quadratic={list(quadratic)!r} is not accepted: {pair!r} must be the first letters of two namespaces, "
                "as in 'ab', or ':' for any"
            )
    return tuple(quadratic)


def read_vowpal(
    source: Any,
    *,
    bits: int | None = None,
    quadratic: Sequence[str] = (),
    constant: bool = False,
    n_threads: int | None = None,
    dtype: npt.DTypeLike = np.float32,
    schema: Schema | None = None,
    count_collisions: bool = True,
) -> Dataset:
    """All rows of a Vowpal Wabbit file: CSR rows ``X``, labels ``y`` (NaN where there is none), importances as
    ``sample_weight`` if there are any, ``schema`` and ``notes``.

    The parameters are those of :class:`VowpalReader`; 18 bits unless told otherwise.
    """
    return gather(
        VowpalReader(
            source,
            bits=bits,
            quadratic=quadratic,
            constant=constant,
            n_threads=n_threads,
            dtype=dtype,
            schema=schema,
            count_collisions=count_collisions,
        )
    )
