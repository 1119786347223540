"""How good a model is on rows that it has not seen, how far it is from another, and how its threads have met."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from symsgd.bench.datasets import Dataset
from symsgd.bench.systems.base import Task
from symsgd.results import Result, decision


def score_name(data: Dataset) -> str:
    """What a model is judged by: ``auc`` (of several classes the mean of one against the rest), ``r2`` of numbers."""
    return "r2" if data.task == "regression" else "auc"


def held_out(data: Dataset, loss: str, predicted: Any) -> dict[str, float]:
    """The score of predictions for the test rows; for the logistic loss of two classes also the mean loss."""
    predicted, y = np.asarray(predicted, np.float64), np.asarray(data.y_test)
    if data.task == "regression":
        return {"r2": float(r2_score(y, predicted))}
    if data.task == "multiclass":
        each = [roc_auc_score(y == label, predicted[:, i]) for i, label in enumerate(np.unique(np.asarray(data.y)))]
        return {"auc": float(np.mean(each))}
    found = {"auc": float(roc_auc_score(y > 0, predicted))}
    if loss == "log_loss":
        found["log_loss"] = float(np.logaddexp(0.0, -np.where(y > 0, 1, -1) * predicted).mean())
    return found


def objective(task: Task, coef: Any, intercept: Any = 0.0) -> float:
    """Mean loss + (alpha/2)‖w‖² over the training rows; logistic or half the squared error."""
    p, w = np.asarray(decision(task.data.X, coef, intercept), np.float64), np.asarray(coef, np.float64).ravel()
    losses = np.logaddexp(0.0, -task.targets * p) if task.loss == "log_loss" else 0.5 * (p - task.targets) ** 2
    return float(losses.mean() + 0.5 * task.alpha * (w @ w))


def distance(coef: Any, other: Any) -> float:
    """‖w − w_other‖ / ‖w_other‖."""
    w, v = np.asarray(coef, np.float64).ravel(), np.asarray(other, np.float64).ravel()
    return float(np.linalg.norm(w - v) / max(float(np.linalg.norm(v)), np.finfo(float).tiny))


def seconds_of(result: Result) -> float:
    """Of all passes, with what was set up in the first."""
    return math.fsum(record.seconds for record in result.passes)


def merging(result: Result) -> dict[str, float]:
    """Rows a merge; of the curvature combiner also the share of rows that one thread has trained, its rank, its sweeps,
    merges that were undone and the mean error that it has measured."""
    passes = result.passes
    rows, merges = sum(record.rows for record in passes), sum(record.merges for record in passes)
    alone = sum(record.rows_alone for record in passes)
    errors = [record.error for record in passes if record.error is not None]
    found = {"block": (rows - alone) / merges} if merges else {}
    if errors or alone or any(record.rank for record in passes):
        found |= {
            "alone": alone / rows,
            "rank": float(passes[-1].rank),
            "sweeps": float(sum(record.sweeps for record in passes)),
            "caught": float(sum(record.caught for record in passes)),
        }
    return found | ({"error": float(np.mean(errors))} if errors else {})


def share_alone(result: Result) -> float:
    """Of the rows, those that one thread has trained: all where "auto" has chosen the sequential loop."""
    if result.strategy.startswith("sequential"):
        return 1.0
    return sum(record.rows_alone for record in result.passes) / sum(record.rows for record in result.passes)


def all_finite(measures: Mapping[str, float]) -> bool:
    return all(map(math.isfinite, measures.values()))
