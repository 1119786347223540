"""Where rows come from: the only place of the command line that knows readers and stores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from symsgd.data.dataset import Dataset, Part, Reader, Schema

FORMATS = ("svmlight",)

format_option = click.option(
    "--format", type=click.Choice(FORMATS), help="Of DATA; by default its name or its first bytes tell."
)


def open_source(path: str, *, format: str | None = None, schema: Schema | None = None) -> Dataset:
    """All rows of a file, a store or, for "-", standard input; read as ``schema`` says, if there is one."""
    from symsgd.data.dataset import gather

    return gather(_reader(path, format, schema))


class Stream:
    """The rows of a source some thousands at a time, in bounded memory where ``schema`` says how to read them."""

    def __init__(self, path: str, *, format: str | None = None, schema: Schema | None = None) -> None:
        self.notes: list[str] = []  # complete when the rows have ended
        self._how = (path, format, schema)

    def __iter__(self) -> Iterator[Dataset]:
        from symsgd.data.dataset import Dataset

        path, format, schema = self._how
        if schema is None:  # only the end of a file says how its features count, and how many there are
            data = open_source(path, format=format)
            self.notes = list(data.notes)
            yield data
            return
        reader = _reader(path, format, schema)
        for part in reader.parts():
            yield Dataset(_matrix(part, schema.n_features), part.y, part.weight, schema)
        self.notes = reader.notes


def _matrix(part: Part, n_features: int) -> Any:
    import scipy.sparse as sp

    from symsgd.data.dataset import SparseColumns

    rows = part.rows
    if not isinstance(rows, SparseColumns):
        return rows
    return sp.csr_matrix((rows.values, rows.indices, rows.starts), shape=(len(rows), n_features))


def _reader(path: str, format: str | None, schema: Schema | None) -> Reader:
    return _Svmlight(path, schema)


@dataclass
class _Svmlight:
    """svmlight text by scikit-learn's reader, until ours is there."""

    path: str
    known: Schema | None
    index_shift: int = 0

    def parts(self) -> Iterator[Part]:
        import numpy as np
        from sklearn.datasets import load_svmlight_file

        from symsgd.data.dataset import Part, Schema, SparseColumns

        source = sys.stdin.buffer if self.path == "-" else self.path
        base = "auto" if self.known is None else self.known.options["base"] == 0
        try:
            X, y = load_svmlight_file(source, zero_based=base, dtype=np.float32)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error
        self.notes: list[str] = []
        if self.known is None:
            self.schema = Schema("svmlight", X.shape[1], options={"base": 1})
        else:
            self.schema = self.known
            beyond = X.indices >= self.known.n_features
            if beyond.any():
                self.notes.append(f"{int(beyond.sum()):,} values of features the model does not know were ignored")
                X = X[:, : self.known.n_features]
        for begin in range(0, max(1, X.shape[0]), 4096):
            own = X[begin : begin + 4096]
            yield Part(SparseColumns(own.indptr.astype(np.int64), own.indices, own.data), y[begin : begin + 4096])
