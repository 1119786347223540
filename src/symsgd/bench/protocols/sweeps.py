"""Trainings of two classes with a constant step size, and the sweeps that choose the step size and the configuration.

What the paper does before it measures: the step size with the best held-out AUC of the sequential run, and, that step
size fixed, the fastest configuration of a parallel system that holds the sequential AUC to the fourth digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from sklearn.metrics import roc_auc_score

from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols.scores import share_alone
from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.ours import Symsgd
from symsgd.combiners import Curvature
from symsgd.errors import DivergenceError
from symsgd.schedules import Constant
from symsgd.strategies import Strategy

Key = TypeVar("Key")
Number = TypeVar("Number", int, float)

FOURTH_DIGIT = 1e-4  # an AUC holds another if they differ by less: rounding both would make neighbours differ by luck
MOST_BEYOND = 6  # step sizes that are tried beyond the ones planned


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training came to: model, seconds of all passes and held-out AUC, or the reason why there are none.

    ``alone`` is the share of rows that one thread trained because no block was merged well enough; None where that
    never happens.
    """

    model: Model | None = None
    seconds: float = 0.0
    auc: float = 0.0
    alone: float | None = None
    reason: str = ""

    def difference(self, sequential: Trained) -> float:
        return self.auc - sequential.auc

    def holds(self, sequential: Trained) -> bool:
        """Whether it has the sequential AUC to the fourth digit."""
        return not self.reason and abs(self.difference(sequential)) < FOURTH_DIGIT

    def distance(self, sequential: Trained) -> float:
        """Of the weights from the sequential ones, over the norm of those."""
        assert self.model is not None
        assert sequential.model is not None
        start = np.asarray(sequential.model.coef, np.float64)
        norm = float(np.linalg.norm(start))
        return float(np.linalg.norm(self.model.coef - start)) / norm if norm else 0.0

    def measures(self, sequential: Trained) -> dict[str, float]:
        """What a row says of it; nothing if it failed."""
        if self.reason:
            return {}
        found = {
            "seconds": self.seconds,
            "auc": self.auc,
            "difference": self.difference(sequential),
            "holds": float(self.holds(sequential)),
            "distance": self.distance(sequential),
        }
        return found if self.alone is None else {**found, "alone": self.alone}


def train(task: Task, strategy: Strategy, step_size: float, n_passes: int) -> Trained:
    """Trains and evaluates. The clock runs in the passes alone, the first of which sets the strategy up."""
    system = Symsgd(strategy, Constant(step_size))
    system.set_up(task)
    try:
        system.run(n_passes)
    except DivergenceError as error:
        return Trained(reason=f"diverges in pass {error.n_pass}")
    except (ValueError, MemoryError) as error:  # what a strategy refuses, or has no room for
        return Trained(reason=str(error) or type(error).__name__)
    assert system.result is not None
    model = system.model()
    decision = model.decision(task.data.X_test)
    if not np.isfinite(decision).all():
        return Trained(reason="diverges: its predictions are infinite")
    seconds = math.fsum(record.seconds for record in system.result.passes)
    auc = float(roc_auc_score(np.asarray(task.data.y_test) > 0, decision))
    merged = isinstance(getattr(strategy, "combiner", None), Curvature)
    return Trained(model, seconds, auc, share_alone(system.result) if merged else None)


def reason_against(data: Dataset) -> str:
    """Why no AUC can be had of a data set; empty if it can."""
    if data.task != "binary":
        return f"it is a {data.task} set, and an AUC is of two classes"
    if any(np.unique(np.asarray(targets) > 0).size < 2 for targets in (data.y, data.y_test)):
        return "its training or its test rows have one class only"
    return ""


@dataclass(frozen=True)
class Steps:
    """Step sizes ``mantissas`` × 10^e, from 10^first to 10^last: 0.01, 0.03, 0.1, 0.3 … with mantissas 1 and 3."""

    first: int
    last: int
    mantissas: tuple[int, ...] = (1, 3)

    @property
    def numbers(self) -> range:
        """Step sizes by their numbers, of which 0 is 1.0."""
        count = len(self.mantissas)
        return range(self.first * count, self.last * count + 1)

    def __getitem__(self, number: int) -> float:
        decade, place = divmod(number, len(self.mantissas))
        return float(f"{self.mantissas[place]}e{decade}")


def sweep_step_sizes(
    task: Task, strategy: Strategy, steps: Steps, n_passes: int, most_beyond: int = MOST_BEYOND
) -> Iterator[tuple[float, Trained]]:
    """Trains with each step size, and with some beyond as long as the best is the smallest or the largest tried."""
    tried: dict[int, Trained] = {}
    todo = list(steps.numbers)
    while todo:
        for number in todo:
            tried[number] = train(task, strategy, steps[number], n_passes)
            yield steps[number], tried[number]
        following = _beyond(tried)
        todo = [] if following is None or len(tried) >= len(steps.numbers) + most_beyond else [following]


def _beyond(tried: Mapping[int, Trained]) -> int | None:
    """The step size to try next: below if all fail, beyond the end that is best, or none."""
    best = best_of(tried)
    if best is None or best == min(tried):
        return min(tried) - 1
    return max(tried) + 1 if best == max(tried) else None


def best_of(tried: Mapping[Number, Trained]) -> Number | None:
    """The key of the best AUC, the smallest of those that share it; None if all failed."""
    trained = [key for key, own in tried.items() if not own.reason]
    return min(trained, key=lambda key: (-tried[key].auc, key), default=None)


@dataclass(frozen=True)
class Configuration:
    """A strategy, and what a row says of the choices made for it."""

    strategy: Strategy
    settings: Mapping[str, Any] = field(default_factory=dict)


def choose(tried: Sequence[tuple[Key, Trained]], sequential: Trained) -> Key | None:
    """The fastest that holds the sequential AUC; if none does, the nearest in AUC; None if all failed."""
    trained = [(key, own) for key, own in tried if not own.reason]
    holding = [(key, own) for key, own in trained if own.holds(sequential)]
    if holding:
        return min(holding, key=lambda one: one[1].seconds)[0]
    return min(trained, key=lambda one: abs(one[1].difference(sequential)))[0] if trained else None
