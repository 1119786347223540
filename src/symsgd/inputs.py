"""The caller's arrays, checked once and handed to the core in place.

Nothing is copied that the core can read as it is: CSR with 32- or 64-bit indices, dense rows in C order, float32 and
float64; labels and weights of any integer or floating-point type.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd import _core, devices
from symsgd.data.store import Store
from symsgd.devices import is_on_gpu

Array = npt.NDArray[Any]

FLOAT_TYPES = frozenset(np.dtype(t) for t in ("f4", "f8"))
FEW_CLASSES = 16
GPU_ROWS = 1 << 16  # that are looked at at a time, where they are in a GPU's memory
INDEX_TYPES = frozenset(np.dtype(t) for t in ("i4", "i8"))
LABEL_TYPES = frozenset(np.dtype(t) for t in ("i1", "u1", "i2", "i4", "i8", "f4", "f8"))


@dataclass(frozen=True)
class Data:
    """Rows ready for the core, or for a GPU whose memory they are in (``on_gpu``; then ``rows`` is None)."""

    rows: Any  # _core.Rows
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    sparse: bool
    canonical: bool
    mapped: bool  # in a file, and perhaps larger than the memory
    source: Any
    on_gpu: bool = False

    @property
    def values(self) -> Array:
        """The numbers stored."""
        values: Array = self.source.data if self.sparse else self.source
        return values

    def take(self, rows: Array) -> Any:
        """Some of the rows, where all of them are."""
        return self.source[devices.cuda().xp.asarray(rows) if self.on_gpu else rows]

    def between(self, begin: int, end: int) -> Data:
        """Rows ``begin`` … ``end``, which were checked with all the others: views of the same numbers."""
        if not self.sparse:
            part = self.source[begin:end]
            return replace(self, rows=_core.dense_rows(part), n_rows=end - begin, source=part)
        starts = self.source.indptr[begin : end + 1]
        first, last = int(starts[0]), int(starts[-1])
        X = sp.csr_matrix((0, self.n_features), dtype=self.dtype)  # SciPy's own constructor would read all indices
        X.data, X.indices, X.indptr = self.source.data[first:last], self.source.indices[first:last], starts - first
        X._shape = (end - begin, self.n_features)
        rows = _core.sparse_rows(X.indptr, X.indices, X.data, self.n_features)
        return replace(self, rows=rows, n_rows=end - begin, source=X)

    @property
    def indices(self) -> Array | None:
        """Which features they are of; ``None`` if all rows have all."""
        return self.source.indices if self.sparse else None

    @property
    def n_entries(self) -> int:
        """Numbers stored."""
        return len(self.source.data) if self.sparse else self.n_rows * self.n_features


def check_data(X: Any, n_threads: int, argument: str = "X", allow_empty: bool = False) -> Data:
    """``X`` as rows for the core; ValueError with the reason if it cannot be. A store is known by its checksums. Rows
    that were checked before are taken as they are."""
    if isinstance(X, Data):
        _check_not_empty(X.n_rows, X.n_features, argument, allow_empty)
        return X
    if is_on_gpu(X):
        return _check_on_gpu(X, argument, allow_empty)
    store, X = (X, X.X) if isinstance(X, Store) else (None, X)
    if sp.issparse(X):
        X = _as_csr(X, argument)
        rows = _core.sparse_rows(X.indptr, X.indices, X.data, X.shape[1])
    else:
        X = _as_dense(X, argument)
        rows = _core.dense_rows(X)
    n_rows, n_features = X.shape
    _check_not_empty(n_rows, n_features, argument, allow_empty)
    if store is not None:
        store.verify(n_threads)
        finite, increasing, damage = store.summary.finite, store.summary.canonical, ""
    else:
        finite, increasing, damage = _core.check_rows(rows, n_threads)
    if damage:
        raise ValueError(f"{argument} is a damaged CSR matrix: {damage}")
    if not finite:
        raise ValueError(_not_finite(X, argument))
    mapped = is_mapped(X.data if sp.issparse(X) else X)
    return Data(rows, n_rows, n_features, X.dtype, sp.issparse(X), increasing, mapped, X)


def _check_not_empty(n_rows: int, n_features: int, argument: str, allow_empty: bool) -> None:
    if not allow_empty and (n_rows == 0 or n_features == 0):
        raise ValueError(
            f"{argument} has {n_rows} sample(s) and {n_features} feature(s), shape=({n_rows}, {n_features}), "
            "while a minimum of 1 of each is required."
        )


def _check_on_gpu(X: Any, argument: str, allow_empty: bool) -> Data:
    """An array in the memory of a GPU, by CuPy without a copy where its type and layout allow it."""
    xp: Any = devices.cuda().xp
    X = xp.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"{argument} has {X.ndim} dimension(s), shape {X.shape}; accepted is (rows, features)")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{argument} has dtype {X.dtype}; accepted are real numbers")
    X = xp.ascontiguousarray(X if X.dtype in FLOAT_TYPES else X.astype(np.float64))
    n_rows, n_features = X.shape
    _check_not_empty(n_rows, n_features, argument, allow_empty)
    for begin in range(0, n_rows, GPU_ROWS):
        finite = xp.isfinite(X[begin : begin + GPU_ROWS])
        if not bool(finite.all()):
            row, column = (int(where[0]) for where in xp.nonzero(~finite))
            raise ValueError(
                f"Input {argument} contains NaN or infinity. The first is in row {begin + row}, column {column}."
            )
    return Data(None, n_rows, n_features, np.dtype(X.dtype), False, True, False, X, on_gpu=True)


def on_host(array: Any) -> Any:
    """A copy in the host's memory of an array in a GPU's; anything else as it is."""
    return devices.cuda().to_host(devices.cuda().xp.asarray(array)) if is_on_gpu(array) else array


def is_mapped(array: Array) -> bool:
    """Whether the array, or what it is a view of, is a mapped file."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return isinstance(owner, mmap.mmap | _core.Mapping)


