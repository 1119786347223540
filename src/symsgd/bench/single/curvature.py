"""How near the curvature combiner is to the sequential run, on every data set: ``MapReduce(Curvature(), "auto")``.

Three settings each: the constant step size that is best for the sequential run after ten passes, twice that, and every
parameter at scikit-learn's default. A run *holds* if its score (AUC; of several classes the mean of one against the
rest; R² of regressions) is that of the sequential run in the same order to 1e-4 (R²: 1e-3), or to a quarter of the
standard deviation of the sequential score over ten seeds where that is larger, and its log loss to 0.5 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import r2_score, roc_auc_score

import symsgd
from symsgd import SGDClassifier, SGDRegressor
from symsgd.bench.datasets import TWIN_SCALES, Dataset, load, names_in
from symsgd.combiners import Curvature
from symsgd.errors import DivergenceError
from symsgd.penalties import L2
from symsgd.schedules import Constant
from symsgd.strategies import MapReduce, Sequential, Strategy
from symsgd.training import Result

STEP_SIZES = {
    "log_loss": (0.03, 0.1, 0.3, 1.0, 3.0),
    "hinge": (0.003, 0.01, 0.03, 0.1, 0.3),
    "squared_error": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
}
PASSES, SEEDS, THREADS = 10, 10, 16
ALPHA = 1e-6
TWIN_NAMES = tuple(f"{original} twin" for original in TWIN_SCALES)

Fit = Callable[[Strategy, int], Result]


@dataclass(frozen=True)
class Score:
    """AUC or R², and for the logistic loss the mean loss of the test rows."""

    value: float
    log_loss: float | None


def score(data: Dataset, loss: str, result: Result) -> Score:
    scores, y = result.decision(data.X_test), np.asarray(data.y_test)
    if data.task == "regression":
        return Score(float(r2_score(y, scores)), None)
    if data.task == "multiclass":
        each = [roc_auc_score(y == c, scores[:, i]) for i, c in enumerate(np.unique(y))]
        return Score(float(np.mean(each)), None)
    mean = float(np.logaddexp(0.0, -np.where(y > 0, 1, -1) * scores).mean()) if loss == "log_loss" else None
    return Score(float(roc_auc_score(y > 0, scores)), mean)


def constant(data: Dataset, loss: str, step_size: float) -> Fit:
    """Ten passes with this step size."""
    classes = None if data.task == "regression" else np.unique(data.y)

    def fit(strategy: Strategy, seed: int) -> Result:
        return symsgd.train(
            data.X, data.y, loss=loss, classes=classes, penalty=L2(ALPHA), schedule=Constant(step_size),
            strategy=strategy, n_threads=THREADS, n_passes=PASSES, seed=seed,
        )  # fmt: skip

    return fit


def defaults(data: Dataset, loss: str) -> Fit:
    """The estimators as they come."""

    def fit(strategy: Strategy, seed: int) -> Result:
        options: dict[str, Any] = {"strategy": strategy, "n_jobs": THREADS, "random_state": seed}
        model = SGDRegressor(**options) if data.task == "regression" else SGDClassifier(loss=loss, **options)
        result: Result = model.fit(data.X, data.y).result_
        return result

    return fit


def best_step_size(data: Dataset, loss: str) -> float | None:
    """Of the sequential run; ``None`` if all diverge."""
    found: list[tuple[float, float]] = []
    for step_size in STEP_SIZES[loss]:
        try:
            found.append((score(data, loss, constant(data, loss, step_size)(Sequential(), 0)).value, step_size))
        except DivergenceError:
            continue
    return max(found)[1] if found else None


def cases_of(data: Dataset, loss: str) -> dict[str, Fit]:
    """The settings of a loss by their names; none where it is not for these targets."""
    if data.task == "regression" and loss != "squared_error":
        return {}
    cases: dict[str, Fit] = {}
    step_size = best_step_size(data, loss)
    if step_size is not None:
        cases |= {f"{size:g}": constant(data, loss, size) for size in (step_size, 2 * step_size)}
    if data.task == "regression" or loss != "squared_error":
        cases["default"] = defaults(data, loss)
    return cases


def compare(data: Dataset, loss: str, setting: str, fit: Fit, combiner: Curvature, seeds: int) -> list[str]:
    """A row of the table."""
    try:
        sequential = fit(Sequential(), 0)
        own = score(data, loss, sequential)
        others = [own.value, *(score(data, loss, fit(Sequential(), seed)).value for seed in range(1, seeds))]
    except DivergenceError:
        return [data.name, loss, setting, "diverges"]
    tolerance = max(1e-3 if data.task == "regression" else 1e-4, float(np.std(others)) / 4)
    row = [data.name, loss, setting, f"{own.value:.5f}", f"{tolerance:.5f}"]
    try:
        result = fit(MapReduce(combiner, "auto"), 0)
    except DivergenceError:
        return [*row, "diverges ✗"]
    other = score(data, loss, result)
    difference = other.value - own.value
    ratio = None if own.log_loss is None or other.log_loss is None else other.log_loss / own.log_loss - 1
    holds = abs(difference) <= tolerance and (ratio is None or abs(ratio) <= 0.005)
    distance = np.linalg.norm(result.coef - sequential.coef) / np.linalg.norm(sequential.coef)
    passes, rows = result.passes, sum(record.rows for record in result.passes)
    merges = sum(record.merges for record in passes)
    alone = sum(record.rows_alone for record in passes)
    errors = [record.error for record in passes if record.error is not None]
    return [
        *row,
        f"{difference:+.5f} {'✓' if holds else '✗'}",
        "" if ratio is None else f"{ratio:+.2%}",
        f"{distance:.3f}",
        f"{len(passes)}" if len(passes) == len(sequential.passes) else f"{len(passes)} ({len(sequential.passes)})",
        f"{(rows - alone) / merges:.0f}" if merges else "",
        f"{passes[-1].rank}",
        f"{sum(record.sweeps for record in passes)}",
        f"{np.mean(errors):.3f}" if errors else "",
        f"{alone / rows:.0%}",
    ]


COLUMNS = (
    "set", "loss", "step size", "sequential", "tolerance", "difference", "log loss", "distance", "passes", "block",
    "rank", "sweeps", "error", "alone",
)  # fmt: skip


def run(
    console: Console,
    folder: Path | None,
    names: Sequence[str] | None = None,
    losses: Sequence[str] = tuple(STEP_SIZES),
    seeds: int = SEEDS,
    tolerance: float | None = None,
) -> None:
    combiner = Curvature() if tolerance is None else Curvature(tolerance=tolerance)
    console.print(f"{combiner}, blocks as large as their error allows, {THREADS} threads; {PASSES} passes or defaults")
    table = Table(*COLUMNS)
    for name in names or (*TWIN_NAMES, *names_in(folder)):
        data = load(name, folder)
        if data.reason:
            console.print(f"{name}: skipped: {data.reason}")
            continue
        for loss in losses:
            for setting, fit in cases_of(data, loss).items():
                row = compare(data, loss, setting, fit, combiner, seeds)
                table.add_row(*row)
                console.print(" | ".join(row), style="dim")
    console.print(table)
