"""Predictions and scores of Dask collections: lazy, by the workers that have the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.dask.judging import finished, tally
from symsgd.dask.rows import loaded
from symsgd.results import decision

Array = npt.NDArray[Any]

ACCEPTED = "a Dask array or dataframe, or rows in this process's memory"


def is_collection(X: Any) -> bool:
    return hasattr(X, "dask") and hasattr(X, "to_delayed")


def mapped(X: Any, function: Callable[[Any], Array], dtype: Any, width: int | None = None) -> Any:
    """``function`` of every block of rows: a Dask array of (rows,) or (rows, width), or a series of a frame's rows."""
    import dask.array as da

    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} dimension(s), shape {X.shape}; accepted is (rows, features)")
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        if width is None:
            return X.map_blocks(function, dtype=dtype, drop_axis=1, meta=np.zeros(0, dtype))
        return X.map_blocks(function, dtype=dtype, chunks=(X.chunks[0], (width,)), meta=np.zeros((0, width), dtype))
    parts = [
        da.from_delayed(part, (np.nan,) if width is None else (np.nan, width), dtype, meta=_empty(width, dtype))
        for part in (_delayed(function)(piece) for piece in X.to_delayed())
    ]
    return da.concatenate(parts)


def _delayed(function: Callable[..., Array]) -> Any:
    from dask.delayed import delayed

    return delayed(function, pure=True)


def _empty(width: int | None, dtype: Any) -> Array:
    return np.zeros(0 if width is None else (0, width), dtype)


class Predictor:
    """x·w + b of a block of rows, and what becomes of it; travels to the workers once."""

    def __init__(self, coef: Array, intercept: Array, then: Callable[[Array], Array] | None = None) -> None:
        self.coef, self.intercept, self.then = coef, intercept, then

    def __call__(self, X: Any) -> Array:
        rows = loaded(X)
        if rows.data.n_features != self.coef.shape[1]:
            raise ValueError(f"X has {rows.data.n_features} features, but the model has {self.coef.shape[1]}")
        scores = decision(rows.data, self.coef, self.intercept, n_threads=1)
        return scores if self.then is None else self.then(scores)

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        return normalize_token((type(self).__name__, self.coef, self.intercept, repr(self.then)))


def score(X: Any, y: Any, sample_weight: Any, predictor: Predictor, classes: Array | None) -> float:
    """Accuracy or R², computed by the workers; a few numbers of each partition come back."""
    import dask

    parts = list(X.to_delayed().ravel()) if hasattr(X, "chunks") else X.to_delayed()
    if hasattr(X, "chunks") and X.numblocks[1] > 1:
        parts = list(X.rechunk({1: -1}).to_delayed().ravel())
    columns = []
    for name, column in (("y", y), ("sample_weight", sample_weight)):
        if column is None:
            columns.append([None] * len(parts))
            continue
        if not is_collection(column):
            raise TypeError(f"{name} is a {type(column).__name__}; beside a Dask collection it must be one as well")
        if hasattr(X, "chunks") and hasattr(column, "chunks") and column.chunks[0] != X.chunks[0]:
            column = column.rechunk((X.chunks[0],))
        own = column.to_delayed()
        own = list(own.ravel()) if hasattr(own, "ravel") else own
        if len(own) != len(parts):
            raise ValueError(f"{name} has {len(own)} partitions, and X has {len(parts)}; they must be cut alike")
        columns.append(own)
    one = _delayed(_tallied)
    model = dask.delayed(predictor)
    sums = dask.compute(*(one(*each, model, classes) for each in zip(parts, *columns, strict=True)))
    return finished(np.sum(sums, axis=0), classes)


def _tallied(X: Any, y: Any, weight: Any, predictor: Predictor, classes: Array | None) -> Array:
    return tally(predictor(X), np.asarray(y), weight, classes)
