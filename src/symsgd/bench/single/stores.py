"""Training from a store against training in memory: rows a second, and what anonymous memory it takes.

Each training runs in a process of its own, the two kinds in turn. The file is in the page cache: what is compared is
the way to the rows, not the disk. Checking the rows is part of either way and is in "first pass and before".
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

SETS = {"rcv1": 1.0, "epsilon": 0.1}  # twins and their scales: some hundred megabytes each
STRATEGIES = ("sequential", "auto")
N_PASSES = 5


@dataclass
class Measured:
    """The fastest of several runs, and the most memory of any."""

    before: float = math.inf  # seconds from the call to the end of the first pass
    a_pass: float = math.inf  # seconds, of the later ones
    memory: float = 0.0  # MB of RssAnon, more than before the call

    def take(self, run: dict[str, float]) -> None:
        self.before = min(self.before, run["before"])
        self.a_pass = min(self.a_pass, run["a_pass"])
        self.memory = max(self.memory, run["memory"])


def run(console: Console, repeats: int = 5) -> None:
    """Makes the stores first; that is not timed."""
    from symsgd.data import open as open_store
    from symsgd.data import twin

    table = Table(title=f"Training from a store, which is in the page cache: {N_PASSES} passes")
    for column in (
        "rows", "strategy", "store, MB", "rows/s in memory", "from the store", "ratio", "first pass and before", "",
        "anonymous memory of it, MB", "of the store",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column in ("rows", "strategy") else "right")
    with tempfile.TemporaryDirectory() as folder:
        for name, scale in SETS.items():
            path = Path(folder) / f"{name}.store"
            twin(name, scale, store=path)
            with open_store(path) as store:
                n_rows, size = len(store), store.nbytes / 1e6
            for strategy in STRATEGIES:
                ways = {"memory": Measured(), "store": Measured()}
                for _ in range(repeats):
                    for way, measured in ways.items():
                        measured.take(_in_a_process(way, path, strategy))
                memory, store_way = ways["memory"], ways["store"]
                table.add_row(
                    f"{name} twin",
                    strategy,
                    f"{size:.0f}",
                    f"{n_rows / memory.a_pass:,.0f}",
                    f"{n_rows / store_way.a_pass:,.0f}",
                    f"{memory.a_pass / store_way.a_pass:.2f}",
                    f"{memory.before:.2f} s",
                    f"{store_way.before:.2f} s",
                    f"{store_way.memory:.0f}",
                    f"{store_way.memory / size:.0%}",
                )
            path.unlink()
    console.print(table)


def _in_a_process(way: str, path: Path, strategy: str) -> dict[str, float]:
    command = [sys.executable, "-m", "symsgd.bench.single.stores", way, str(path), strategy]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(printed)
    return measured


def _train(way: str, path: str, strategy: str) -> dict[str, float]:
    import numpy as np
    import scipy.sparse as sp

    from symsgd import schedules, train
    from symsgd.data import open as open_store

    store = open_store(path)
    source: tuple[Any, ...] = (store,)
    if way == "memory":
        X: Any = store.X.copy() if sp.issparse(store.X) else np.array(store.X)
        source = (X, np.array(store.y))
    watch = _Watch()
    started = time.perf_counter()
    first = math.inf

    def note(record: Any) -> None:
        nonlocal first
        first = min(first, time.perf_counter() - started)

    result = train(
        *source, strategy=strategy, schedule=schedules.Constant(0.1), n_passes=N_PASSES, callbacks=note
    )  # fmt: skip
    return {"before": first, "a_pass": min(record.seconds for record in result.passes[1:]), "memory": watch.end()}


class _Watch:
    """The most anonymous memory that the process has while it looks, over what it had at first. Linux alone."""

    def __init__(self) -> None:
        self._first = self._most = self._now()
        self._ended = False
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> float:
        self._ended = True
        self._thread.join()
        return self._most - self._first

    def _look(self) -> None:
        while not self._ended:
            self._most = max(self._most, self._now())
            time.sleep(0.002)

    @staticmethod
    def _now() -> float:
        status = Path("/proc/self/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return sum(float(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    print(json.dumps(_train(*sys.argv[1:])))