def _not_finite(X: Any, argument: str) -> str:
    """scikit-learn's words for it, and where the first such value is."""
    values = X.data if sp.issparse(X) else X.ravel()
    first = int(np.flatnonzero(~np.isfinite(values))[0])
    what = "NaN" if np.isnan(values[first]) else f"infinity or a value too large for {X.dtype!r}"
    if sp.issparse(X):
        row, column = int(np.searchsorted(X.indptr, first, side="right")) - 1, int(X.indices[first])
    else:
        row, column = divmod(first, X.shape[1])
    return f"Input {argument} contains {what}. The first is in row {row}, column {column}."


def _aligned(array: Array) -> Array:
    """Contiguous and aligned, as the core reads it: the array itself in nearly every case."""
    return np.require(array, requirements=["C", "A"])


def _as_csr(X: Any, argument: str) -> Any:
    if X.ndim != 2:
        raise ValueError(f"{argument} has {X.ndim} dimension(s), shape {X.shape}; accepted is (rows, features)")
    X = X.tocsr()
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biuf":
            raise ValueError(f"{argument} has dtype {X.dtype}; accepted are real numbers")
        X = X.astype(np.float64)
    if len(X.indices) != len(X.data):
        raise ValueError(f"{argument} is a damaged CSR matrix: {len(X.indices)} indices and {len(X.data)} values")
    if X.indptr.shape != (X.shape[0] + 1,):
        raise ValueError(
            f"{argument} is a damaged CSR matrix: indptr has shape {X.indptr.shape}, but there are {X.shape[0]} rows"
        )
    if not {X.indices.dtype, X.indptr.dtype} <= INDEX_TYPES:
        X = type(X)((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape, copy=False)
    return X


def _as_dense(X: Any, argument: str) -> Array:
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"{argument} has {array.ndim} dimension(s), shape {array.shape}; accepted is (rows, features)")
    return _aligned(_as_numbers(array, argument, FLOAT_TYPES))


def _as_numbers(array: Array, argument: str, readable: frozenset[np.dtype[Any]]) -> Array:
    """The array itself if its type is one that the core reads in this place, else as float64."""
    if array.dtype in readable:
        return array
    if array.dtype.kind in "biufO":
        with suppress(TypeError, ValueError):
            return array.astype(np.float64)
    raise ValueError(f"{argument} has dtype {array.dtype}; accepted are real numbers")


def without_repeats(data: Data, n_threads: int) -> Data:
    """The same rows with sorted indices, each at most once: a copy where they are not so already."""
    if not data.sparse or data.canonical:
        return data
    X = data.source.copy()
    X.sum_duplicates()
    return check_data(X, n_threads)


def check_weights(sample_weight: Any, n_rows: int, dtype: np.dtype[Any]) -> Array | None:
    """Sample weights as an array the core can read; ``None`` means ones."""
    if sample_weight is None:
        return None
    weights = _as_numbers(np.asarray(sample_weight), "sample_weight", LABEL_TYPES)
    if weights.ndim == 0:
        weights = np.full(n_rows, weights, dtype=dtype)
    if weights.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}!")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity")
    if (weights < 0).any():
        raise ValueError(f"sample_weight contains the negative value {weights.min()}; accepted are numbers >= 0")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return _aligned(weights)


def check_real_targets(y: Any, n_rows: int, argument: str = "y") -> Array:
    """Numbers to predict, in place where their type allows it."""
    targets = _as_numbers(np.asarray(y), argument, LABEL_TYPES)
    _check_length(targets, n_rows, argument)
    if not np.isfinite(targets).all():
        raise ValueError(f"{argument} contains NaN or infinity")
    return _aligned(targets)


