"""Matrices of NumPy and SciPy, in files and in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd._choices import check_count
from symsgd.data.arrays import HeldItems, Items, open_npy, open_npz
from symsgd.data.dataset import Dataset, Part, Schema, SparseColumns, gather
from symsgd.errors import DataError

Array = npt.NDArray[Any]

FORMAT = "matrix"
PART_BYTES = 1 << 22
SPARSE_KEYS = {"format", "shape", "data", "indices", "indptr"}


def read_matrix(X: Any, y: Any = None, **options: Any) -> Dataset:
    """All rows of a matrix; the arguments are those of :class:`MatrixReader`."""
    return gather(MatrixReader(X, y, **options))


class MatrixReader:
    """Reads a matrix in bounded memory (a :class:`symsgd.data.dataset.Reader`).

    Parameters
    ----------
    X
        A .npy file, a .npz file that has X, y and maybe sample_weight, a .npz file of ``scipy.sparse.save_npz``, or a
        matrix in memory: an array, a SciPy matrix, a pandas data frame of numbers.
    y, sample_weight
        Arrays, or .npy files; without y there are no labels. Names are numbered in their order.
    schema
        That of the rows before: there must be as many features, and labels keep their numbers.
    dtype
        Of the values: float32 or float64; by default as they are, and what holds them exactly if they are no floats.
    part_bytes
        How much to read at a time.
    """

    index_shift = 0

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        schema: Schema | None = None,
        dtype: npt.DTypeLike | None = None,
        part_bytes: int = PART_BYTES,
    ) -> None:
        if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype={dtype!r} is not accepted; it must be float32 or float64")
        self._source = Path(X) if isinstance(X, str | PathLike) else X
        self._name = str(self._source) if isinstance(self._source, Path) else "X"
        self._given = {"y": y, "sample_weight": sample_weight}
        self._known = schema
        self._dtype = None if dtype is None else np.dtype(dtype)
        self._part_bytes = check_count("part_bytes", part_bytes)
        self._schema = schema
        self.notes: list[str] = []

    @property
    def schema(self) -> Schema:
        """Width and names; complete once ``parts`` has begun."""
        assert self._schema is not None, "parts has not been called"
        return self._schema

    def parts(self) -> Iterator[Part]:
        """The rows in order, about ``part_bytes`` at a time."""
        with ExitStack() as opened:
            rows, beside = self._open(opened)
            targets = {name: self._beside(name, beside, rows.shape[0]) for name in ("y", "sample_weight")}
            label_names, y = self._labels(targets["y"])
            self._schema = self._known or Schema(FORMAT, rows.shape[1], self._feature_names(), label_names)
            if rows.shape[1] != self._schema.n_features:
                raise self._error(f"has {rows.shape[1]} features; the schema has {self._schema.n_features}")
            row = 0
            for block in rows.blocks(self._part_bytes):
                count = len(block)
                yield Part(
                    self._checked(block, row), y(count, row), self._weights(targets["sample_weight"], count, row)
                )
                row += count

    def _error(self, reason: str) -> DataError:
        return DataError(self._name, None, None, reason)

    def _open(self, opened: ExitStack) -> tuple[_Dense | _Sparse, Mapping[str, Callable[[], Items]]]:
        source = self._source
        if not isinstance(source, Path):
            return _in_memory(source, self._error), {}
        if source.suffix != ".npz" and not zipfile.is_zipfile(source):
            return _Dense(open_npy(source), self._error), {}
        members = opened.enter_context(open_npz(source))
        if members.keys() >= SPARSE_KEYS:
            return _stored_sparse(members, self._error), members
        if "X" not in members:
            raise self._error(
                f"has the arrays {sorted(members)}; accepted are X, y and sample_weight, or what "
                "scipy.sparse.save_npz writes"
            )
        return _Dense(members["X"](), self._error), members

    def _beside(self, name: str, members: Mapping[str, Callable[[], Items]], n_rows: int) -> Items | None:
        given = self._given[name]
        if isinstance(given, str | PathLike):
            items = open_npy(Path(given))
        elif given is not None:
            items = HeldItems(np.asarray(given))
        elif name in members:
            items = members[name]()
        else:
            return None
        if items.shape not in ((n_rows,), (n_rows, 1)):
            raise self._error(f"{name} has shape {items.shape}; there are {n_rows} rows")
        if items.dtype.kind in "biuf" or (name == "y" and items.dtype.kind in "UTO"):
            return items
        raise self._error(f"{name} has type {items.dtype}, which is not accepted")

    def _labels(self, items: Items | None) -> tuple[tuple[str, ...] | None, Callable[[int, int], Array]]:
        """The names of labels, if they are names, and what gives the next labels as numbers."""
        if items is None:
            return None, lambda count, _: np.full(count, np.nan)
        if items.dtype.kind not in "UTO":
            return None, lambda count, row: self._finite("y", items, count, row)
        labels = np.array([str(label) for label in items.take(items.shape[0]).ravel().tolist()])
        known = None if self._known is None else self._known.label_names
        names = np.array(known) if known is not None else np.unique(labels)
        order = np.argsort(names)
        at = order[np.minimum(np.searchsorted(names, labels, sorter=order), len(names) - 1)]
        strange = names[at] != labels
        if strange.any():
            row = int(np.argmax(strange))
            raise self._error(f"row {row + 1}: {str(labels[row])!r} is not one of the labels {names.tolist()}")
        return tuple(names.tolist()), lambda count, row: at[row : row + count].astype(np.float64)

    def _finite(self, name: str, items: Items, count: int, row: int) -> Array:
        values = items.take(count).astype(np.float64).ravel()
        if not np.isfinite(values).all():
            at = int(np.argmin(np.isfinite(values)))
            raise self._error(f"row {row + at + 1}: {name} is {values[at]}")
        return values

    def _weights(self, items: Items | None, count: int, row: int) -> Array | None:
        if items is None:
            return None
        weights = self._finite("sample_weight", items, count, row)
        if (weights < 0).any():
            at = int(np.argmax(weights < 0))
            raise self._error(f"row {row + at + 1}: weight {weights[at]} is not accepted; weights are numbers >= 0")
        return weights

    def _feature_names(self) -> tuple[str, ...] | None:
        columns = getattr(self._source, "columns", None)
        return None if columns is None else tuple(map(str, columns))

    def _checked(self, block: SparseColumns | Array, row: int) -> SparseColumns | Array:
        """The block in the type wanted, if all its values are finite."""
        values = block.values if isinstance(block, SparseColumns) else block
        dtype = self._dtype or (values.dtype if values.dtype == np.float64 else np.result_type(values, np.float32))
        with np.errstate(over="ignore"):
            values = values.astype(dtype)
        if not np.isfinite(values).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            if isinstance(block, SparseColumns):
                owner = int(np.searchsorted(block.starts, place[0], side="right")) - 1
                feature = int(block.indices[place[0]])
            else:
                owner, feature = place
            raise self._error(f"row {row + owner + 1}: feature {feature} is not a finite number of type {dtype}")
        return SparseColumns(block.starts, block.indices, values) if isinstance(block, SparseColumns) else values


class _Dense:
    """Rows of an array."""

    def __init__(self, items: Items, error: Callable[[str], DataError]) -> None:
        if len(items.shape) != 2 or items.dtype.kind not in "biuf":
            raise error(f"X has shape {items.shape} and type {items.dtype}; accepted are (rows, features) of numbers")
        self.shape = items.shape
        self._items = items

    def blocks(self, n_bytes: int) -> Iterator[Array]:
        n_rows, n_features = self.shape
        at_a_time = max(1, n_bytes // max(1, n_features * self._items.dtype.itemsize))
        for begin in range(0, n_rows, at_a_time):
            yield self._items.take(min(at_a_time, n_rows - begin))


class _Sparse:
    """Rows in CSR form, whose three arrays are taken side by side. A file may say anything, so all of it is checked."""

    def __init__(
        self, shape: tuple[int, int], starts: Array, indices: Items, data: Items, error: Callable[[str], DataError]
    ) -> None:
        self.shape = shape
        self._starts = starts.astype(np.int64) if starts.dtype.kind in "iu" else np.zeros(0, np.int64)
        self._indices = indices
        self._data = data
        self._error = error
        starts = self._starts
        ascending = starts.shape == (shape[0] + 1,) and starts[0] == 0 and (np.diff(starts) >= 0).all()
        entries = (int(starts[-1]),) if ascending else None
        if entries is None or indices.shape != entries or data.shape != entries:
            raise error("its arrays indptr, indices and data do not fit together")
        if indices.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise error(f"has indices of type {indices.dtype} and data of type {data.dtype}; accepted are numbers")

    def blocks(self, n_bytes: int) -> Iterator[SparseColumns]:
        n_rows, n_features = self.shape
        entries = max(1, n_bytes // (self._data.dtype.itemsize + self._indices.dtype.itemsize))
        begin = 0
        while begin < n_rows:
            first = self._starts[begin]
            # rows of no entries cost memory too
            end = min(int(np.searchsorted(self._starts, first + entries, side="right")) - 1, begin + entries)
            end = max(end, begin + 1)
            count = int(self._starts[end] - first)
            indices, data = self._indices.take(count), self._data.take(count)
            if count and not (indices.min() >= 0 and indices.max() < n_features):
                raise self._error(f"has an index out of range between rows {begin + 1} and {end}")
            index_type = np.int32 if n_features <= np.iinfo(np.int32).max else np.int64
            yield SparseColumns(self._starts[begin : end + 1] - first, indices.astype(index_type), data)
            begin = end


def _stored_sparse(members: Mapping[str, Callable[[], Items]], error: Callable[[str], DataError]) -> _Sparse:
    def whole(name: str) -> Array:
        items = members[name]()
        return items.take(items.shape[0])

    kind = whole("format").ravel().tolist()
    if kind not in ([b"csr"], ["csr"]):
        raise error(
            f"is a sparse matrix of format {kind}, not csr, whose rows are not together; save it after .tocsr()"
        )
    shape = whole("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise error(f"has shape {shape.tolist()}; accepted is (rows, features)")
    n_rows, n_features = (int(length) for length in shape)
    return _Sparse((n_rows, n_features), whole("indptr"), members["indices"](), members["data"](), error)


def _in_memory(X: Any, error: Callable[[str], DataError]) -> _Dense | _Sparse:
    if not sp.issparse(X):
        return _Dense(HeldItems(np.asarray(X)), error)
    rows = X.tocsr()
    return _Sparse(rows.shape, rows.indptr, HeldItems(rows.indices), HeldItems(rows.data), error)
