"""Objective, held-out loss and score after each pass, against passes and against seconds.

The problem is mean loss + (alpha/2)‖w‖² without intercept, so that Newton's method says how low the objective can be.
All run at the constant step size at which the sequential objective is least after as many passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from symsgd.bench.newton import Objective, least
from symsgd.bench.protocols.base import Plan, Protocol, Size, Surroundings
from symsgd.bench.protocols.scores import all_finite, held_out, objective
from symsgd.bench.protocols.step_sizes import STEP_SIZES, best_step_size, by_objective
from symsgd.bench.protocols.traces import Moment, ScikitLearn, ours
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task
from symsgd.results import decision
from symsgd.strategies import Strategy
from symsgd.threads import available_cores

SYSTEMS: Mapping[str, str | Strategy] = {
    "sequential": "sequential",
    "auto": "auto",
    "Hogwild!": "hogwild",
    "MR-SymSGD": "mr-symsgd",
    "Async-SymSGD": "async-symsgd",
    "averaging": "averaging",
}
ON_ONE_THREAD = ("sequential", ScikitLearn.name)
NEWTON = "Newton's method"


@dataclass(frozen=True)
class ConvergencePlan(Plan):
    """``optimum_share``: Newton's method ends when the objective has this share of itself left to fall; 0 leaves it
    out. ``scikit_learn_entries``: the most stored numbers at which scikit-learn is still quick."""

    repeats: int = 3
    losses: tuple[str, ...] = ("log_loss", "squared_error")
    passes: int = 20
    alpha: float = 1e-5
    optimum_share: float = 1e-4
    scikit_learn_entries: int = 100_000_000
    step_sizes: Mapping[str, tuple[float, ...]] | None = None

    @property
    def thread_counts(self) -> tuple[int, ...]:
        return self.threads or (available_cores(),)


class Convergence(Protocol):
    """How quickly each system comes how near to the best objective."""

    name: ClassVar[str] = "convergence"
    summary: ClassVar[str] = "Loss and AUC against passes and seconds"
    plans: ClassVar[Mapping[Size, ConvergencePlan]] = {
        "full": ConvergencePlan(
            sets=("rcv1 twin", "url twin", "criteo twin", "webspam twin", "epsilon twin", "adclick twin"),
            scales={"rcv1": 1.0, "url": 0.2, "criteo": 1.0, "webspam": 0.05, "epsilon": 0.1, "adclick": 0.1},
        ),
        "reduced": ConvergencePlan(
            sets=("rcv1 twin", "criteo twin", "epsilon twin", "url twin"),
            scales={"rcv1": 0.2, "criteo": 0.1, "epsilon": 0.02, "url": 0.04},
            passes=15, alpha=1e-4,
        ),
        "quick": ConvergencePlan(sets=("rcv1 twin",), scales={"rcv1": 0.1}, repeats=1, passes=10, alpha=1e-4),
        "tiny": ConvergencePlan(
            sets=("rcv1 twin",), scales={"rcv1": 0.002}, repeats=1, passes=3, alpha=1e-3,
            step_sizes={"log_loss": (0.3, 1.0), "squared_error": (0.01,)},
        ),
    }  # fmt: skip

    def measure(self, plan: ConvergencePlan, around: Surroundings) -> Iterator[Row]:
        for data in self.loaded(plan, around, "passes"):
            if isinstance(data, Row):
                yield data
                continue
            if data.task == "multiclass":
                yield Row(
                    self.name, "passes", data.name, "", reason="one model of two classes, or of numbers, is followed"
                )
                continue
            for loss in plan.losses if data.task != "regression" else ("squared_error",):
                task = Task(data, loss, plan.alpha, fit_intercept=False, seed=around.seed)
                yield from self._followed(task, plan, around)

    def _followed(self, task: Task, plan: ConvergencePlan, around: Surroundings) -> Iterator[Row]:
        where = f"{task.data.name}, {task.loss}"
        if plan.optimum_share:
            around.tell(f"{where}: the least objective")
            best = least(Objective(task.data.X, task.targets, task.alpha, task.loss), plan.optimum_share)
            measures = {"objective": best.value, "decrement": best.decrement}
            yield Row("convergence", "optimum", task.data.name, NEWTON, loss=task.loss, measures=measures)
        around.tell(f"{where}: sweeping the step size of the sequential run")
        sizes = (plan.step_sizes or STEP_SIZES)[task.loss]
        step_size = best_step_size(task, sizes, plan.passes, by_objective)
        if step_size is None:
            reason = "it diverges at every step size of the sweep"
            yield Row("convergence", "passes", task.data.name, "sequential", loss=task.loss, reason=reason)
            return
        for repeat in range(plan.repeats):
            for n_threads in plan.thread_counts:
                for system in (*SYSTEMS, ScikitLearn.name):
                    own = replace(task, n_threads=1 if system in ON_ONE_THREAD else n_threads)
                    if own.n_threads == n_threads or n_threads == plan.thread_counts[0]:
                        yield from _traced(own, system, step_size, repeat, plan)


def _traced(task: Task, system: str, step_size: float, repeat: int, plan: ConvergencePlan) -> Iterator[Row]:
    """A row a pass, and one with a reason for what is missing."""
    reason, moments = "", list[Moment]()
    settings: dict[str, Any] = {"step_size": step_size, "passes": plan.passes}
    if system != ScikitLearn.name:
        moments, reason = ours(task, SYSTEMS[system], step_size, plan.passes)
    elif task.data.n_entries > plan.scikit_learn_entries:
        reason = f"more than {plan.scikit_learn_entries:,} numbers a pass take it too long"
    else:
        moments = ScikitLearn.trace(task, step_size, plan.passes)
        reason = "" if len(moments) == plan.passes else f"diverges in pass {len(moments) + 1}"
    row = Row(
        "convergence", "passes", task.data.name, system, task.n_threads, task.loss, task.seed, repeat, settings
    )  # fmt: skip
    for number, moment in enumerate(moments, 1):
        measures = _judged(task, moment)
        if not all_finite(measures):
            reason = f"diverges in pass {number}"
            break
        yield replace(row, settings=settings | {"pass": number}, measures=measures)
    if reason:
        yield replace(row, reason=reason)


def _judged(task: Task, moment: Moment) -> dict[str, float]:
    predicted = decision(task.data.X_test, moment.coef, moment.intercept)
    return {
        "seconds": moment.seconds,
        "objective": objective(task, moment.coef, moment.intercept),
        **held_out(task.data, task.loss, predicted),
    }
