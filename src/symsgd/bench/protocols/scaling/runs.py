"""What all parts of the protocol run: trainings with the logistic loss, one or several at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.protocols.step_sizes import seeds_from
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task
from symsgd.bench.systems.ours import Symsgd
from symsgd.callbacks import Callback, PassRecord
from symsgd.errors import DivergenceError
from symsgd.results import Result
from symsgd.schedules import Constant
from symsgd.strategies import Sequential, Strategy

LOOPS = "independent loops"


def trained(
    task: Task,
    strategy: str | Strategy,
    plan: ScalingPlan,
    passes: int,
    callback: Callback | None = None,
    device: str = "cpu",
) -> Result | str:
    """The result, or the reason why there is none."""
    system = Symsgd(strategy, Constant(plan.step_size(task.data.name)), callbacks=callback, device=device)
    system.set_up(task)
    try:
        system.run(passes)
    except DivergenceError as error:
        return f"diverges in pass {error.n_pass}"
    assert system.result is not None
    return system.result


class _Together(Callback):
    """Begins its first pass when all others do."""

    def __init__(self, barrier: Barrier) -> None:
        self.barrier = barrier

    def on_start(self, n_passes: int, n_rows: int) -> None:
        self.barrier.wait()
        self.began = self.ended = time.perf_counter()

    def on_pass(self, record: PassRecord) -> None:
        self.ended = time.perf_counter()


def side_by_side(task: Task, plan: ScalingPlan, passes: int) -> float | str:
    """Seconds that one of as many independent sequential loops as threads has to itself: the machine's limit.

    Each has an order of its own: loops in the same one would find in the cache what another has fetched. What comes
    before the first pass is Python's, one thread at a time, and not on the clock, as with all others.
    """
    barrier = Barrier(task.n_threads)
    loops = [_Together(barrier) for _ in range(task.n_threads)]

    def run(loop: _Together, seed: int) -> Result | str:
        try:
            return trained(replace(task, n_threads=1, seed=seed), Sequential(), plan, passes, loop)
        except BaseException:
            barrier.abort()  # nobody waits for this one
            raise

    with ThreadPoolExecutor(task.n_threads) as pool:
        results = list(pool.map(run, loops, seeds_from(task.seed, task.n_threads)))
    failed = [result for result in results if isinstance(result, str)]
    spent = max(loop.ended for loop in loops) - min(loop.began for loop in loops)
    return failed[0] if failed else spent / task.n_threads


def row(part: str, task: Task, system: str, repeat: int, settings: dict[str, Any], **found: Any) -> Row:
    return Row(
        "scaling", part, task.data.name, system, task.n_threads, task.loss, task.seed, repeat, settings, **found
    )  # fmt: skip
