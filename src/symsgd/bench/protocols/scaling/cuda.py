"""Our own GPU backend beside the CPU: the same training on every number of threads and on the GPU, in turns.

A pass is one after the first. What comes before the end of the first is shown apart: checking and copying the rows,
compiling kernels, products and directions that are kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from symsgd import devices
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.protocols.scaling.runs import row, trained
from symsgd.bench.protocols.scores import distance, held_out, merging
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task
from symsgd.callbacks import Callback, PassRecord
from symsgd.results import Result


@dataclass(frozen=True)
class Contender:
    """A strategy on a device; on one thread of the CPU "auto" *is* the sequential loop."""

    system: str
    strategy: str
    device: str
    threads: int


def contenders(plan: ScalingPlan) -> list[Contender]:
    """The sequential loop comes first: the others are compared with it. Where there is no GPU, nobody is beside it."""
    most = max(plan.thread_counts)
    on_cpu = [
        Contender("sequential", "sequential", "cpu", 1),
        *(Contender("auto", "auto", "cpu", count) for count in plan.thread_counts if count > 1),
    ]
    on_gpu = [
        Contender("symsgd, exact, CUDA", "sequential", "cuda", most),
        Contender("symsgd, CUDA", "auto", "cuda", most),
    ]
    return on_gpu if devices.why_not_cuda() else on_cpu + on_gpu


def measure(alone: Task, plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
    """Seconds, and of each model its score and its distance to the sequential one in the same order."""
    sequential: Result | str = "nothing was trained"
    for repeat in range(plan.repeats):
        for own in contenders(plan):
            around.tell(f"{alone.data.name}: {own.system}, {own.threads} threads")
            task, clock = replace(alone, n_threads=own.threads), _Clock()
            result = _trained(task, own, plan, clock)
            if own.system == "sequential":
                sequential = result
            settings = {
                "passes": plan.passes, "step_size": plan.step_size(task.data.name), "device": own.device,
            }  # fmt: skip
            if isinstance(result, str):
                yield row("GPU", task, own.system, repeat, settings, reason=result)
                continue
            measures = _timed(result, clock) | _merging(result, own) | _judged(task, result, sequential)
            yield row("GPU", task, own.system, repeat, settings, measures=measures)


class _Clock(Callback):
    """Seconds until the first pass has ended."""

    def __init__(self) -> None:
        self.began, self.first = time.perf_counter(), math.nan

    def on_pass(self, record: PassRecord) -> None:
        if record.number == 1:
            self.first = time.perf_counter() - self.began


def _trained(task: Task, own: Contender, plan: ScalingPlan, clock: Callback) -> Result | str:
    """What a GPU refuses, or has no room for, has that as its reason."""
    if own.device == "cpu":
        return trained(task, own.strategy, plan, plan.passes, clock)
    reason = devices.why_not_cuda()
    if reason:
        return reason
    try:
        return trained(task, own.strategy, plan, plan.passes, clock, own.device)
    except (MemoryError, RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]


def _timed(result: Result, clock: _Clock) -> dict[str, float]:
    later = [record.seconds for record in result.passes[1:]]
    return {
        "seconds": clock.first + math.fsum(later),
        "first_seconds": clock.first,
        "pass_seconds": median(later) if later else result.passes[0].seconds,
    }


def _merging(result: Result, own: Contender) -> dict[str, float]:
    """Also rows a round of the GPU, which has as many blocks a round as the machine has."""
    found = merging(result)
    if own.device == "cuda" and "block" in found:
        found["round"] = found["block"] * devices.cuda().blocks
    return found


def _judged(task: Task, result: Result, sequential: Result | str) -> dict[str, float]:
    measures = held_out(task.data, task.loss, result.decision(task.data.X_test))
    if not isinstance(sequential, str):
        reference = held_out(task.data, task.loss, sequential.decision(task.data.X_test))
        measures["auc_difference"] = measures["auc"] - reference["auc"]
        measures["distance"] = distance(result.coef, sequential.coef)
    return measures
