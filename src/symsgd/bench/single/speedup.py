"""How much faster ``strategy="auto"`` and what it chooses from are than the sequential loop, set-up counted.

Beside it what the machine has to give, as many independent sequential loops side by side; Hogwild! on the same kernels;
averaging, which never waits and gives up the sequential answer; on dense rows the strategies that share out features,
which "auto" takes for them; and, where there is a GPU and PyTorch, mini-batch SGD on it. Time is that of all passes, at
least a second's worth of the sequential loop; runs of all of them take turns and the fastest counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import symsgd
from symsgd.bench.datasets import Dataset, load
from symsgd.bench.systems import pytorch as gpu
from symsgd.combiners import Curvature
from symsgd.penalties import L2
from symsgd.schedules import Constant
from symsgd.strategies import Auto, Averaging, Directions, Hogwild, MapReduce, Sequential, Sliced, Strategy
from symsgd.threads import available_cores
from symsgd.training import Result

STEP_SIZES = {
    "rcv1 twin": 0.5, "url twin": 1.0, "criteo twin": 0.03, "webspam twin": 1.0, "epsilon twin": 0.3,
    "adclick twin": 0.3, "imdb": 0.3, "nycflights13_ctr39": 0.3,
}  # fmt: skip
# the paper's sizes, or what trains in some seconds and two gigabytes: set-up is shared by as many rows as there it is
SCALES = {"rcv1": 1.0, "url": 1.0, "criteo": 1.0, "webspam": 0.2, "epsilon": 0.25, "adclick": 0.2}
STRATEGIES: dict[str, Strategy] = {
    "auto": Auto(),
    "curvature, auto": MapReduce(Curvature(), "auto"),
    "curvature, auto, tolerance 0.03": MapReduce(Curvature(tolerance=0.03), "auto"),
    "Hogwild!": Hogwild(),
    "averaging": Averaging(),
}
STORED_DENSE = ("adclick twin",)  # a third of whose numbers are not 0
LEAST_PASSES, LEAST_SECONDS = 10, 1.0
ALPHA = 1e-6


def train(data: Dataset, strategy: Strategy, n_threads: int, n_passes: int, seed: int = 0) -> tuple[Result, float]:
    """The result, and the seconds of all passes."""
    result = symsgd.train(
        data.X, np.asarray(data.y) > 0, loss="log_loss", penalty=L2(ALPHA), schedule=Constant(STEP_SIZES[data.name]),
        strategy=strategy, n_threads=n_threads, n_passes=n_passes, seed=seed,
    )  # fmt: skip
    return result, math.fsum(record.seconds for record in result.passes)


def side_by_side(data: Dataset, n_threads: int, n_passes: int) -> float:
    """Seconds that one of as many independent sequential loops has to itself: the machine's limit.

    Each has an order of its own: loops in the same one would find in the cache what another has fetched.
    """
    with ThreadPoolExecutor(n_threads) as pool:
        before = time.perf_counter()
        list(pool.map(lambda seed: train(data, Sequential(), 1, n_passes, seed), range(n_threads)))
        return (time.perf_counter() - before) / n_threads


def run(
    console: Console,
    folder: Path | None,
    repeats: int = 3,
    threads: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> None:
    if gpu.reason_against():
        console.print(f"GPU: skipped: {gpu.reason_against()}")
    table = Table(title="Logistic loss, set-up counted; times faster than the sequential loop")
    for column in ("data set", "threads", "", "ms a pass", "times sequential", "AUC", "distance", "block", "alone"):
        table.add_column(column, justify="left" if column in ("data set", "") else "right")
    for name in names or tuple(STEP_SIZES):
        data = load(name, folder, SCALES)
        if data.reason:
            table.add_row(name, "", f"skipped: {data.reason}")
            continue
        if name in STORED_DENSE:
            data = replace(data, X=data.X.toarray(), X_test=data.X_test.toarray())
        strategies = {"sequential": Sequential(), **STRATEGIES}
        if not sp.issparse(data.X):
            strategies |= {"sliced": Sliced(), "directions": Directions()}
            del strategies["curvature, auto, tolerance 0.03"]
        for cells in gpu_cells(data) if not gpu.reason_against() else ():
            table.add_row(f"{name}, {LEAST_PASSES} passes", "", *cells)
        once = train(data, Sequential(), 1, LEAST_PASSES)[1] / LEAST_PASSES
        n_passes = max(LEAST_PASSES, math.ceil(LEAST_SECONDS / once))
        for n_threads in threads or (available_cores(),):
            best: dict[str, float] = {}
            results: dict[str, Result] = {}
            for _ in range(repeats):
                for label, strategy in strategies.items():
                    results[label], seconds = train(data, strategy, n_threads, n_passes)
                    best[label] = min(best.get(label, math.inf), seconds)
                label = f"{n_threads} independent loops"
                best[label] = min(best.get(label, math.inf), side_by_side(data, n_threads, n_passes))
            for label, seconds in best.items():
                cells = [f"{1e3 * seconds / n_passes:.1f}", f"{best['sequential'] / seconds:.2f}"]
                if label in results:
                    cells += _closeness(data, results[label], results["sequential"])
                table.add_row(f"{name}, {n_passes} passes", str(n_threads), label, *cells)
            table.add_section()
    console.print(table)


def gpu_cells(data: Dataset) -> list[list[str]]:
    """What it is, ms a pass, nothing to compare with, AUC: for each size of batches."""
    found = []
    positive = np.asarray(data.y) > 0
    each = gpu.train_apart(data.X, positive, STEP_SIZES[data.name], ALPHA, gpu.BATCHES, LEAST_PASSES)
    for batch, trained in zip(gpu.BATCHES, each, strict=True):
        label = f"GPU, PyTorch, batches of {batch:,}"
        if trained.reason:
            found.append([f"{label}: {trained.reason}"])
            continue
        auc = roc_auc_score(np.asarray(data.y_test) > 0, data.X_test @ trained.coef)
        found.append([label, f"{1e3 * trained.seconds / LEAST_PASSES:.1f}", "", f"{auc:.5f}"])
    return found


def _closeness(data: Dataset, result: Result, sequential: Result) -> list[str]:
    auc = roc_auc_score(np.asarray(data.y_test) > 0, result.decision(data.X_test))
    distance = np.linalg.norm(result.coef - sequential.coef) / np.linalg.norm(sequential.coef)
    rows, merges = sum(record.rows for record in result.passes), sum(record.merges for record in result.passes)
    alone = sum(record.rows_alone for record in result.passes)
    block = f"{(rows - alone) / merges:.0f}" if merges else ""
    return [f"{auc:.5f}", f"{distance:.3f}", block, f"{alone / rows:.0%}" if merges else ""]
