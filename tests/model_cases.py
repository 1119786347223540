"""Fitted models of every kind, small enough to be made anew in every test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import symsgd
from symsgd.combiners import Curvature
from symsgd.strategies import MapReduce

N, F = 61, 9


def rows(sparse: bool = False, dtype: Any = np.float64, seed: int = 0) -> Any:
    X = np.random.default_rng(seed).standard_normal((N, F)).astype(dtype)
    X[np.abs(X) < 0.5] = 0
    return sp.csr_matrix(X) if sparse else X


def labels(*names: Any) -> Any:
    picked = np.random.default_rng(1).integers(0, len(names), N)
    picked[: len(names)] = np.arange(len(names))
    return np.array(names)[picked]


def numbers() -> Any:
    return np.random.default_rng(2).standard_normal(N)


def fitted(kind: type[Any], y: Any, X: Any = None, **parameters: Any) -> Any:
    settings = {"max_iter": 3, "tol": None, "random_state": 5} | parameters
    return kind(**settings).fit(rows() if X is None else X, y)


MODELS: dict[str, Callable[[], Any]] = {
    "two classes": lambda: fitted(symsgd.SGDClassifier, labels(-1, 1), loss="log_loss"),
    "text labels": lambda: fitted(symsgd.SGDClassifier, labels("no", "yes", "perhaps"), loss="modified_huber"),
    "float32, sparse": lambda: fitted(symsgd.SGDClassifier, labels(0, 1, 2), rows(True, np.float32), penalty="l1"),
    "averaged": lambda: fitted(symsgd.SGDClassifier, labels(0, 1), average=True),
    "averaged classes": lambda: fitted(symsgd.SGDClassifier, labels(0, 1, 2), average=20),
    "class weights": lambda: fitted(symsgd.SGDClassifier, labels(3, 7), class_weight={3: 0.25, 7: np.float32(0.1)}),
    "a strategy": lambda: fitted(
        symsgd.SGDClassifier, labels(True, False), strategy=MapReduce(Curvature(rank=4), 16), n_jobs=2
    ),
    "a random state": lambda: fitted(
        symsgd.SGDClassifier, labels(0, 1), random_state=np.random.RandomState(3), callbacks=[lambda record: None]
    ),
    "sparsified": lambda: fitted(symsgd.SGDClassifier, labels(0, 1, 2), penalty="l1", alpha=0.1).sparsify(),
    "perceptron": lambda: fitted(symsgd.Perceptron, labels(0, 1, 2)),
    "regressor": lambda: fitted(symsgd.SGDRegressor, numbers()),
    "averaged regressor": lambda: fitted(symsgd.SGDRegressor, numbers(), average=True, loss="huber", epsilon=0.3),
    "sparsified regressor": lambda: fitted(symsgd.SGDRegressor, numbers(), penalty="l1", alpha=0.1).sparsify(),
    "one class": lambda: fitted(symsgd.SGDOneClassSVM, None, nu=0.2),
    "averaged one class": lambda: fitted(symsgd.SGDOneClassSVM, None, average=True),
}

RESULTS: dict[str, Callable[[], symsgd.Result]] = {
    "two classes": lambda: symsgd.train(rows(), labels("a", "b"), n_passes=2),
    "averaged": lambda: symsgd.train(rows(), labels(0, 1, 2), n_passes=2, average=True),
    "numbers": lambda: symsgd.train(rows(dtype=np.float32), numbers(), loss="squared_error", n_passes=2, tol=1e-9),
    "one class": lambda: symsgd.train(rows(True), loss="one_class", n_passes=1),
}
