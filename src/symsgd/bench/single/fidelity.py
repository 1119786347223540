"""How near the parallel answers are to the sequential one, and at which block size each combiner gives up.

For each data set and loss the step size is swept for the best sequential AUC after ten passes and then fixed. A
parallel run over the same order *holds* if its AUC is that of the sequential run to 1e-4, or to a quarter of the spread
(largest less smallest) of the sequential AUC over ten seeds where that is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import symsgd
from symsgd.bench.datasets import Dataset, load
from symsgd.combiners import Combiner, Mean, Projected, Sum
from symsgd.errors import DivergenceError
from symsgd.penalties import L2
from symsgd.schedules import Constant
from symsgd.strategies import Async, MapReduce, Sequential, Strategy
from symsgd.threads import available_cores
from symsgd.training import Result

NAMES = ("imdb", "nycflights13_ctr39", "kdd99", "a9a", "w8a")
STEP_SIZES = {
    "log_loss": (0.03, 0.1, 0.3, 1.0, 3.0),
    "hinge": (0.003, 0.01, 0.03, 0.1, 0.3),
    "squared_error": (0.001, 0.003, 0.01, 0.03, 0.1),
}
COMBINERS: dict[str, Combiner] = {
    "MR, k = 63": Projected(63),
    "MR, k = 15": Projected(15),
    "MR, k = 7": Projected(7),
    "MR, k = 15, no soft curvature": Projected(15, soft_curvature=False),
    "MR, sum": Sum(),
    "MR, mean": Mean(),
}
BLOCKS = (16, 64, 256, 1024)
PASSES, SEEDS, ROUND, ASYNC_RUNS = 10, 10, 16, 5
ALPHA = 1e-6


@dataclass(frozen=True)
class Baseline:
    """The sequential run at its best step size, and how near is near enough."""

    step_size: float
    result: Result
    auc: float
    spread: float

    @property
    def tolerance(self) -> float:
        return max(1e-4, self.spread / 4)


def train(data: Dataset, loss: str, step_size: float, strategy: Strategy, n_threads: int, seed: int = 0) -> Result:
    return symsgd.train(
        data.X, np.where(np.asarray(data.y) > 0, 1, -1), loss=loss, classes=[-1, 1], penalty=L2(ALPHA),
        schedule=Constant(step_size), strategy=strategy, n_threads=n_threads, n_passes=PASSES, seed=seed,
    )  # fmt: skip


def score(data: Dataset, result: Result) -> float:
    """Held-out AUC."""
    return float(roc_auc_score(np.asarray(data.y_test) > 0, result.decision(data.X_test)))


def find_baseline(data: Dataset, loss: str) -> Baseline:
    best: tuple[float, float, Result] | None = None
    for step_size in STEP_SIZES[loss]:
        try:
            result = train(data, loss, step_size, Sequential(), 1)
        except DivergenceError:
            continue
        auc = score(data, result)
        if best is None or auc > best[0]:
            best = (auc, step_size, result)
    assert best is not None, "every step size diverges"
    auc, step_size, result = best
    others = [score(data, train(data, loss, step_size, Sequential(), 1, seed)) for seed in range(1, SEEDS)]
    return Baseline(step_size, result, auc, max(auc, *others) - min(auc, *others))


def judge(data: Dataset, loss: str, baseline: Baseline, strategy: Strategy, n_threads: int, runs: int) -> str:
    """Difference in AUC of the worst of ``runs``, marked where it holds, and its distance from the sequential model."""
    worst, distance = 0.0, 0.0
    for _ in range(runs):
        try:
            result = train(data, loss, baseline.step_size, strategy, n_threads)
        except DivergenceError:
            return "diverges"
        difference = score(data, result) - baseline.auc
        if abs(difference) >= abs(worst):
            norm = float(np.linalg.norm(baseline.result.coef))
            worst, distance = difference, float(np.linalg.norm(result.coef - baseline.result.coef)) / norm
    mark = " ✓" if abs(worst) <= baseline.tolerance else ""
    return f"{worst:+.5f} ({distance:.2f}){mark}"


def run(
    console: Console, folder: Path | None, names: Sequence[str] = NAMES, losses: Sequence[str] = tuple(STEP_SIZES)
) -> None:
    cores = available_cores()
    console.print(
        f"{PASSES} passes; AUC less the sequential AUC (distance of the models over the norm); ✓ holds it. "
        f"MR-SymSGD with {ROUND} threads; Async-SymSGD with {cores}, the worst of {ASYNC_RUNS} runs."
    )
    for name in names:
        data = load(name, folder)
        if data.reason:
            console.print(f"{name}: skipped: {data.reason}")
            continue
        for loss in losses:
            baseline = find_baseline(data, loss)
            table = Table(
                title=f"{name}, {loss}, step size {baseline.step_size:g}: sequential AUC {baseline.auc:.5f}, "
                f"spread {baseline.spread:.5f}, tolerance {baseline.tolerance:.5f}"
            )
            table.add_column("combiner")
            for block in BLOCKS:
                table.add_column(f"block {block}", justify="right")
            for label, combiner in COMBINERS.items():
                cells = [judge(data, loss, baseline, MapReduce(combiner, block), ROUND, 1) for block in BLOCKS]
                table.add_row(label, *cells)
            cells = [judge(data, loss, baseline, Async(Projected(15), block), cores, ASYNC_RUNS) for block in BLOCKS]
            table.add_row("Async, k = 15", *cells)
            console.print(table)
