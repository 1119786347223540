"""The step size at which the sequential loop is at its best: what all that is compared with it runs at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from symsgd.bench.protocols.scores import held_out, objective, score_name
from symsgd.bench.systems.base import Task
from symsgd.bench.systems.ours import Symsgd
from symsgd.errors import DivergenceError
from symsgd.results import Result
from symsgd.schedules import Constant
from symsgd.strategies import Sequential

STEP_SIZES: Mapping[str, tuple[float, ...]] = {
    "log_loss": (0.03, 0.1, 0.3, 1.0, 3.0),
    "hinge": (0.003, 0.01, 0.03, 0.1, 0.3),
    "squared_error": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
}

Worth = Callable[[Task, Result], float]


def by_score(task: Task, result: Result) -> float:
    """AUC or R² of the test rows."""
    return held_out(task.data, task.loss, result.decision(task.data.X_test))[score_name(task.data)]


def by_objective(task: Task, result: Result) -> float:
    """The less the training rows leave, the better."""
    return -objective(task, result.coef, result.intercept)


def best_step_size(task: Task, sizes: Iterable[float], n_passes: int, worth: Worth = by_score) -> float | None:
    """The constant step size whose sequential run is worth most after so many passes; None if all diverge."""
    found: list[tuple[float, float]] = []
    for size in sizes:
        system = Symsgd(Sequential(), Constant(size))
        system.set_up(task)
        try:
            system.run(n_passes)
        except DivergenceError:
            continue
        assert system.result is not None
        found.append((worth(task, system.result), size))
    return max(found)[1] if found else None


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    """Seeds whose orders differ: scikit-learn's generator, which ours follows in full permutations, takes 0 for 1."""
    return tuple(range(first, first + count)) if first else (0, *range(2, count + 1))
