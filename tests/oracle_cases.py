"""Small problems for the oracle's blocks and rounds, and the combiners by their names alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from symsgd import losses, penalties, reference, schedules

MARGIN_LOSSES = [
    losses.LogLoss(),
    losses.Hinge(),
    losses.Perceptron(),
    losses.SquaredHinge(),
    losses.ModifiedHuber(),
    losses.OneClass(nu=0.3),
]
REGRESSION_LOSSES = [
    losses.SquaredError(),
    losses.Huber(epsilon=0.8),
    losses.EpsilonInsensitive(epsilon=0.2),
    losses.SquaredEpsilonInsensitive(epsilon=0.2),
]
LOSSES = [*MARGIN_LOSSES, *REGRESSION_LOSSES]
PENALTIES = [
    penalties.NoPenalty(),
    penalties.L2(0.1),
    penalties.L1(0.05),
    penalties.ElasticNet(0.1, l1_ratio=0.4),
    penalties.Lasso(0.02),
]
PASSIVE_AGGRESSIVE = [schedules.PassiveAggressive1(0.3), schedules.PassiveAggressive2(0.5)]


@dataclass(frozen=True)
class Exact:
    soft_curvature: bool = True
    name: ClassVar[str] = "exact"


@dataclass(frozen=True)
class Projected:
    k: int = 15
    soft_curvature: bool = True
    name: ClassVar[str] = "projected"


@dataclass(frozen=True)
class Plain:
    """Sum, Mean and AdaGradMean."""

    name: str
    step_size: float = 0.5


def name(case: Any) -> str:
    return str(getattr(case, "name", case))


def rows(n: int, f: int, *, sparse: bool = False, scale: float = 0.7, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, f))
    return np.where(rng.random((n, f)) < 0.5, X, 0.0) if sparse else X


def targets(X: np.ndarray, loss: Any, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = X @ rng.standard_normal(X.shape[1]) + 0.3 * rng.standard_normal(len(X))
    return np.where(y > 0.0, 1.0, -1.0) if loss.margin else y


def error(run: reference.SequentialRun, other: reference.SequentialRun) -> float:
    """The largest difference between two models, averages included, relative to the largest number of the second."""
    one, two = (np.concatenate([r.coef, r.average_coef, [r.intercept, r.average_intercept]]) for r in (run, other))
    return float(np.abs(one - two).max() / np.abs(two).max())
