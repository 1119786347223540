"""What a user with a GPU would take instead: mini-batch SGD in PyTorch, at our step sizes and for as many passes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.protocols.scaling.runs import row, trained
from symsgd.bench.protocols.scores import all_finite, distance, held_out
from symsgd.bench.records import Row
from symsgd.bench.systems import pytorch
from symsgd.bench.systems.base import Task
from symsgd.results import Result, decision


def measure(task: Task, plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
    """A row a batch size. One run each: it is warmed up within, and nobody else has the device."""
    data, step_size = task.data, plan.step_size(task.data.name)
    reason = pytorch.reason_against()
    if reason:
        found = [pytorch.Trained(pytorch.NOTHING, reason=reason) for _ in pytorch.BATCHES]
    else:
        around.tell(f"{data.name}: PyTorch in another process")
        positive = np.asarray(data.y) > 0
        found = pytorch.train_apart(data.X, positive, step_size, plan.alpha, pytorch.BATCHES, plan.passes)
    sequential = trained(task, "sequential", plan, plan.passes) if any(not own.reason for own in found) else ""
    for batch_size, own in zip(pytorch.BATCHES, found, strict=True):
        settings = {"passes": plan.passes, "step_size": step_size, "batch_size": batch_size}
        measures = {} if own.reason else _judged(task, own, plan.passes, sequential)
        reason = own.reason or ("" if measures else "diverges")
        yield row("GPU", task, f"GPU, batches of {batch_size:,}", 0, settings, measures=measures, reason=reason)


def _judged(task: Task, own: pytorch.Trained, passes: int, sequential: Result | str) -> dict[str, float]:
    """Nothing if it has diverged."""
    if not np.isfinite(own.coef).all():
        return {}
    measures = {"seconds": own.seconds, "pass_seconds": own.seconds / passes}
    measures |= held_out(task.data, task.loss, decision(task.data.X_test, own.coef, own.intercept))
    if not isinstance(sequential, str):
        measures["distance"] = distance(own.coef, sequential.coef)
        reference = held_out(task.data, task.loss, sequential.decision(task.data.X_test))
        measures["auc_difference"] = measures["auc"] - reference["auc"]
    return measures if all_finite(measures) else {}
