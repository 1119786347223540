"""Nonzeros a second against what the memory can deliver: how close the loop is to its floor on this machine."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table

from symsgd import schedules, train
from symsgd.data import twin


def memory_bandwidth(size: int = 1 << 28, repeats: int = 5) -> float:
    """Bytes a second of one thread summing a large array: sequential reads and nothing else."""
    numbers = np.ones(size // 8)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        numbers.sum()
        times.append(time.perf_counter() - started)
    return size / min(times)


def run(console: Console) -> None:
    """Dense rows of 2,000, whose floor is the memory, and the RCV1 twin, whose floor is the cache ports."""
    speed = memory_bandwidth()
    table = Table(title=f"One thread against the memory: {speed / 1e9:.1f} GB/s of sequential reads")
    for column in ("rows", "order", "nonzeros/s", "GB/s of X", "of the bandwidth"):
        table.add_column(column, justify="left" if column in ("rows", "order") else "right")
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((50_000, 2_000), np.float32) / 45
    labels = (dense[:, 0] > 0).astype(np.int8)
    rcv1 = twin("rcv1", 0.2)
    for name, X, y, nonzeros, size in (
        ("dense, 2,000 wide", dense, labels, dense.size, 4),
        ("RCV1 twin", rcv1.X, rcv1.y, rcv1.X.nnz, 8),
    ):
        for order, shuffle in (("storage", False), ("window", True), ("full", "full")):
            result = train(
                X, y, schedule=schedules.Constant(0.1), strategy="sequential", n_passes=5, shuffle=shuffle, n_threads=1
            )
            seconds = min(record.seconds for record in result.passes)
            used = nonzeros * size / seconds
            table.add_row(
                name, order, f"{nonzeros / seconds / 1e6:.0f} M", f"{used / 1e9:.1f}", f"{used / speed:.0%}"
            )  # fmt: skip
    console.print(table)
