"""What readers give and what stores, training and models take: rows, their targets, and what both mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

if TYPE_CHECKING:
    from symsgd.data.store import Store

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

    def name(self, feature: int) -> str:
        """What a column of X is called: its name if it has one, else its number as the source counts, from ``base``."""
        if self.feature_names is not None:
            return self.feature_names[feature]
        if self.format == "table":  # with hashed columns: most features have no name of their own
            from symsgd.data.tables.layout import feature_name

            return feature_name(self, feature)
        return str(feature + int(self.options.get("base", 0)))

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
        """What :meth:`to_json` wrote; a ValueError for anything else."""
        if not isinstance(fields, Mapping):
            raise ValueError(f"a schema is an object with keys, not {str(fields)[:200]}")
        expected = {"format": str, "n_features": int, "options": dict}
        wrong = [key for key, kind in expected.items() if not isinstance(fields.get(key), kind)]
        for key in ("feature_names", "label_names"):
            names = fields.get(key)
            if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
                wrong.append(key)
        if not wrong and (fields["n_features"] < 0 or fields["n_features"] is True):
            wrong.append("n_features")
        if wrong or fields.keys() != {*expected, "feature_names", "label_names"}:
            raise ValueError(f"a schema has no such {', '.join(wrong) or 'keys'}: {str(dict(fields))[:200]}")
        schema = Schema(**fields)
        return replace(
            schema,
            feature_names=None if schema.feature_names is None else tuple(schema.feature_names),
            label_names=None if schema.label_names is None else tuple(schema.label_names),
        )

    def joined(self, other: Schema) -> Schema:
        """The schema of these rows followed by those of ``other``; ValueError if they do not mean the same.

        Sparse rows may have more features than those before them. A "matrix" means nothing beyond its numbers, so it
        goes with any format.
        """
        if self.format != other.format and "matrix" not in (self.format, other.format):
            raise ValueError(f"rows of format {other.format!r} cannot follow rows of format {self.format!r}")
        if self.format == other.format and dict(self.options) != dict(other.options):
            raise ValueError(f"rows read with {dict(other.options)} cannot follow rows read with {dict(self.options)}")
        for what, mine, others in (
            ("feature", self.feature_names, other.feature_names),
            ("label", self.label_names, other.label_names),
        ):
            if mine != others:
                raise ValueError(f"rows with the {what} names {others} cannot follow rows with {mine}")
        return replace(self, n_features=max(self.n_features, other.n_features))


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


class DatasetReader:
    """A data set in memory, or a store, as a reader gives it: some thousand rows at a time."""

    index_shift = 0

    def __init__(self, dataset: Dataset | Store, entries_a_part: int = 1 << 20) -> None:
        self._dataset = dataset
        self._entries = entries_a_part

    @property
    def schema(self) -> Schema:
        """That of the data set, with the number of features that its rows have."""
        return replace(self._dataset.schema, n_features=int(self._dataset.X.shape[1]))

    @property
    def notes(self) -> list[str]:
        """Those of the data set."""
        return list(self._dataset.notes)

    def parts(self) -> Iterator[Part]:
        """Views of the rows, in order; those of a store are compared with their checksums first."""
        if not isinstance(self._dataset, Dataset):
            self._dataset.verify()
        X, y, weight = self._dataset.X, np.asarray(self._dataset.y), self._dataset.sample_weight
        n_rows, width = X.shape
        cuts = np.append(
            np.arange(0, n_rows, max(1, self._entries // (1 if sp.issparse(X) else max(1, width)))), n_rows
        )
        if sp.issparse(X):
            X = X.tocsr()
            full = np.arange(0, int(X.indptr[-1]), self._entries)
            cuts = np.union1d(cuts, np.searchsorted(X.indptr, full))
        for begin, end in pairwise(cuts.tolist()):
            yield Part(_rows_between(X, begin, end), y[begin:end], None if weight is None else weight[begin:end])


def _rows_between(X: Any, begin: int, end: int) -> SparseColumns | Array:
    if not sp.issparse(X):
        return np.asarray(X[begin:end])
    starts = X.indptr[begin : end + 1].astype(np.int64)
    entries = slice(int(starts[0]), int(starts[-1]))
    return SparseColumns(starts - starts[0], X.indices[entries], X.data[entries])


def gather(reader: Reader) -> Dataset:
    """All rows of a reader, in memory, which holds them once: each part is let go before the next is read."""
    starts, indices, values, dense, y, weight = (_Grown() for _ in range(6))
    starts.append(np.zeros(1, np.int64))
    weighted = False
    for part in reader.parts():
        if isinstance(part.rows, SparseColumns):
            starts.append(part.rows.starts[1:] + len(indices))
            indices.append(part.rows.indices)
            values.append(part.rows.values)
        else:
            dense.append(part.rows)
        y.append(part.y)
        weighted |= part.weight is not None
        weight.append(np.ones(len(part.y)) if part.weight is None else part.weight)
    schema = reader.schema
    if dense.begun:
        X: Any = dense.array()
    else:
        X = _sparse(starts.array(), indices.array(np.int32), values.array(np.float32), reader.index_shift, schema)
    sample_weight = weight.array() if weighted else None
    return Dataset(X, y.array(), sample_weight, schema, tuple(reader.notes))


def _sparse(starts: Array, indices: Array, values: Array, shift: int, schema: Schema) -> Any:
    wide = max(len(indices), schema.n_features) > np.iinfo(np.int32).max
    indices = indices.astype(np.int64 if wide else np.int32, copy=False)
    if shift:
        indices += shift
    shape = (len(starts) - 1, schema.n_features)
    return sp.csr_matrix((values, indices, starts.astype(indices.dtype, copy=False)), shape=shape)


class _Grown:
    """Arrays one after the other, in one that grows in place: the system moves its pages, nobody copies them."""

    def __init__(self) -> None:
        self._array: Array | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def begun(self) -> bool:
        return self._array is not None

    def append(self, part: Array) -> None:
        if self._array is None:
            self._array = np.empty((0, *part.shape[1:]), part.dtype)
        wider = np.promote_types(self._array.dtype, part.dtype)
        if wider != self._array.dtype:
            self._array = self._array.astype(wider)
        end = self._length + len(part)
        if end > len(self._array):
            self._array.resize((max(end, len(self._array) * 5 // 4), *part.shape[1:]), refcheck=False)
        self._array[self._length : end] = part
        self._length = end

    def array(self, dtype: npt.DTypeLike = np.float64) -> Array:
        """The whole; ``dtype`` is that of one to which nothing was appended."""
        if self._array is None:
            return np.empty(0, dtype)
        self._array.resize((self._length, *self._array.shape[1:]), refcheck=False)
        return self._array
