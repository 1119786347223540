"""The originals, by the names of `symsgd.data.PUBLIC_SETS`: where the cache has them, or the network."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from symsgd.bench.datasets.base import Dataset
from symsgd.data import PUBLIC_SETS, read_public
from symsgd.errors import DataError

TEST_SHARE = 0.2
DENSE_FROM = 0.5  # of all numbers stored: rows that are dense in fact


def load(name: str) -> Dataset | None:
    """The set, every fifth row held out where nobody has split it; None if the name is not one of a public set."""
    public = PUBLIC_SETS.get(name)
    if public is None:
        return None
    try:
        training = read_public(name)
        held_out = None if public.test is None else read_public(name, test=True)
    except (OSError, ImportError, DataError) as error:
        return Dataset(name, reason=str(error))
    X, y = training.X, np.asarray(training.y)
    if held_out is not None:
        X_test, y_test = held_out.X, np.asarray(held_out.y)
    else:
        out = np.random.RandomState(0).rand(len(y)) < TEST_SHARE
        X, y, X_test, y_test = X[~out], y[~out], X[out], y[out]
    if public.task == "binary":  # some say 0 and 1, some 1 and 2
        high = y.max()
        y, y_test = np.where(y == high, 1, -1), np.where(y_test == high, 1, -1)
    if sp.issparse(X) and X.nnz > DENSE_FROM * X.shape[0] * X.shape[1]:
        X, X_test = X.toarray(), X_test.toarray()
    return Dataset(name, X, y, X_test, y_test, public.task)
