"""What the tests of symsgd.dask share: rows, their partitions, the sequential run in the order of a journal."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import symsgd
from symsgd import penalties, schedules
from symsgd.dask.lanes import Journal
from symsgd.data import StoreWriter
from symsgd.data.dataset import Part, Schema, SparseColumns
from symsgd.results import Result

CHOICES: dict[str, Any] = {
    "loss": "log_loss",
    "schedule": schedules.Constant(0.02),
    "penalty": penalties.L2(1e-5),
    "n_passes": 2,
    "seed": 3,
}


def sparse_rows(rows: int = 6_000, features: int = 400, entries: int = 12, seed: int = 0) -> tuple[Any, Any]:
    """Few features are common; labels from a planted model."""
    rng = np.random.default_rng(seed)
    popular = np.minimum(4 * rng.pareto(1.0, (rows, entries)), features - 1).astype(np.int32)
    values = np.full(popular.size, entries**-0.5, np.float32)
    X = sp.csr_matrix((values, popular.ravel(), np.arange(rows + 1) * entries), shape=(rows, features))
    X.sum_duplicates()
    y = np.where(X @ rng.standard_normal(features) + 0.3 * rng.standard_normal(rows) > 0, 1, -1)
    return X, y


def dense_rows(rows: int = 4_000, features: int = 12, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((rows, features)) / np.sqrt(features)).astype(np.float32)
    return X, np.where(X @ rng.standard_normal(features) + 0.1 * rng.standard_normal(rows) > 0, 1, -1)


def cut(count: int, parts: int) -> list[tuple[int, int]]:
    ends = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(ends))


def pieces(X: Any, y: Any, parts: int = 4) -> list[tuple[Any, Any]]:
    return [(X[begin:end], y[begin:end]) for begin, end in cut(X.shape[0], parts)]


def in_order(X: Any, y: Any, journal: Journal, choices: dict[str, Any], sample_weight: Any = None) -> Result:
    """Sequential SGD over the rows in the order that was trained."""
    result: Result | None = None
    for number in range(len(journal.passes)):
        order = journal.order(number)
        assert np.array_equal(np.sort(order), np.arange(X.shape[0]))
        result = symsgd.train(
            X[order],
            y[order],
            **{**choices, "n_passes": 1},
            sample_weight=None if sample_weight is None else sample_weight[order],
            shuffle=False,
            strategy="sequential",
            init=result,
        )
    assert result is not None
    return result


def off(one: Any, other: Any) -> float:
    """‖w − w′‖ / ‖w′‖, intercepts included."""
    first, second = (np.column_stack([r.coef, r.intercept]) for r in (one, other))
    return float(np.linalg.norm(first - second) / np.linalg.norm(second))


def write_store(path: Path, X: Any, y: Any, weight: Any = None) -> Path:
    X = sp.csr_matrix(X)
    with StoreWriter(path) as writer:
        writer.add(Part(SparseColumns(X.indptr, X.indices, X.data), np.asarray(y, float), weight))
        writer.commit(Schema("test", X.shape[1], options={"base": 0}))
    return path
