"""A contest of systems on one task: each trains with ever larger budgets until it is near enough to the best value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from symsgd.bench.apart import Answer, Apart
from symsgd.bench.newton import Objective
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Model, System, Task
from symsgd.bench.systems.registry import make

TARGETS = (0.01, 0.001)
PATIENCE = 6  # budgets in a row that come no nearer
SET_UP_SECONDS = 600.0  # at most: libraries that read text have it written for them
HANGS_AFTER = 30.0  # seconds beyond what it may take: a machine may be busy


@dataclass(eq=False)
class Contest:
    """One task on so many threads: what is common to all rows, and the best objective so far."""

    task: Task
    objective: Objective
    best: float
    most_seconds: float
    repeats: int
    reached: dict[str, dict[float, int]] = field(default_factory=dict)  # by system and target: the budget

    def row(self, part: str, system: str, **fields: Any) -> Row:
        task = self.task
        return Row("peers", part, task.data.name, system, task.n_threads, task.loss, task.seed, **fields)

    def measures(self, answer: Answer) -> dict[str, float]:
        """Seconds, objective and gap; a model without an intercept that is better than the best is the best."""
        assert answer.model is not None
        value = self.objective.of_predictions(answer.model.coef, answer.model.decision(self.objective.X))
        if answer.model.intercept == 0:
            self.best = min(self.best, value)
        return {"seconds": answer.seconds, "objective": value, "gap": value / self.best - 1}

    def is_news(self, gap: float, reached: dict[float, int]) -> bool:
        return any(gap <= target and target not in reached for target in TARGETS)

    def score(self, model: Model) -> dict[str, float]:
        """On held-out rows."""
        data = self.task.data
        if data.X_test is None:
            return {}
        decision = model.decision(data.X_test)
        if data.task == "binary":
            from sklearn.metrics import roc_auc_score

            return {"auc": float(roc_auc_score(np.asarray(data.y_test) > 0, decision))}
        missed, spread = np.asarray(data.y_test) - decision, np.asarray(data.y_test) - np.mean(data.y_test)
        return {"r2": float(1 - (missed @ missed) / (spread @ spread))}


def run_contest(
    contest: Contest, systems: list[str], folder: Path, processes: ExitStack, around: Surroundings
) -> Iterator[Row]:
    """The curves one after the other, then the targets that were reached, in turns. Processes stay until the end."""
    ready: dict[str, Apart] = {}
    for name in systems:
        system = make(name)
        reason = system.reason_against(contest.task)
        if reason:
            yield contest.row("curve", name, reason=reason)
            continue
        around.tell(f"{contest.task.data.name}: {name}")
        apart = processes.enter_context(Apart(name, folder, contest.task.n_threads))
        started = apart.set_up(SET_UP_SECONDS)
        if started.reason:
            yield contest.row("curve", name, reason=started.reason)
            continue
        yield contest.row("set up", name, measures={"seconds": started.seconds})
        yield from _curve(contest, system, name, apart)
        if contest.reached.get(name):
            ready[name] = apart
        else:
            apart.close()
    for repeat in range(contest.repeats):
        for name, apart in ready.items():
            yield from _again(contest, name, apart, repeat)


def _curve(contest: Contest, system: System, name: str, apart: Apart) -> Iterator[Row]:
    """Ever larger budgets until the last target is reached; the reason, for each target that was not.

    A budget has reached a target if it does so twice: some libraries draw another order each time.
    """
    reached = contest.reached.setdefault(name, {})
    limit = HANGS_AFTER + 2 * contest.most_seconds
    spent, last, nearest, behind, why = 0.0, 0.0, np.inf, 0, "it has no larger budget"
    for budget in system.budgets():
        if spent + last > contest.most_seconds:
            why = f"{spent:.3g} s are spent"
            break
        gaps: list[float] = []
        while len(gaps) < 1 or (len(gaps) < 2 and contest.is_news(gaps[0], reached)):
            answer = apart.train(budget, limit)
            if answer.model is None:
                break
            measures = contest.measures(answer)
            score = contest.score(answer.model)
            settings = system.settings(budget)
            yield contest.row("curve", name, settings=settings, measures=measures | score, repeat=len(gaps))
            gaps.append(measures["gap"])
            last = answer.seconds
            spent += last
        if answer.model is None:
            why = answer.reason
            yield contest.row("curve", name, settings=system.settings(budget), repeat=len(gaps), reason=why)
            break
        gap = max(gaps)
        reached |= {target: budget for target in TARGETS if gap <= target and target not in reached}
        if len(reached) == len(TARGETS):
            return
        behind = 0 if gap < nearest else behind + 1
        nearest = min(nearest, gap)
        if behind == PATIENCE:
            why = "it comes no nearer"
            break
    near = f" at {100 * nearest:.3g} %" if np.isfinite(nearest) else ""
    for target in TARGETS:
        if target not in reached:
            yield contest.row("time to target", name, settings={"target": target}, reason=f"{why}{near}")


def _again(contest: Contest, name: str, apart: Apart, repeat: int) -> Iterator[Row]:
    """One training for each budget that was first within a target."""
    answers: dict[int, Answer] = {}
    for target, budget in contest.reached[name].items():
        if budget not in answers:
            if not apart.alive:
                apart.set_up(SET_UP_SECONDS)
            answers[budget] = apart.train(budget, HANGS_AFTER + 10 * contest.most_seconds)
        answer, settings = answers[budget], {"target": target, "budget": budget}
        measures = {} if answer.model is None else contest.measures(answer)
        yield contest.row(
            "time to target", name, settings=settings, measures=measures, repeat=repeat, reason=answer.reason
        )
