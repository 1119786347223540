"""Two workers of one thread each against one, on twins in stores: same blocks, and so the same model.

The store is opened as often as it takes for a pass of ten seconds on one worker: partitions that are the same rows.
Bytes are what the loopback device carried in a pass, everything on it included, beside what the cost model says
(docs/dask.md). Last come the sequential run in the same order, in this process, and what the machine gives two such
loops that know nothing of each other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import symsgd
from symsgd.bench.single.curvature import ALPHA
from symsgd.bench.single.dask_fidelity import cluster
from symsgd.callbacks import PassRecord
from symsgd.data import open as open_store
from symsgd.data import twin
from symsgd.penalties import L2
from symsgd.results import Result
from symsgd.schedules import Constant
from symsgd.strategies import Sequential

STORED = {"rcv1": (20.0, 0.3, 5), "criteo": (20.0, 0.03, 4)}  # scale, step size, and how often a pass goes over it
RUNS = 3  # of one worker and of two, in turn
COUNTED = 4_000_000  # rows whose features the cost model is told
LOOPBACK = Path("/proc/net/dev")


@dataclass(frozen=True)
class Timed:
    """Passes after the first: seconds and bytes of each (medians), and what came of it."""

    seconds: float
    sent: float
    said: float  # by the cost model
    result: Any


def run(
    console: Console, folder: Path, names: Sequence[str], passes: int = 5, runs: int = RUNS, times: int | None = None
) -> None:
    columns = (
        "twin", "rows", "GB", "workers", "s a pass", "times one", "AUC", "AUC less sequential", "rounds a pass",
        "error", "MB sent a pass", "cost model", "ratio",
    )  # fmt: skip
    table = Table(
        title=f"Workers of one thread, from a store; 2 blocks a round, {passes} passes, medians after the first of "
        f"{runs} runs, one worker and two in turn"
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "twin" else "right")
    for name in names:
        scale, step_size, often = STORED[name]
        path = folder / f"{name}.store"
        if not path.exists():
            twin(name, scale, store=path)
        store, test = open_store(path), open_store(path.with_name(f"{name}.test.store"))
        paths = [path] * (times or often)
        choices: dict[str, Any] = {"loss": "log_loss", "penalty": L2(ALPHA), "schedule": Constant(step_size)}
        tried: dict[int, list[Timed]] = {1: [], 2: []}
        for _ in range(runs):
            for count, own in tried.items():
                own.append(_timed(paths, count, choices, passes))
                console.print(f"{name} twin, {count} worker(s): {own[-1].seconds:.2f} s a pass", style="dim")
        ratios = sorted(one.seconds / two.seconds for one, two in zip(tried[1], tried[2], strict=True))
        auc, rows = _auc_of(test, tried[2][-1].result), len(store) * len(paths)
        for count, own in tried.items():
            timed = own[-1]
            record = timed.result.passes[-1]
            table.add_row(
                f"{name} twin", f"{rows:,}", f"{path.stat().st_size * len(paths) / 1e9:.1f}", f"{count}",
                f"{median(each.seconds for each in own):.2f}",
                "" if count == 1 else f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                f"{_auc_of(test, timed.result):.5f}", "",
                f"{len(timed.result.rounds[-1])}", "" if record.error is None else f"{record.error:.4f}",
                f"{timed.sent / 1e6:.1f}", f"{timed.said / 1e6:.1f}", f"{timed.sent / timed.said:.2f}",
            )  # fmt: skip
        began = time.perf_counter()
        sequential = follow(path, tried[2][-1].result.journal, choices)
        seconds = (time.perf_counter() - began) / passes
        auc_alone = _auc_of(test, sequential)
        table.add_row(f"{name} twin", f"{rows:,}", "", "sequential in that order, no Dask", f"{seconds:.2f}", "",
                      f"{auc_alone:.5f}", f"{auc - auc_alone:+.5f}")  # fmt: skip
        limits = sorted(independent(path, choices) for _ in range(runs))
        table.add_row(f"{name} twin", "", "", "two loops that know nothing of each other", "",
                      f"{median(limits):.2f} ({limits[0]:.2f} to {limits[-1]:.2f})")  # fmt: skip
        table.add_section()
    console.print(table)


def independent(path: Path, choices: dict[str, Any]) -> float:
    """How much faster two processes go over the halves of a store than one goes over both: what the machine gives."""
    with cluster(2, 1) as client:
        workers = sorted(client.nthreads())

        def ask(halves: Sequence[int]) -> float:
            asked = [
                client.submit(_half, str(path), i, choices, pure=False, workers=[workers[i % len(workers)]])
                for i in halves
            ]
            return float(max(client.gather(asked)))

        ask([0, 1])  # reads the store, and compares it with its checksums
        return 2 * ask([0]) / ask([0, 1])


def _half(path: str, part: int, choices: dict[str, Any]) -> float:
    """Seconds of a sequential pass over it, on a worker."""
    from symsgd.dask.rows import Stored

    store = open_store(path)
    half = len(store) // 2
    data, y, _ = Stored(path, store.generation, len(store)).between(part * half, (part + 1) * half)
    began = time.perf_counter()
    symsgd.train(data, y, **choices, n_passes=1, n_threads=1, strategy=Sequential())
    return time.perf_counter() - began


def follow(path: Path, journal: Any, choices: dict[str, Any]) -> Result:
    """Sequential SGD in the order of the journal, from the store: segment after segment."""
    from symsgd.dask.rows import Stored

    store = open_store(path)
    rows, result = Stored(str(path), store.generation, len(store)), None
    classes = np.unique(store.y)
    for block in (block for rounds in journal.passes for blocks in rounds for block in blocks):
        for segment in block.segments:
            data, y, _ = rows.between(segment.begin, segment.end)
            result = symsgd.train(
                data, y, **choices, classes=classes, n_passes=1, seed=segment.seed, strategy=Sequential(), init=result
            )
    assert result is not None
    return result


def _timed(paths: Sequence[Path], count: int, choices: dict[str, Any], passes: int) -> Timed:
    from symsgd.dask import costs, partitions, train

    seen: list[tuple[float, int]] = []

    def note(record: PassRecord) -> None:
        seen.append((record.seconds, bytes_so_far()))

    with cluster(count, 1) as client:
        result = train(client, list(paths), **choices, strategy="auto", blocks=2, n_passes=passes, callbacks=note)
    store = open_store(paths[0])
    many = store.X.indptr[: min(len(store), COUNTED) + 1]
    share = np.bincount(store.X.indices[: many[-1]], minlength=store.shape[1]) / (len(many) - 1)
    shape = costs.Shape(store.shape[1], 1, 2, count, share, places=min(4096, int((share > 0).sum())), hops=1)
    sample = partitions.sample_size(len(store) * len(paths), store.n_entries * len(paths))
    estimate = costs.estimate_bytes(shape, result.passes[-1].rank, sample)
    said = [
        sum(
            costs.round_bytes(shape, record.rows / record.blocks, record.error is not None)
            + record.estimated * estimate
            + costs.model_bytes(shape, record.model_bytes)
            for record in rounds
        )
        for rounds in result.rounds
    ]
    sent = [later[1] - earlier[1] for earlier, later in pairwise(seen)]
    one = [(said[i], sent[i - 1]) for i in range(1, len(said))]
    typical = sorted(one)[(len(one) - 1) // 2]  # of one and the same pass
    return Timed(median(second for second, _ in seen[1:]), typical[1], typical[0], result)


def bytes_so_far() -> int:
    """That the loopback device has carried; 0 where the system does not say."""
    if not LOOPBACK.exists():
        return 0
    for line in LOOPBACK.read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


def _auc_of(test: Any, result: Result) -> float:
    return float(roc_auc_score(np.asarray(test.y) > 0, result.decision(test.X)))
