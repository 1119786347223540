"""Scaling: growth, threads, the GPU and the memory, a section each."""

from __future__ import annotations

from collections.abc import Sequence

from symsgd.bench.records import Record, Row
from symsgd.bench.report import scaling_gpu
from symsgd.bench.report.base import Cell, Chart, Section, Table, number
from symsgd.bench.report.grouping import command_of, grouped, least, measured, reasons, rows_of
from symsgd.bench.report.scaling_charts import GROWTH, bandwidths, growth, speedups

SECTIONS = {
    ("rows", "features", "nonzeros"): (
        "Scaling: time against rows, features and nonzeros",
        "Made sparse rows that grow in one number, the others as they are; logistic loss; the fastest of the repeats, "
        "set-up counted. Dotted lines are proportional to rows and nonzeros, and level in features.",
    ),
    ("threads",): (
        "Scaling: time against threads",
        "Logistic loss at a constant step size, set-up counted, the fastest of the repeats. Independent loops are "
        "sequential loops side by side, each with an order of its own: what the machine has to give. Differences and "
        "distances are to the sequential run after as many passes. On one thread auto is the sequential loop.",
    ),
    ("GPU",): (
        "Scaling: a GPU beside the CPU at every number of threads",
        "Logistic loss at a constant step size, the fastest of the repeats. Exact goes from row to row; symsgd without "
        "it merges rounds by the curvature combiner; batches are mini-batch SGD in PyTorch. Differences and distances "
        "are to the sequential run in the same order, after as many passes. On one thread auto is the sequential loop.",
    ),
    ("memory",): (
        "Scaling: against the memory",
        "What threads read from the memory, measured on the spot, and the bytes of dense rows that passes go through.",
    ),
}


def sections(records: Sequence[Record]) -> list[Section]:
    """Those that there are rows for."""
    found = []
    items_of = {"rows": _growth, "threads": _threads, "GPU": scaling_gpu.items, "memory": _memory}
    for parts, (title, text) in SECTIONS.items():
        rows = [row for row in rows_of(records) if row.part in parts]
        if rows:
            items = [*items_of[parts[0]](rows), *reasons(rows)]
            found.append(Section(title, text, command_of(records), items))
    return found


def _growth(rows: Sequence[Row]) -> list[Table | Chart]:
    items: list[Table | Chart] = []
    own = measured(rows)
    if own:
        items.append(growth(own))
    for part, each in grouped(rows, lambda row: row.part).items():
        lines = []
        for same in grouped(each, lambda row: row.key).values():
            first = same[0]
            seconds, per_nonzero = least(same, "pass_seconds"), least(same, "ns_per_nonzero")
            lines.append([
                *(number(first.settings[name], ",d") for name in GROWTH), Cell(first.system),
                number(first.threads, "d"), number(None if seconds is None else 1e3 * seconds, ".3g"),
                number(per_nonzero, ".3g"), number(least(same, "alone"), ".0%"), Cell(first.reason),
            ])  # fmt: skip
        columns = (
            "rows", "features", "nonzeros a row", "system", "threads", "ms a pass", "ns a nonzero", "rows alone", "",
        )  # fmt: skip
        note = "Rows alone: the share that one thread has trained; all where auto has chosen the sequential loop."
        items.append(Table(f"Growing {part}", columns, lines, note))
    return items


def _threads(rows: Sequence[Row]) -> list[Table | Chart]:
    items: list[Table | Chart] = [*speedups(measured(rows), "threads")]
    lines = []
    for data, own in grouped((row for row in rows if row.system), lambda row: row.data).items():
        sequential = least([row for row in own if row.system == "sequential"], "pass_seconds")
        for same in grouped(own, lambda row: row.key).values():
            lines.append(_line(data, same, sequential))
    columns = (
        "data set", "system", "threads", "passes", "ms a pass", "times sequential", "AUC", "AUC less sequential",
        "distance", "mean block", "rows alone", "",
    )  # fmt: skip
    if lines:
        items.append(Table("Every system at every number of threads", columns, lines))
    return items


def _line(data: str, same: Sequence[Row], sequential: float | None) -> list[Cell]:
    first, seconds = same[0], least(same, "pass_seconds")
    times = sequential / seconds if sequential and seconds else None
    found = next((row.measures for row in same if not row.reason), {})
    return [
        Cell(data), Cell(first.system), number(first.threads, "d"), number(first.settings.get("passes"), "d"),
        number(None if seconds is None else 1e3 * seconds, ".4g"), number(times, ".2f"),
        number(found.get("auc"), ".5f"), number(found.get("auc_difference"), "+.5f"),
        number(found.get("distance"), ".2g"), number(found.get("block"), ",.0f"), number(found.get("alone"), ".0%"),
        Cell(next((row.reason for row in same if row.reason), "")),
    ]  # fmt: skip


def _memory(rows: Sequence[Row]) -> list[Table | Chart]:
    own = measured(rows)
    lines = []
    for same in grouped((row for row in rows if row.system), lambda row: row.key).values():
        speed = max((row.measures["bytes_per_second"] for row in measured(same)), default=None)
        share = max((row.measures["share"] for row in measured(same) if "share" in row.measures), default=None)
        lines.append([
            Cell(same[0].system), number(same[0].threads, "d"), number(None if speed is None else speed / 1e9, ".1f"),
            number(share, ".0%"), Cell(same[0].reason),
        ])  # fmt: skip
    columns = ("system", "threads", "GB/s", "of the bandwidth", "")
    table = Table("Dense rows against the memory", columns, lines, "The best of the repeats.")
    return [bandwidths(own), table] if own else [table]
