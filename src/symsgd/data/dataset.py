"""What readers give and what stores, training and models take: rows, their targets, and what both mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Schema:
    """What the columns of X and the values of y mean: whoever has it reads the next file as the first was read.

    ``format`` is the reader's name and ``options`` are that reader's own, in types that JSON knows. Stores and models
    keep a schema as it is.
    """

    format: str
    n_features: int
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None  # where labels are names, y holds their numbers
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain dicts, lists, strings and numbers."""
        return {
            "format": self.format,
            "n_features": self.n_features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "label_names": None if self.label_names is None else list(self.label_names),
            "options": dict(self.options),
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Schema:
        """What :meth:`to_json` wrote."""
        schema = Schema(**fields)
        return replace(
            schema,
            feature_names=None if schema.feature_names is None else tuple(schema.feature_names),
            label_names=None if schema.label_names is None else tuple(schema.label_names),
        )


@dataclass(frozen=True)
class SparseColumns:
    """Rows in CSR form: row i has the entries ``starts[i]`` to ``starts[i + 1]``."""

    starts: Array  # int64, one more than rows; the first is 0
    indices: Array  # int32, or int64 where a number does not fit
    values: Array  # float32 or float64

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a source. Dense rows are a two-dimensional array."""

    rows: SparseColumns | Array
    y: Array  # float64; NaN for a row without a label
    weight: Array | None = None  # float64


class Reader(Protocol):
    """A source of rows that is read once, from its beginning to its end, in bounded memory."""

    def parts(self) -> Iterator[Part]:
        """The rows in order, some thousands at a time."""
        ...

    @property
    def schema(self) -> Schema:
        """What was found out; complete once ``parts`` has ended."""
        ...

    @property
    def index_shift(self) -> int:
        """What has to be added to the indices of all sparse parts, known once ``parts`` has ended; mostly 0.

        Not 0 where a source turned out to count its features otherwise than its beginning suggested.
        """
        ...

    @property
    def notes(self) -> list[str]:
        """What a person should know of how the source was read: what was ignored, and how often."""
        ...


@dataclass(frozen=True)
class Dataset:
    """Rows and their targets in memory, or mapped from a store."""

    X: Any  # CSR matrix, or an array
    y: Array
    sample_weight: Array | None = None
    schema: Schema = field(default_factory=lambda: Schema("matrix", 0))
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.X.shape[0])


def gather(reader: Reader) -> Dataset:
    """All rows of a reader, in memory."""
    parts = list(reader.parts())
    schema = reader.schema
    y = np.concatenate([part.y for part in parts]) if parts else np.zeros(0)
    weights = [part.weight for part in parts]
    weight = None
    if any(w is not None for w in weights):
        weight = np.concatenate(
            [np.ones(len(p.y)) if w is None else w for p, w in zip(parts, weights, strict=True)]
        )  # fmt: skip
    sparse = [part.rows for part in parts if isinstance(part.rows, SparseColumns)]
    if len(sparse) == len(parts):
        X = _joined(sparse, reader.index_shift, schema.n_features)
    else:
        X = np.concatenate([part.rows for part in parts])
    return Dataset(X, y, weight, schema, tuple(reader.notes))


def _joined(parts: list[SparseColumns], shift: int, n_features: int) -> Any:
    if not parts:
        return sp.csr_matrix((0, n_features), dtype=np.float32)
    entries = sum(len(part.indices) for part in parts)
    index_type = np.int64 if max(entries, n_features) > np.iinfo(np.int32).max else np.int32
    starts = np.zeros(1 + sum(map(len, parts)), index_type)
    indices, values = np.empty(entries, index_type), np.empty(entries, parts[0].values.dtype)
    row = entry = 0
    for part in parts:
        rows, count = len(part), len(part.indices)
        np.add(part.starts[1:], entry, out=starts[row + 1 : row + 1 + rows], casting="unsafe")
        np.add(part.indices, shift, out=indices[entry : entry + count], casting="unsafe")
        values[entry : entry + count] = part.values
        row, entry = row + rows, entry + count
    return sp.csr_matrix((values, indices, starts), shape=(row, n_features))
