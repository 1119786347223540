"""One thread, side by side: seconds a pass of symsgd, scikit-learn and Vowpal Wabbit, same data, same passes."""

from __future__ import annotations

import math
from pathlib import Path

import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from symsgd.bench.datasets import load
from symsgd.bench.single.systems import ScikitLearn, Symsgd, SymsgdFull, System, VowpalWabbit

SPARSE = ("imdb", "nycflights13_ctr39", "nycflights13_x2", "kdd99", "rcv1 twin")
OTHERS = ("mnist_rff", "mnist10")


def run(console: Console, folder: Path | None, repeats: int = 5, passes: int = 10) -> None:
    """Each repeat runs every system once for 1 pass and once for ``passes``; the fastest of each counts.

    "fit" is the whole call, checks and all, for ``passes`` passes; "pass" is what one more pass costs.
    """
    table = Table(title=f"One thread, logistic loss, {passes} passes; ratios are times over symsgd's")
    for column in ("data set", "system", "fit, s", "ms a pass", "ns a nonzero", "fit ratio", "pass ratio", "AUC"):
        table.add_column(column, justify="left" if column in ("data set", "system") else "right")
    ratios: dict[str, list[float]] = {}
    for name in (*SPARSE, *OTHERS):
        data = load(name, folder)
        if data.reason:
            table.add_row(name, f"skipped: {data.reason}")
            continue
        nonzeros = data.X.nnz if sp.issparse(data.X) else data.X.size
        systems: list[System] = [Symsgd(), SymsgdFull(), ScikitLearn(), VowpalWabbit()]
        reasons = [system.set_up(data) for system in systems]
        best: dict[str, tuple[float, float]] = {}
        for _ in range(repeats):
            for system, reason in zip(systems, reasons, strict=True):
                if not reason:
                    once, whole = system.run(1), system.run(passes)
                    fastest = best.get(system.name, (math.inf, math.inf))
                    best[system.name] = (min(fastest[0], once), min(fastest[1], whole))
        ours_once, ours = best[Symsgd.name]
        for system, reason in zip(systems, reasons, strict=True):
            if reason:
                table.add_row(name, system.name, f"skipped: {reason}")
                continue
            once, whole = best[system.name]
            per_pass = (whole - once) / (passes - 1)
            ratio = per_pass * (passes - 1) / (ours - ours_once)
            if name in SPARSE:
                ratios.setdefault(system.name, []).append(ratio)
            auc = system.auc()
            table.add_row(
                name, system.name, f"{whole:.3f}", f"{per_pass * 1e3:.2f}", f"{per_pass / nonzeros * 1e9:.2f}",
                f"{whole / ours:.2f}", f"{ratio:.2f}", "" if auc is None else f"{auc:.4f}",
            )  # fmt: skip
            system.tear_down()
        table.add_section()
    console.print(table)
    for name, values in ratios.items():
        mean = math.exp(math.fsum(map(math.log, values)) / len(values))
        console.print(
            f"{name}: geometric mean of the pass ratios on the sparse sets {mean:.2f}, least {min(values):.2f}"
        )
