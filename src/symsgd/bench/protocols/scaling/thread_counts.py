"""The same training by every number of threads.

Beside it what the machine has to give, as many independent sequential loops side by side; Hogwild! on the same kernels;
and averaging, which never waits and gives up the sequential answer. On one thread "auto" and averaging *are* the
sequential loop, which is measured once a repeat and not once for every number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.protocols.scaling.runs import LOOPS, row, side_by_side, trained
from symsgd.bench.protocols.scores import distance, held_out, merging, seconds_of, share_alone
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task
from symsgd.results import Result

SYSTEMS = {"auto": "auto", "Hogwild!": "hogwild", "averaging": "averaging"}
WITHOUT_SET_UP = ("Hogwild!", LOOPS)


def measure(data: Dataset, plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
    """Seconds, and for models their score and their distance to the sequential one after as many passes."""
    alone = Task(data, alpha=plan.alpha, seed=around.seed)
    around.tell(f"{data.name}: the sequential run after {plan.short_passes} passes, to compare with")
    references = {plan.short_passes: trained(alone, "sequential", plan, plan.short_passes)}
    for repeat in range(plan.repeats):
        references[plan.passes] = sequential = trained(alone, "sequential", plan, plan.passes)
        yield _row(alone, "sequential", repeat, plan.passes, sequential, sequential, plan)
        for n_threads in plan.thread_counts:
            task = replace(alone, n_threads=n_threads)
            for system, strategy in SYSTEMS.items():
                if n_threads == 1 and system != "Hogwild!":
                    continue
                passes = passes_of(system, plan)
                result = trained(task, strategy, plan, passes)
                yield _row(task, system, repeat, passes, result, references[passes], plan)
            if n_threads > 1:
                seconds = side_by_side(task, plan, plan.short_passes)
                settings = _settings(task, plan.short_passes, plan)
                if isinstance(seconds, str):
                    yield row("threads", task, LOOPS, repeat, settings, reason=seconds)
                    continue
                measures = {"seconds": seconds, "pass_seconds": seconds / plan.short_passes}
                yield row("threads", task, LOOPS, repeat, settings, measures=measures)


def passes_of(system: str, plan: ScalingPlan) -> int:
    return plan.short_passes if system in WITHOUT_SET_UP else plan.passes


def _settings(task: Task, passes: int, plan: ScalingPlan) -> dict[str, float]:
    return {"passes": passes, "step_size": plan.step_size(task.data.name)}


def _row(
    task: Task, system: str, repeat: int, passes: int, result: Result | str, reference: Result | str, plan: ScalingPlan
) -> Row:
    settings = _settings(task, passes, plan)
    if isinstance(result, str):
        return row("threads", task, system, repeat, settings, reason=result)
    seconds = seconds_of(result)
    measures = {"seconds": seconds, "pass_seconds": seconds / passes} | merging(result)
    if system == "auto":
        measures["alone"] = share_alone(result)
    measures |= held_out(task.data, task.loss, result.decision(task.data.X_test))
    if not isinstance(reference, str):
        measures["distance"] = distance(result.coef, reference.coef)
        own = held_out(task.data, task.loss, reference.decision(task.data.X_test))
        measures["auc_difference"] = measures["auc"] - own["auc"]
    return row("threads", task, system, repeat, settings, measures=measures)
