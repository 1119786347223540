"""Loss, penalty, schedule and targets in the core's words; pairs that make no sense are refused here."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from symsgd import losses
from symsgd._choices import check_count
from symsgd.inputs import Array, Data, check_classes, check_labels, check_real_targets, check_weights
from symsgd.losses import Loss
from symsgd.penalties import L1, L2, ElasticNet, Lasso, Penalty
from symsgd.schedules import Adaptive, Schedule


@dataclass(frozen=True)
class Rule:
    """Loss, penalty and schedule in the core's words; pairs that make no sense are refused here."""

    loss: Loss
    penalty: Penalty
    schedule: Schedule
    average_from: int

    @staticmethod
    def check(loss: Loss, penalty: Penalty, schedule: Schedule, average: bool | int) -> Rule:
        if schedule.passive_aggressive and loss.name not in ("hinge", "epsilon_insensitive"):
            raise ValueError(
                f"schedule={schedule.name!r} takes its step from the margin that is missing, so it works with the "
                f"losses 'hinge' and 'epsilon_insensitive' only, not with {loss.name!r}"
            )
        if isinstance(average, bool):
            average_from = int(average)
        else:
            check_count("average", average)
            average_from = int(average)
        if average_from and isinstance(penalty, Lasso):
            raise ValueError(
                "average does not work with penalty='lasso': weights that a row does not have are shrunk later, so the "
                "iterates in between are never formed; use penalty='l1'"
            )
        return Rule(loss, penalty, schedule, average_from)

    def native(self) -> dict[str, Any]:
        one_class = isinstance(self.loss, losses.OneClass)
        return {
            "loss": "hinge" if one_class else self.loss.name,
            "loss_parameter": float(getattr(self.loss, "epsilon", 0.0)),
            "one_class": one_class,
            "intercept_pull": float(getattr(self.loss, "nu", 0.0)),
            **self._native_penalty(),
            **self._native_schedule(),
            "average_from": float(self.average_from),
        }

    def _native_penalty(self) -> dict[str, Any]:
        match self.penalty:
            case L2(alpha):
                return {"penalty": "decay", "l2": float(alpha), "l1": 0.0}
            case L1(alpha):
                return {"penalty": "truncate", "l2": 0.0, "l1": float(alpha)}
            case ElasticNet(alpha, l1_ratio):
                return {"penalty": "truncate", "l2": float(alpha * (1 - l1_ratio)), "l1": float(alpha * l1_ratio)}
            case Lasso(alpha):
                return {"penalty": "halves", "l2": 0.0, "l1": float(alpha)}
            case _:
                return {"penalty": "none", "l2": 0.0, "l1": 0.0}

    def _native_schedule(self) -> dict[str, Any]:
        schedule = self.schedule
        return {
            "schedule": "constant" if isinstance(schedule, Adaptive) else schedule.name,
            "step_size": float(getattr(schedule, "step_size", getattr(schedule, "aggressiveness", 0.0))),
            "power": float(getattr(schedule, "power", 0.0)),
            "schedule_alpha": float(getattr(schedule, "alpha", 0.0)),
            "schedule_first": float(getattr(schedule, "first", 1.0)),
            "schedule_steps": float(getattr(schedule, "n_steps", None) or 1.0),
        }


@dataclass(frozen=True)
class Problem:
    """The targets in the core's words: one model for numbers and two classes, one a class for more."""

    target: str
    labels: Array | None
    positive: float
    classes: Array | None
    positive_weight: list[float]
    negative_weight: list[float]
    sample_weight: Array | None

    @property
    def n_models(self) -> int:
        return len(self.positive_weight)

    @staticmethod
    def check(data: Data, y: Any, loss: Loss, classes: Any, class_weight: Any, sample_weight: Any) -> Problem:
        weights = check_weights(sample_weight, data.n_rows, data.dtype)
        if isinstance(loss, losses.OneClass):
            return Problem("real", None, 1.0, None, [1.0], [1.0], weights)
        if y is None:
            raise ValueError(f"y is missing; loss={loss.name!r} needs one target a row")
        if classes is None and not loss.margin:
            return Problem("real", check_real_targets(y, data.n_rows), 1.0, None, [1.0], [1.0], weights)
        known = check_classes(classes, y, data.n_rows)
        if classes is None and len(known) > 2 and known.dtype.kind == "f" and (known != np.round(known)).any():
            number = known[known != np.round(known)][0]
            raise ValueError(
                f"y contains {number:g}, which is a number, not a label; loss={loss.name!r} predicts classes "
                "(loss='squared_error' predicts numbers; with classes=... such values are labels)"
            )
        labels = check_labels(y, data.n_rows, known)
        factors = check_class_weight(class_weight, len(known))
        if len(known) == 2:
            return Problem(
                "binary", labels.values, labels.positive, known, [float(factors[1])], [float(factors[0])], weights
            )
        return Problem("classes", labels.values, 1.0, known, [float(f) for f in factors], [1.0] * len(known), weights)

    def native(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "labels": self.labels,
            "positive": self.positive,
            "sample_weight": self.sample_weight,
            "positive_weight": self.positive_weight,
            "negative_weight": self.negative_weight,
        }


def check_class_weight(class_weight: Any, n_classes: int) -> Array:
    """One weight a class; ones where there are none."""
    if class_weight is None:
        return np.ones(n_classes)
    with suppress(TypeError, ValueError):
        factors: Array = np.asarray(class_weight, np.float64)
        if factors.shape == (n_classes,) and np.isfinite(factors).all() and (factors >= 0).all():
            return factors
    raise ValueError(f"class_weight={class_weight!r} is not accepted; it must be {n_classes} finite numbers >= 0")
