"""Data on which blocks are nothing like one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from curvature_cases import loss_of, trained
from symsgd import Result, losses, penalties, schedules

N = 2000
LOG, OLS = losses.LogLoss(), losses.SquaredError()


@dataclass(frozen=True)
class Hard:
    X: Any
    y: np.ndarray
    schedule: Any
    loss: Any = LOG
    shuffle: Any = True

    def trained(self, strategy: Any, n_threads: int, seed: int) -> Result:
        case = {"loss": self.loss, "schedule": self.schedule, "shuffle": self.shuffle, "seed": seed, "n_passes": 3}
        return trained(self.X, self.y, strategy, n_threads, penalty=penalties.L2(1e-5), **case)

    def mean_loss(self, results: list[Result]) -> float:
        return float(np.mean([loss_of(result, self.X, self.y, self.loss) for result in results]))


def labels(X: np.ndarray, rng: Any, sharpness: float = 4.0) -> np.ndarray:
    """Drawn by a logistic model."""
    z = X @ rng.standard_normal(X.shape[1])
    return (rng.random(len(X)) < 1 / (1 + np.exp(-sharpness * z / z.std()))).astype(int)


def heavy_tails() -> Hard:
    """Rows up to hundreds of times as long as most."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 20)) / np.sqrt(20) * np.minimum(rng.pareto(1.2, (N, 1)), 300)
    return Hard(X, labels(X, rng), schedules.Constant(0.1))


def rare_and_large() -> Hard:
    """Features of one row in 250, with values that decide it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 40)) / 6
    X[:, 20:] = np.where(rng.random((N, 20)) < 0.004, 8 * rng.standard_normal((N, 20)), 0.0)
    return Hard(sp.csr_matrix(X), labels(X, rng), schedules.Constant(0.1))


def duplicates() -> Hard:
    """Twenty rows, a hundred times each."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((N // 100, 10)) / 3, 100, axis=0)
    return Hard(X, labels(X, rng), schedules.Constant(0.2))


def sorted_by_label() -> Hard:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 10)) / 3
    y = labels(X, rng)
    order = np.argsort(y, kind="stable")
    return Hard(X[order], y[order], schedules.Constant(0.05), shuffle=False)


def one_large_feature() -> Hard:
    """A thousand times as large as the others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 10)) / 30
    X[:, 0] *= 1000
    return Hard(X, labels(X, rng), schedules.Constant(0.005))


def separable() -> Hard:
    """Steps of 20, far beyond what the curvature at the start allows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 10)) / 2
    return Hard(X, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int), schedules.Constant(20.0))


def overshooting_rows() -> Hard:
    """Least squares where step × |x|² is 1.5 for one row in 50, and 0.06 for the others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 10)) / np.sqrt(10)
    X[rng.random(N) < 0.02] *= 5
    return Hard(X, X @ rng.standard_normal(10) + 0.1 * rng.standard_normal(N), schedules.Constant(0.06), OLS)


def first_steps_of_ten() -> Hard:
    """scikit-learn's defaults, for a loss that at w = 0 has no curvature at all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 20)) / 2
    return Hard(X, labels(X, rng), schedules.Optimal(1e-4), losses.Hinge())


HARD: list[Callable[[], Hard]] = [
    heavy_tails,
    rare_and_large,
    duplicates,
    sorted_by_label,
    one_large_feature,
    separable,
    overshooting_rows,
    first_steps_of_ten,
]
