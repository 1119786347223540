"""How good predictions are: AUC, log loss, accuracy, R², calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def of_classes(scores: Array, places: Array, probabilities: Array | None, weight: Array | None) -> dict[str, float]:
    """``scores`` are those of decision_function, ``places`` the numbers of the right classes."""
    from sklearn.metrics import log_loss, roc_auc_score

    binary = scores.ndim == 1
    chosen = (scores > 0).astype(int) if binary else scores.argmax(axis=1)
    found: dict[str, float] = {}
    several = len(np.unique(places)) > 1
    if binary and several:
        found["AUC"] = float(roc_auc_score(places, scores, sample_weight=weight))
    elif several and len(np.unique(places)) == scores.shape[1]:  # the mean over one-vs-rest problems
        ranked = scores if probabilities is None else probabilities
        each = [roc_auc_score(places == c, ranked[:, c], sample_weight=weight) for c in range(scores.shape[1])]
        found["AUC"] = float(np.mean(each))
    if probabilities is not None:
        classes = np.arange(2 if binary else scores.shape[1])
        found["log loss"] = float(log_loss(places, probabilities, labels=classes, sample_weight=weight))
    found["accuracy"] = float(np.average(chosen == places, weights=weight))
    return found


def of_numbers(predicted: Array, y: Array, weight: Array | None) -> dict[str, float]:
    """R², and the usual distances."""
    from sklearn.metrics import r2_score

    errors = predicted - y
    found = {"R²": float(r2_score(y, predicted, sample_weight=weight))} if len(y) > 1 else {}
    found["RMSE"] = float(np.sqrt(np.average(errors**2, weights=weight)))
    found["MAE"] = float(np.average(abs(errors), weights=weight))
    return found


def predictions(model: Any, X: Any) -> tuple[Array, Array | None]:
    """What a model is scored by: its scores or numbers, and its probabilities if it has some."""
    if not hasattr(model, "decision_function"):
        return model.predict(X), None
    return model.decision_function(X), model.predict_proba(X) if hasattr(model, "predict_proba") else None


def of_model(
    model: Any, scores: Array, probabilities: Array | None, targets: Array, weight: Array | None
) -> dict[str, float]:
    """For a classifier ``targets`` are numbers of classes."""
    if hasattr(model, "classes_"):
        return of_classes(scores, targets, probabilities, weight)
    return of_numbers(scores, targets, weight)


@dataclass(frozen=True)
class Bin:
    """Some rows of similar probability: what was predicted on the average, and how often it was so."""

    rows: int
    predicted: float
    observed: float


def calibration(probability: Array, happened: Array, weight: Array | None, bins: int = 10) -> list[Bin]:
    """Bins of equally many rows, from the least probable to the most; without those whose rows all weigh nothing."""
    order = np.argsort(probability, kind="stable")
    weight = np.ones(len(order)) if weight is None else weight
    parts = [part for part in np.array_split(order, bins) if weight[part].any()]
    return [
        Bin(
            len(part),
            float(np.average(probability[part], weights=weight[part])),
            float(np.average(happened[part], weights=weight[part])),
        )
        for part in parts
    ]
