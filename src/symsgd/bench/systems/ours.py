"""symsgd itself: any strategy and schedule; a budget is a number of passes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import symsgd
from symsgd.bench.systems.base import Model, System, Task
from symsgd.penalties import L2
from symsgd.schedules import Linear, Schedule
from symsgd.strategies import Strategy
from symsgd.training import Result

PEERS_SCHEDULE: Schedule = Linear()  # the same for all sets: it needs no step size


class Symsgd(System):
    """`symsgd.train`. ``result`` is that of the last run."""

    name: ClassVar[str] = "symsgd"

    def __init__(self, strategy: str | Strategy = "auto", schedule: str | Schedule = "optimal", **options: Any) -> None:
        self.strategy, self.schedule, self.options = strategy, schedule, options
        self.result: Result | None = None

    def set_up(self, task: Task) -> None:
        self.task, self.y = task, task.targets

    def run(self, budget: int) -> None:
        task = self.task
        classes = None if task.data.task == "regression" else np.unique(self.y)
        self.result = symsgd.train(
            task.data.X, self.y, loss=task.loss, classes=classes, penalty=L2(task.alpha) if task.alpha else None,
            schedule=self.schedule, strategy=self.strategy, n_threads=task.n_threads, n_passes=budget, seed=task.seed,
            fit_intercept=task.fit_intercept, **self.options,
        )  # fmt: skip

    def model(self) -> Model:
        assert self.result is not None, "nothing was run yet"
        coef, intercept = self.result.coef, self.result.intercept
        if self.result.average_coef is not None and self.result.average_intercept is not None:
            coef, intercept = self.result.average_coef, self.result.average_intercept
        return Model(np.ravel(coef), float(np.ravel(intercept)[0]))


def for_peers() -> Symsgd:
    """As it is compared with other libraries."""
    return Symsgd("auto", PEERS_SCHEDULE)
