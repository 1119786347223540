"""What all parts of the protocol run: trainings with the logistic loss, one or several at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.protocols.step_sizes import seeds_from
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task
from symsgd.bench.systems.ours import Symsgd
from symsgd.errors import DivergenceError
from symsgd.results import Result
from symsgd.schedules import Constant
from symsgd.strategies import Sequential, Strategy

LOOPS = "independent loops"


def trained(task: Task, strategy: str | Strategy, plan: ScalingPlan, passes: int) -> Result | str:
    """The result, or the reason why there is none."""
    system = Symsgd(strategy, Constant(plan.step_size(task.data.name)))
    system.set_up(task)
    try:
        system.run(passes)
    except DivergenceError as error:
        return f"diverges in pass {error.n_pass}"
    assert system.result is not None
    return system.result


def side_by_side(task: Task, plan: ScalingPlan, passes: int) -> float:
    """Seconds that one of as many independent sequential loops as threads has to itself: the machine's limit.

    Each has an order of its own: loops in the same one would find in the cache what another has fetched.
    """
    tasks = [replace(task, n_threads=1, seed=seed) for seed in seeds_from(task.seed, task.n_threads)]
    with ThreadPoolExecutor(task.n_threads) as pool:
        before = time.perf_counter()
        list(pool.map(lambda own: trained(own, Sequential(), plan, passes), tasks))
        return (time.perf_counter() - before) / task.n_threads


def row(part: str, task: Task, system: str, repeat: int, settings: dict[str, Any], **found: Any) -> Row:
    return Row(
        "scaling", part, task.data.name, system, task.n_threads, task.loss, task.seed, repeat, settings, **found
    )  # fmt: skip
