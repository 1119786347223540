"""A GPU beside the CPU: a table of all systems, and speedups by threads with a line a GPU's."""

from __future__ import annotations

from collections.abc import Sequence

from symsgd.bench.records import Row
from symsgd.bench.report.base import Cell, Chart, Table, number
from symsgd.bench.report.grouping import grouped, least, measured
from symsgd.bench.report.scaling_charts import on_gpu, speedups

NOTE = (
    "A pass is one after the first. The first is from the call to its end, the first time: checking and copying rows, "
    "compiling kernels (once a process) and what is kept of the rows are in it. Rows a round: of all blocks of the GPU."
)
COLUMNS = (
    "data set", "system", "threads", "passes", "ms a pass", "times sequential", "first pass, s", "AUC",
    "AUC less sequential", "distance", "error", "rows a block", "rows a round", "rows alone", "",
)  # fmt: skip


def items(rows: Sequence[Row]) -> list[Table | Chart]:
    charts = speedups(measured(rows), "GPU")
    lines = []
    for data, own in grouped((row for row in rows if row.system), lambda row: row.data).items():
        sequential = least([row for row in own if row.system == "sequential"], "pass_seconds")
        for same in grouped(own, lambda row: row.key).values():
            lines.append(_line(data, same, sequential))
    return [*charts, Table("A GPU beside the CPU", COLUMNS, lines, NOTE)] if lines else [*charts]


def _line(data: str, same: Sequence[Row], sequential: float | None) -> list[Cell]:
    first, seconds = same[0], least(same, "pass_seconds")
    times = sequential / seconds if sequential and seconds else None
    found = next((row.measures for row in same if not row.reason), {})
    return [
        Cell(data), Cell(first.system), Cell("") if on_gpu(first) else number(first.threads, "d"),
        number(first.settings.get("passes"), "d"), number(None if seconds is None else 1e3 * seconds, ".4g"),
        number(times, ".2f"), number(found.get("first_seconds"), ".3g"), number(found.get("auc"), ".5f"),
        number(found.get("auc_difference"), "+.5f"), number(found.get("distance"), ".2g"),
        number(found.get("error"), ".2g"), number(found.get("block"), ",.0f"), number(found.get("round"), ",.0f"),
        number(found.get("alone"), ".0%"), Cell(next((row.reason for row in same if row.reason), "")),
    ]  # fmt: skip
