"""Seconds a pass of every strategy, over the sequential loop and over Hogwild!, all on the same kernels; Vowpal Wabbit
beside them on one thread."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import symsgd
from symsgd.bench.datasets import Dataset, load
from symsgd.bench.single.systems import ALPHA, STEP_SIZE, VowpalWabbit
from symsgd.combiners import Projected
from symsgd.penalties import L2
from symsgd.schedules import Constant
from symsgd.strategies import (
    AllReduce,
    Async,
    Averaging,
    HogBatch,
    Hogwild,
    MapReduce,
    ParameterServer,
    RoundRobin,
    Sequential,
    Strategy,
)  # fmt: skip
from symsgd.threads import available_cores
from symsgd.training import Result

NAMES = ("imdb", "nycflights13_ctr39", "nycflights13_x2", "kdd99", "a9a", "w8a", "rcv1 twin", "mnist_rff")
STRATEGIES: dict[str, Strategy] = {
    "sequential": Sequential(),
    "Hogwild!": Hogwild(),
    "HogBatch, 16": HogBatch(16),
    "round robin, batches of 64": RoundRobin(64),
    "averaging": Averaging(),
    "AllReduce": AllReduce(),
    "parameter server, 256": ParameterServer(256),
    "MR-SymSGD, k = 7, 256": MapReduce(Projected(7), 256),
    "MR-SymSGD, k = 15, 256": MapReduce(Projected(15), 256),
    "Async-SymSGD, k = 7, 256": Async(Projected(7), 256),
    "Async-SymSGD, k = 15, 256": Async(Projected(15), 256),
}
PASSES = 5


def train(data: Dataset, strategy: Strategy, n_threads: int) -> Result:
    """Logistic regression, constant step, L2."""
    return symsgd.train(
        data.X, np.asarray(data.y) > 0, loss="log_loss", penalty=L2(ALPHA), schedule=Constant(STEP_SIZE),
        strategy=strategy, n_threads=n_threads, n_passes=PASSES,
    )  # fmt: skip


def run(console: Console, folder: Path | None, repeats: int = 5, threads: tuple[int, ...] | None = None) -> None:
    """Repeats run every strategy in turn; the fastest pass of each counts."""
    threads = threads or tuple(sorted({1, available_cores()}))
    table = Table(title=f"Logistic loss, step size {STEP_SIZE}, {PASSES} passes; the fastest pass of {repeats} runs")
    for column in ("data set", "threads", "strategy", "ms a pass", "over sequential", "over Hogwild!", "AUC"):
        table.add_column(column, justify="left" if column in ("data set", "strategy") else "right")
    for name in NAMES:
        data = load(name, folder)
        if data.reason:
            table.add_row(name, "", f"skipped: {data.reason}")
            continue
        vowpal = VowpalWabbit()
        reason = vowpal.set_up(data)
        for n_threads in threads:
            best: dict[str, float] = {}
            results: dict[str, Result] = {}
            for _ in range(repeats):
                for label, strategy in STRATEGIES.items():
                    results[label] = train(data, strategy, n_threads)
                    fastest = min(record.seconds for record in results[label].passes)
                    best[label] = min(best.get(label, math.inf), fastest)
                if n_threads == 1 and not reason:
                    seconds = (vowpal.run(PASSES) - vowpal.run(1)) / (PASSES - 1)
                    best[vowpal.name] = min(best.get(vowpal.name, math.inf), seconds)
            for label, seconds in best.items():
                auc = f"{_auc(data, results[label]):.4f}" if label in results else ""
                table.add_row(
                    name, str(n_threads), label, f"{seconds * 1e3:.2f}", f"{seconds / best['sequential']:.2f}",
                    f"{seconds / best['Hogwild!']:.2f}", auc,
                )  # fmt: skip
            table.add_section()
        if not reason:
            vowpal.tear_down()
    console.print(table)


def _auc(data: Dataset, result: Result) -> float:
    scores = result.decision(data.X_test if sp.issparse(data.X_test) else np.ascontiguousarray(data.X_test))
    return float(roc_auc_score(np.asarray(data.y_test) > 0, scores))
