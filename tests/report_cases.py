"""Made-up runs and sections, as the protocols make them: page, Markdown and comparison are tried on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from symsgd.bench.environment import Environment
from symsgd.bench.records import Record, Row, Run
from symsgd.bench.report.base import Cell, Chart, Section, Table, Theme, number

ENVIRONMENT = Environment(
    processor="Example EX-4210 @ 2.40GHz", cores=8, memory=33.5, gpu="", instruction_set="avx2", pinned=False,
    system="Linux x86_64", python="3.13.1", commit="0123456789ab",
    versions={"symsgd": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1", "scikit-learn": "1.9.1"},
)  # fmt: skip
COMMAND = "symsgd bench quick --size quick"
SYSTEMS = ("sequential", "auto", "Async-SymSGD", "MR-SymSGD", "Hogwild!", "averaging")
SETS = ("rcv1 twin", "url twin", "aloi twin", "kdda twin")
THREADS = (1, 2, 4, 8)


def run_named(name: str, started: str = "2026-02-01T10:00:00+00:00", **changed: Any) -> Run:
    return Run(
        **{"name": name, "started": started, "command": COMMAND, "size": "quick", "environment": ENVIRONMENT} | changed
    )


def records(run: Run, rows: Iterable[Row]) -> list[Record]:
    return [Record(run, row) for row in rows]


def row_of(system: str = "auto", *, reason: str = "", threads: int = 1, repeat: int = 0, **measures: float) -> Row:
    return Row("quick", "speed", "rcv1 twin", system, threads, repeat=repeat, measures=measures, reason=reason)


def rows_with_noise(
    seed: int, noise: float, repeats: int = 3, factor: Callable[[Row], float] = lambda row: 1.0
) -> list[Row]:
    """Every system on every set at every number of threads. Times scatter by ``noise``, and one in fifty by more if it
    is not the only one of its kind; ``factor`` is what a row is slower by."""
    rng = np.random.default_rng(seed)
    rows = []
    for repeat in range(repeats):
        for at, (data, system, threads) in enumerate((d, s, t) for d in SETS for s in SYSTEMS for t in THREADS):
            auc = 0.95 - 0.01 * (at % 7)
            if system == "Hogwild!" and threads > 1:
                auc += 2e-4 * rng.standard_normal()
            row = Row(
                "quick", "speed", data, system, threads, repeat=repeat, settings={"passes": 10, "block_size": 200}
            )
            busy = 1 + (0.5 * rng.random() if repeats > 1 and rng.random() < 0.02 else 0)
            seconds = (0.02 + 0.013 * at) / threads * factor(row) * math.exp(noise * rng.standard_normal()) * busy
            measures = {"seconds": seconds, "auc": auc}
            rows.append(Row(**vars(row) | {"measures": measures}))
    return rows


def speedups(theme: Theme) -> Any:
    from symsgd.bench.report.style import figure, legend, line_of

    drawn, axes = figure(theme, columns=2, width=9.0, height=3.6)
    for own, data in zip(axes, ("rcv1 twin", "url twin"), strict=True):
        for at, system in enumerate(SYSTEMS):
            own.plot(
                THREADS, [n ** (1 - 0.17 * at) if at else 1.0 for n in THREADS], label=system, **line_of(system, theme)
            )
        own.set(title=data, xlabel="threads", ylabel="times faster than sequential")
    legend(drawn, theme)
    return drawn


def curve(theme: Theme) -> Any:
    from symsgd.bench.report.style import figure, legend, line_of

    drawn, (axes,) = figure(theme)
    passes = np.arange(1, 11)
    for at, system in enumerate(SYSTEMS):
        axes.plot(passes, 0.08 + 0.4 / (passes + at), label=system, **line_of(system, theme))
    axes.set(xlabel="passes", ylabel="log loss", yscale="log")
    legend(drawn, theme)
    return drawn


def sections() -> list[Section]:
    """A bit of all that a section can have: wide and long tables, marks, reasons, empty ones, text that must be
    escaped."""
    wide = Table(
        "The paper's table, on twins",
        ["data", "features", "rows", "NNZ", "NFNZ", "AUC logistic", "AUC linear", "speedup logistic", "speedup linear",
         "auto"],
        [
            [Cell("rcv1 twin"), number(47236, ",.0f"), number(804414, ",.0f"), number(73.2), number(9.8),
             number(0.9586), number(0.9561), Cell("2.31×", 2.31, True), Cell("2.9×", 2.9, True), Cell("7.4×", 7.4)],
            [Cell("url twin"), number(3231961, ",.0f"), number(2396130, ",.0f"), number(115.6), number(84.1),
             number(0.9991), number(0.9986), Cell("1.12×", 1.12), Cell("0.94×", 0.94, False), Cell("5.2×", 5.2)],
            [Cell("aloi twin"), number(128), number(108000, ",.0f"), number(24.1), number(24.1), number(0.9123),
             number(0.9083), Cell("10.2×", 10.2, True), Cell("9.7×", 9.7, True), Cell("6.9×", 6.9)],
            [Cell("kdda twin"), number(20216830, ",.0f"), number(8407752, ",.0f"), number(36.3), number(12.0),
             Cell("diverged"), Cell(""), Cell("not measured: it needs 11.2 GB and there are 8.1 GB"), Cell("")],
        ],
        "Speedups are of Async-SymSGD over Hogwild! at the most threads, mean of five runs; ✓ marks those above 1.2.",
    )  # fmt: skip
    long = Table(
        "Distance to the sequential run",
        ["data", "system", "threads", "block size", "distance", "AUC difference"],
        [
            [Cell(data), Cell(system), number(threads, "d"), number(200, "d"), number(1e-4 * threads * (at + 1), ".2e"),
             Cell(f"{1e-5 * at:.0e}", 1e-5 * at, good=at < 3)]
            for data in SETS for at, system in enumerate(SYSTEMS[1:]) for threads in THREADS[1:]
        ],
    )  # fmt: skip
    return [
        Section(
            "The paper's table and figures",
            "For each set the step size with the best AUC after 10 passes, then the fastest block size that holds the "
            "sequential AUC to the fourth digit.\n\nTwins have the counts of the originals: `symsgd twin` makes them.",
            "symsgd bench paper --size reduced --threads 1,2,4,8",
            [wide, Chart("paper-speedup-logistic", "Speedup over one sequential thread", "Lines by threads, one a "
             "system: auto is the highest on both sets, averaging flattens from 4 threads on.", speedups)],
        ),
        Section(
            "Fidelity", "How far from the sequential run each strategy ends.", "symsgd bench fidelity --size quick",
            [long],
        ),
        Section(
            "Convergence", "Loss by passes.", "symsgd bench convergence --size quick",
            [Chart("convergence-a", "rcv1 twin", "All fall; auto lies on sequential.", curve),
             Chart("convergence-b", "url twin", "All fall; averaging is last.", curve)],
        ),
        Section(
            "Peers", 'Where a peer is <missing> & why: "quoted".', "symsgd bench peers --sets 'rcv1 twin'",
            [Table("Time to 1 % of the best <objective>", ["system", "seconds"], [
                [Cell("scikit-learn saga"), number(10.5)], [Cell("Vowpal Wabbit"), number(9.25)],
                [Cell("symsgd auto"), number(0.61)], [Cell("snapml"), Cell("skipped: <not> installed & no wheel")],
             ]), Table("Dense least squares", ["system", "seconds"], [])],
        ),
    ]  # fmt: skip