def _check_length(y: Array, n_rows: int, argument: str) -> None:
    if y.ndim != 1:
        raise ValueError(f"{argument} has shape {y.shape}; accepted is one target a row, shape ({n_rows},)")
    if len(y) != n_rows:
        raise ValueError(f"{argument} has {len(y)} targets, but there are {n_rows} rows")


def find_classes(y: Array, chunk: int = 1 << 16) -> Array:
    """The distinct labels in ascending order, without the sorted copy of y that ``np.unique`` makes."""
    if y.dtype.kind == "O" or len(y) <= chunk:
        return np.unique(y)
    classes = np.unique(y[:chunk])
    for begin in range(chunk, len(y), chunk):
        part = y[begin : begin + chunk]
        if not _known(part, classes).all():
            classes = np.union1d(classes, part)
    return classes


def _known(labels: Array, classes: Array) -> npt.NDArray[np.bool_]:
    """Which of the labels are classes: a comparison a class for a few, a search for many."""
    if len(classes) > FEW_CLASSES or labels.dtype.kind not in "biuf":
        at = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        return np.asarray(classes[at] == labels)
    known = np.zeros(len(labels), bool)
    for label in classes:
        known |= labels == label
    return known


def check_classes(classes: Any, y: Any, n_rows: int) -> Array:
    """The classes given, or else those that y has; ascending."""
    if classes is None:
        labels = np.asarray(y)
        _check_length(labels, n_rows, "y")
        try:
            known = find_classes(labels)
        except TypeError as error:
            raise ValueError(f"y mixes labels that cannot be sorted: {error}") from None
    else:
        known = np.asarray(on_host(classes))
        if known.ndim != 1 or (known[1:] <= known[:-1]).any():
            raise ValueError(f"classes={classes!r} is not accepted; they must be distinct and ascending")
    if known.dtype.kind == "f" and not np.isfinite(known).all():
        raise ValueError(f"{'y' if classes is None else 'classes'} contains NaN or infinity")
    if len(known) < 2:
        raise ValueError(f"The number of classes has to be greater than one; got {len(known)} class")
    return known


@dataclass(frozen=True)
class Labels:
    """Class labels as the core reads them: a binary label is compared with ``positive``, others are class numbers."""

    values: Array
    positive: float
    n_classes: int


def check_labels(y: Any, n_rows: int, classes: Array) -> Labels:
    """Labels in place where the core can read them, as small integers where not. ``classes`` is ascending."""
    labels = check_known_labels(y, n_rows, classes)
    readable = labels.dtype in LABEL_TYPES or labels.dtype == np.bool_
    if readable and labels.dtype.kind in "iu" and labels.dtype.itemsize == 8:
        readable = max(-int(classes[0]), int(classes[-1])) < 2**53  # labels are compared as doubles
    if labels.dtype == np.bool_:
        labels = labels.view(np.uint8)
    if len(classes) == 2:
        if readable:
            return Labels(_aligned(labels), float(classes[1]), 2)
        return Labels(np.asarray(labels == classes[1]).astype(np.int8), 1.0, 2)
    if readable and np.array_equal(classes, np.arange(len(classes))):
        return Labels(_aligned(labels), 1.0, len(classes))
    codes = np.searchsorted(classes, np.asarray(y))
    return Labels(codes.astype(np.min_scalar_type(-len(classes))), 1.0, len(classes))


def check_known_labels(y: Any, n_rows: int, classes: Array, argument: str = "y", chunk: int = 1 << 16) -> Array:
    """Labels as an array, if each is one of the classes."""
    labels = np.asarray(y)
    _check_length(labels, n_rows, argument)
    for begin in range(0, len(labels), chunk):
        part = labels[begin : begin + chunk]
        known = _known(part, classes)
        if not known.all():
            label = part[~known].tolist()[0]
            raise ValueError(
                f"{argument} contains the label {label!r}, which is not one of the classes {classes.tolist()}"
            )
    return labels


def dense(coef: Any) -> Any:
    """Coefficients as an array, whether they are kept sparse or not."""
    return coef.toarray() if sp.issparse(coef) else coef


def decide(data: Data, coef: Array, intercept: Array, threads: int) -> Array:
    """x·w + b, shape (rows,) for one model and (rows, models) for several."""
    if coef.ndim != 2 or intercept.shape != coef.shape[:1]:
        raise ValueError(f"coef and intercept do not match: their shapes are {coef.shape} and {intercept.shape}")
    if coef.shape[1] != data.n_features:
        raise ValueError(f"X has {data.n_features} features, but the model has {coef.shape[1]}")
    if data.on_gpu:
        xp: Any = devices.cuda().xp
        found: Array = data.source @ xp.asarray(coef, data.dtype).T + xp.asarray(intercept).astype(data.dtype)
        return found[:, 0] if len(intercept) == 1 else found
    scores: Array = _core.decide(
        data.rows, np.ascontiguousarray(coef, data.dtype), np.ascontiguousarray(intercept, np.float64), threads
    )
    return scores[:, 0] if len(intercept) == 1 else scores
