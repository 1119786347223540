"""How near the answers of strategies are to the sequential one.

The step size is the best of a sweep of sequential runs. A run over the same rows in the same order *holds* if its score
(AUC, R²) is the sequential one to 1e-4 (R²: 1e-3), or to a quarter of the standard deviation of the sequential score
over seeds where that is larger, and its log loss to 0.5 %.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from symsgd.bench.datasets import TWIN_SCALES, Dataset
from symsgd.bench.protocols.base import Plan, Protocol, Size, Surroundings
from symsgd.bench.protocols.contenders import CONTENDERS, Contender
from symsgd.bench.protocols.scores import all_finite, distance, held_out, merging, score_name
from symsgd.bench.protocols.step_sizes import STEP_SIZES, best_step_size, seeds_from
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task
from symsgd.bench.systems.ours import Symsgd
from symsgd.errors import DivergenceError
from symsgd.results import Result
from symsgd.schedules import Constant
from symsgd.strategies import Sequential, Strategy

LOSSES = ("log_loss", "hinge", "squared_error")
LEAST_TOLERANCE = {"auc": 1e-4, "r2": 1e-3}
SHARE_OF_DEVIATION = 0.25
LOG_LOSS_TOLERANCE = 0.005  # relative


@dataclass(frozen=True)
class FidelityPlan(Plan):
    """``threads`` are blocks a round; strategies that race have at most as many threads as there are cores, and
    ``repeats`` runs. ``seeds`` sequential runs say how much a score is worth."""

    threads: tuple[int, ...] | None = (16,)
    repeats: int = 5
    losses: tuple[str, ...] = LOSSES
    blocks: tuple[int, ...] = (16, 64, 256, 1024)
    passes: int = 10
    seeds: int = 10
    alpha: float = 1e-6
    step_sizes: Mapping[str, tuple[float, ...]] | None = None


@dataclass(frozen=True, eq=False)
class Baseline:
    """The sequential run, and how near is near enough."""

    step_size: float
    result: Result
    measures: Mapping[str, float]
    score: str
    tolerance: float

    def compared(self, data: Dataset, loss: str, result: Result) -> dict[str, float]:
        """What a run has in common with it."""
        found = held_out(data, loss, result.decision(data.X_test))
        difference = found[self.score] - self.measures[self.score]
        holds = abs(difference) <= self.tolerance
        found |= {"difference": difference, "tolerance": self.tolerance}
        if "log_loss" in found:
            found["log_loss_change"] = found["log_loss"] / self.measures["log_loss"] - 1
            holds = holds and abs(found["log_loss_change"]) <= LOG_LOSS_TOLERANCE
        return found | {"distance": distance(result.coef, self.result.coef), "holds": float(holds)}


class Fidelity(Protocol):
    """Distance in score, loss and model, by strategy, combiner, block size and threads."""

    name: ClassVar[str] = "fidelity"
    summary: ClassVar[str] = "How near each strategy is to the sequential run"
    plans: ClassVar[Mapping[Size, FidelityPlan]] = {
        "full": FidelityPlan(
            sets=(
                *(f"{name} twin" for name in TWIN_SCALES), "imdb", "nycflights13_ctr39", "kdd99", "a9a", "w8a",
            ),
            threads=(4, 16, 64),
        ),
        "reduced": FidelityPlan(
            sets=("rcv1 twin", "url twin", "criteo twin", "epsilon twin", "adclick twin"),
            scales={"rcv1": 0.05, "url": 0.01, "criteo": 0.05, "epsilon": 0.005, "adclick": 0.01},
            repeats=3, seeds=5,
        ),
        "quick": FidelityPlan(
            sets=("rcv1 twin", "epsilon twin"), scales={"rcv1": 0.01, "epsilon": 0.003},
            repeats=2, blocks=(16, 256), passes=5, seeds=3,
        ),
        "tiny": FidelityPlan(
            sets=("rcv1 twin",), scales={"rcv1": 0.002}, threads=(4,), repeats=2, blocks=(64,), passes=2, seeds=2,
            step_sizes={"log_loss": (0.3, 1.0), "hinge": (0.03,), "squared_error": (0.01,)},
        ),
    }  # fmt: skip

    def measure(self, plan: FidelityPlan, around: Surroundings) -> Iterator[Row]:
        for data in self.loaded(plan, around, "distance"):
            if isinstance(data, Row):
                yield data
                continue
            for loss in plan.losses if data.task != "regression" else ("squared_error",):
                task = Task(data, loss, plan.alpha, seed=around.seed)
                around.tell(f"{data.name}, {loss}: sweeping the step size of the sequential run")
                sizes = (plan.step_sizes or STEP_SIZES)[loss]
                step_size = best_step_size(task, sizes, plan.passes)
                if step_size is None:
                    yield _row("sequential", task, "sequential", {}, "it diverges at every step size of the sweep")
                    continue
                baseline = yield from _baseline(task, step_size, plan)
                for contender in CONTENDERS:
                    if loss in contender.losses:
                        yield from _judged(contender, task, baseline, plan)


def _baseline(task: Task, step_size: float, plan: FidelityPlan) -> Generator[Row, None, Baseline]:
    """Sequential runs in the order of every seed, the first of which is the baseline."""
    runs: list[tuple[Result, dict[str, float]]] = []
    settings = {"step_size": step_size, "passes": plan.passes}
    for seed in seeds_from(task.seed, plan.seeds):
        own = replace(task, seed=seed)
        result = _train(own, Sequential(), step_size, plan.passes)
        runs.append((result, held_out(task.data, task.loss, result.decision(task.data.X_test))))
        yield _row("sequential", own, "sequential", settings, measures=runs[-1][1])
    score = score_name(task.data)
    deviation = float(np.std([measures[score] for _, measures in runs]))
    tolerance = max(LEAST_TOLERANCE[score], SHARE_OF_DEVIATION * deviation)
    return Baseline(step_size, *runs[0], score, tolerance)


def _judged(contender: Contender, task: Task, baseline: Baseline, plan: FidelityPlan) -> Iterator[Row]:
    """A row for every number of threads, size of blocks and run. One that diverges is not tried again."""
    for n_threads in contender.thread_counts(plan.thread_counts):
        own = replace(task, n_threads=n_threads)
        for block in plan.blocks if contender.blocks else (None,):
            settings = {
                "combiner": contender.combiner, "block_size": "" if block is None else block,
                "step_size": baseline.step_size, "passes": plan.passes,
            }  # fmt: skip
            for repeat in range(plan.repeats if contender.racy else 1):
                try:
                    result = _train(own, contender.make(block or 0), baseline.step_size, plan.passes)
                except DivergenceError as error:
                    yield _row("distance", own, contender.system, settings, f"diverges in pass {error.n_pass}", repeat)
                    break
                measures = baseline.compared(task.data, task.loss, result) | merging(result)
                reason = "" if all_finite(measures) else "its scores are not finite numbers"
                yield _row("distance", own, contender.system, settings, reason, repeat, measures)


def _train(task: Task, strategy: Strategy, step_size: float, passes: int) -> Result:
    system = Symsgd(strategy, Constant(step_size))
    system.set_up(task)
    system.run(passes)
    assert system.result is not None
    return system.result


def _row(
    part: str, task: Task, system: str, settings: Mapping[str, Any], reason: str = "", repeat: int = 0,
    measures: Mapping[str, float] | None = None,
) -> Row:  # fmt: skip
    return Row(
        "fidelity", part, task.data.name, system, task.n_threads, task.loss, task.seed, repeat, settings,
        {} if reason else measures or {}, reason,
    )  # fmt: skip
