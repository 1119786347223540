"""What the memory delivers to 1, 2, 4 … threads, measured on the spot, and how much of it a pass over dense rows takes.

Dense rows are read once a pass, from end to end: no loop can be quicker than the memory. Sparse rows are bound by the
latency of the weights and by the cache's ports instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.protocols.scaling.runs import LOOPS, row, side_by_side, trained
from symsgd.bench.protocols.scores import seconds_of
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task

DENSE = "epsilon twin"
READS = "reads alone"


def measure(plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
    """Reads and passes take turns."""
    data = around.load(DENSE, {"epsilon": plan.dense_scale})
    if data.reason:
        yield Row("scaling", "memory", DENSE, "", reason=data.reason)
        return
    for repeat in range(plan.repeats):
        for n_threads in plan.thread_counts:
            task = Task(data, alpha=plan.alpha, n_threads=n_threads, seed=around.seed)
            passes = plan.short_passes
            speed = bandwidth(n_threads, plan.memory_bytes)
            settings = {"passes": passes, "rows": data.n_rows}
            found = {"bytes_per_second": speed}
            yield row("memory", task, READS, repeat, {"bytes": plan.memory_bytes}, measures=found)
            for system, seconds in _systems(task, plan).items():
                taken = seconds()
                if isinstance(taken, str):
                    yield row("memory", task, system, repeat, settings, reason=taken)
                    continue
                own = _bytes(data) * passes / taken
                found = {"seconds": taken, "bytes_per_second": own, "share": own / speed}
                yield row("memory", task, system, repeat, settings, measures=found)


def _systems(task: Task, plan: ScalingPlan) -> dict[str, Callable[[], float | str]]:
    """The sequential loop on one thread; on more "auto", averaging, and loops side by side."""

    def training(strategy: str) -> Callable[[], float | str]:
        def run() -> float | str:
            result = trained(task, strategy, plan, plan.short_passes)
            return result if isinstance(result, str) else seconds_of(result)

        return run

    if task.n_threads == 1:
        return {"sequential": training("sequential")}
    return {
        "auto": training("auto"),
        "averaging": training("averaging"),
        LOOPS: lambda: side_by_side(task, plan, plan.short_passes),
    }


def _bytes(data: Dataset) -> int:
    return int(data.X.nbytes)


def bandwidth(n_threads: int, size: int, reads: int = 5) -> float:
    """Bytes a second that threads read, each from end to end of its share of ``size``; the best of several times.

    A sum of numbers waits for nothing but the memory, and numpy lets other threads run meanwhile.
    """
    start, end = Barrier(n_threads + 1), Barrier(n_threads + 1)

    def read() -> None:
        numbers = np.ones(max(1, size // 8 // n_threads))  # here: pages are near the thread that touches them first
        for _ in range(reads):
            start.wait()
            numbers.sum()
            end.wait()

    times = []
    with ThreadPoolExecutor(n_threads) as pool:
        under_way = [pool.submit(read) for _ in range(n_threads)]
        for _ in range(reads):
            start.wait()
            before = time.perf_counter()
            end.wait()
            times.append(time.perf_counter() - before)
        for each in under_way:
            each.result()
    return n_threads * 8 * max(1, size // 8 // n_threads) / min(times)
