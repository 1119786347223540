"""How near rounds that are refined to the end are to the sequential run: ``MapReduce(Curvature(refine=15), 256)``.

As many sweeps as a round of 16 blocks has blocks, less one, are sequential SGD to rounding. What rounding comes to
after all passes, in the settings of the curvature benchmark, is what the table shows: the largest difference of the
score and the largest distance of the models over the norm. Where gradients jump, one rounding may turn a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from symsgd.bench.datasets import Dataset, load, names_in
from symsgd.bench.single.curvature import STEP_SIZES, THREADS, TWIN_NAMES, Fit, cases_of, score
from symsgd.combiners import Curvature
from symsgd.errors import DivergenceError
from symsgd.strategies import MapReduce, Sequential

BLOCK_SIZE = 256


def compare(data: Dataset, loss: str, fit: Fit) -> tuple[float, float, bool]:
    """The difference of the score, the distance of the models, and whether both runs had as many passes."""
    sequential = fit(Sequential(), 0)
    result = fit(MapReduce(Curvature(refine=THREADS - 1), BLOCK_SIZE), 0)
    distance = float(np.linalg.norm(result.coef - sequential.coef) / np.linalg.norm(sequential.coef))
    difference = score(data, loss, result).value - score(data, loss, sequential).value
    return difference, distance, result.n_passes == sequential.n_passes


def run(
    console: Console, folder: Path | None, names: Sequence[str] | None = None, losses: Sequence[str] = tuple(STEP_SIZES)
) -> None:
    table = Table(title=f"{THREADS} blocks of {BLOCK_SIZE} rows a round, {THREADS - 1} sweeps")
    for column in ("set", "loss", "settings", "largest difference", "largest distance", "other passes"):
        table.add_column(column, justify="left" if column in ("set", "loss") else "right")
    for name in names or (*TWIN_NAMES, *names_in(folder)):
        data = load(name, folder)
        if data.reason:
            console.print(f"{name}: skipped: {data.reason}")
            continue
        for loss in losses:
            found = []
            for fit in cases_of(data, loss).values():
                try:
                    found.append(compare(data, loss, fit))
                except DivergenceError:
                    continue
            if not found:
                continue
            differences, distances, same = zip(*found, strict=True)
            row = (
                name, loss, str(len(found)), f"{max(map(abs, differences)):.1e}", f"{max(distances):.1e}",
                str(same.count(False)),
            )  # fmt: skip
            console.print(" | ".join(row), style="dim")
            table.add_row(*row)
    console.print(table)
