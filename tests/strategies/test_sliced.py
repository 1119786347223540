"""Sliced: threads share the features of dense rows, and the model is the sequential one to rounding
(test_by_features.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from strategy_cases import targets
from symsgd import SGDClassifier, losses, train
from symsgd.strategies import MapReduce, Sequential, Sliced


def rows(count: int, features: int) -> Any:
    rng = np.random.default_rng(0)
    return (rng.standard_normal((count, features)) / np.sqrt(features)).astype("f4")


def test_auto_takes_it_for_long_dense_rows() -> None:
    X = rows(3_000, 2_000)
    y = targets(X, losses.LogLoss())
    case = {"n_threads": 2, "n_passes": 10}
    found = train(X, y, **case)
    assert found.strategy.startswith("sliced, which makes the sequential run's steps: 2 threads share the 2,000")
    short = np.ascontiguousarray(np.tile(X[:, :100], (20, 1)))
    assert "mr-symsgd" in train(short, np.tile(y, 20), **case).strategy
    assert "mr-symsgd" in train(X, y, **case, average=True).strategy
    assert "mr-symsgd" in train(X, y, **case, penalty="l1").strategy
    twice = np.tile(X, (5, 1))
    assert "sliced" in train(twice, np.tile(y, 5), n_threads=4, n_passes=2).strategy
    assert "sliced" in SGDClassifier(n_jobs=2, max_iter=10, tol=None).fit(X, y).result_.strategy


def test_sparse_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="strategy='sliced' cuts rows by their features, and X is sparse"):
        train(sp.csr_matrix(rows(20, 5)), np.arange(20) % 2, strategy="sliced")


@pytest.mark.parametrize("block_size", [0, 4, 17, 128, 16.0, None, "16"])
def test_block_sizes(block_size: Any) -> None:
    with pytest.raises(ValueError, match=r"block_size=.* is not accepted; it must be 'auto', 8, 16, 24, 32, 48 or 64"):
        Sliced(block_size)
    assert Sliced() != Sliced(16)
    assert Sequential() != Sliced()
    assert MapReduce() != Sliced()
