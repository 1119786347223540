"""The rows of a partition where they are used: in a worker's memory, or in a store that the worker opens itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd.data.store import Store
from symsgd.errors import StoreError
from symsgd.inputs import Data, check_data, is_mapped
from symsgd.threads import available_cores

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Loaded:
    """Rows in memory, as a task of the collection has made them; ``checked`` is made when they are first used here."""

    X: Any
    y: Array | None
    weight: Array | None
    names: tuple[str, ...] | None = None
    _checked: list[Data] = field(default_factory=list, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"X": self.X, "y": self.y, "weight": self.weight, "names": self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_checked": []}.items():
            object.__setattr__(self, name, value)

    def __sizeof__(self) -> int:  # what the scheduler takes a partition to weigh
        arrays = (self.X.data, self.X.indices, self.X.indptr) if sp.issparse(self.X) else (self.X,)
        return int(sum(array.nbytes for array in (*arrays, self.y, self.weight) if array is not None))

    @property
    def data(self) -> Data:
        if not self._checked:
            self._checked.append(check_data(self.X, available_cores(), allow_empty=True))
        return self._checked[0]

    def between(self, begin: int, end: int) -> tuple[Data, Array | None, Array | None]:
        """Rows, targets and weights."""
        cut = slice(begin, end)
        return (
            self.data.between(begin, end),
            None if self.y is None else self.y[cut],
            None if self.weight is None else self.weight[cut],
        )

    def peek(self, rows: Array) -> tuple[Any, Array | None, Array | None]:
        """Copies of a few rows."""
        X = self.data.source[rows]
        return X, None if self.y is None else self.y[rows], None if self.weight is None else self.weight[rows]


@dataclass(frozen=True)
class Stored:
    """Rows of a store, which is opened where they are used. ``generation`` and ``n_rows`` say which state of it."""

    path: str
    generation: int
    n_rows: int

    def between(self, begin: int, end: int) -> tuple[Data, Array | None, Array | None]:
        """Rows, targets and weights, compared with their checksums when this process first reads them."""
        store = self.open()
        with _opening:
            store.verify_rows(begin, end)
        X = store.X
        rows = Data(None, *store.shape, X.dtype, sp.issparse(X), store.summary.canonical, True, X).between(begin, end)
        if not store.summary.finite:
            raise StoreError(self.path, "it contains NaN or infinity")
        weight = store.sample_weight
        return rows, store.y[begin:end], None if weight is None else weight[begin:end]

    def peek(self, rows: Array) -> tuple[Any, Array | None, Array | None]:
        """Copies of a few rows, without reading the extents that they are in. Nothing of them is trusted."""
        store = self.open()
        if not sp.issparse(store.X):
            X: Any = np.array(store.X[rows])
        else:
            starts, n_entries = store.X.indptr, store.n_entries
            spans = [(int(starts[row]), int(starts[row + 1])) for row in rows]
            if not all(0 <= first <= last <= n_entries for first, last in spans):
                raise StoreError(self.path, "its array 'starts' is damaged: a row lies outside")
            indptr = np.concatenate([[0], np.cumsum([last - first for first, last in spans])])
            parts = [(store.X.data[first:last], store.X.indices[first:last]) for first, last in spans]
            data, indices = (np.concatenate(column) for column in zip(*parts, strict=True))
            if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < store.shape[1]:
                raise StoreError(self.path, f"its array 'indices' is damaged: one is not below {store.shape[1]}")
            X = sp.csr_matrix((data, indices, indptr), shape=(len(rows), store.shape[1]))
        weight = store.sample_weight
        return X, np.array(store.y[rows]), None if weight is None else np.array(weight[rows])

    def open(self) -> Store:
        with _opening:
            store = _stores.get(self.path)
            if store is None or store.generation != self.generation:
                store = _stores[self.path] = open_here(self.path)
        if (store.generation, len(store)) != (self.generation, self.n_rows):
            raise StoreError(
                self.path,
                f"it has {len(store)} rows (generation {store.generation}) on worker process {os.getpid()}, and "
                f"{self.n_rows} (generation {self.generation}) where the training was started; every worker needs the "
                "same store under this path",
            )
        return store


Rows = Loaded | Stored

_opening = threading.Lock()
_stores: dict[str, Store] = {}  # of this process


def open_here(path: str) -> Store:
    """The store at this path; an error that says on which machine there is none."""
    try:
        return Store(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no store {path!r} on {os.uname().nodename}; every worker opens it by that path"
        ) from error


def loaded(X: Any, y: Any = None, weight: Any = None) -> Loaded:
    """A partition of a collection: an array, a CSR matrix or a frame, with its targets and weights."""
    names = None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = tuple(map(str, X.columns))
        X = X.to_numpy()
    X = X.tocsr() if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"a partition of X has {X.ndim} dimension(s), shape {X.shape}; accepted is (rows, features)")
    if not sp.issparse(X) and X.dtype == object:
        raise ValueError("a partition of X has dtype object; accepted are real numbers")
    if not sp.issparse(X) and not is_mapped(X):
        X = np.ascontiguousarray(X)
    return Loaded(X, _column("y", y, X.shape[0]), _column("sample_weight", weight, X.shape[0]), names)


def _column(argument: str, column: Any, n_rows: int) -> Array | None:
    if column is None:
        return None
    array = np.asarray(column)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n_rows,):
        raise ValueError(f"a partition of {argument} has shape {array.shape}, and that of X {n_rows} rows")
    return array


def store_path(path: Any) -> str:
    return str(Path(path).absolute())


class Cores:
    """Cores of a worker that blocks take while they train: a worker runs as many tasks at once as it has threads, and a
    block may want several of them."""

    def __init__(self, count: int) -> None:
        self.count = self._free = count
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Waits until so many are free."""
        count = min(count, self.count)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= count)
            self._free -= count
        try:
            yield
        finally:
            with self._changed:
                self._free += count
                self._changed.notify_all()
