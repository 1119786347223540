"""What a system is to a benchmark: set up outside the clock, run inside it, asked for its model after it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from symsgd.bench.datasets import Dataset


@dataclass(frozen=True, eq=False)
class Task:
    """A problem to solve: mean loss + (alpha/2)‖w‖² over the training rows of a data set."""

    data: Dataset
    loss: str = "log_loss"
    alpha: float = 1e-6
    fit_intercept: bool = True
    n_threads: int = 1
    seed: int = 0

    @property
    def targets(self) -> Any:
        """±1 for two classes, also where the loss is one for numbers; otherwise as they are."""
        return self.data.signs if self.data.task == "binary" else np.asarray(self.data.y)


@dataclass(frozen=True, eq=False)
class Model:
    """Weights and intercept of two classes, or of a regression."""

    coef: NDArray[Any]
    intercept: float = 0.0

    def decision(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(X @ np.asarray(self.coef, np.float64)) + self.intercept


class System(ABC):
    """A way to train. A *budget* is what it spends: passes, iterations, or a tolerance made finer with each step."""

    name: ClassVar[str]

    def reason_against(self, task: Task) -> str:
        """Why it cannot solve the task; empty if it can. Cheap: nothing is trained."""
        return ""

    @abstractmethod
    def set_up(self, task: Task) -> None:
        """What a user has to do once before training: import, convert the rows to the system's own form."""

    @abstractmethod
    def run(self, budget: int) -> None:
        """A training from nothing. This is what is timed."""

    @abstractmethod
    def model(self) -> Model:
        """That of the last run."""

    def budgets(self) -> Iterator[int]:
        """Budgets to try, each at least a quarter more than the last."""
        budget = 1
        while True:
            yield budget
            budget = max(budget + 1, round(1.3 * budget))

    def settings(self, budget: int) -> dict[str, Any]:
        """What a row should say of a run."""
        return {"budget": budget}

    def tear_down(self) -> None:
        """Removes what `set_up` has made outside of memory."""
        return


def timed(system: System, budget: int) -> float:
    """Seconds that a run takes."""
    before = time.perf_counter()
    system.run(budget)
    return time.perf_counter() - before
