"""How near the answers are: what holds, how the distance grows with the block, and every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symsgd.bench.records import Record, Row
from symsgd.bench.report.base import Cell, Chart, Section, Table, Theme, number
from symsgd.bench.report.grouping import command_of, file_name, grouped, loss_name, measured, reasons, rows_of
from symsgd.bench.report.style import figure, legend, line_of

TEXT = (
    "Parallel runs against the sequential run over the same rows in the same order, at the step size that is best for "
    "the latter. A run holds (✓) if its score (AUC; R² of regressions) is the sequential one to 0.0001 (R²: 0.001), or "
    "to a quarter of the standard deviation of the sequential score over seeds where that is larger, and its log loss "
    "to 0.5 %. Of strategies whose threads race the worst of several runs counts. Distance is ‖w − w_seq‖ / ‖w_seq‖."
)
VARIANTS = {"curvature, refined": ":", "MR-SymSGD, k = 63": "--", "MR-SymSGD, no soft curvature": ":"}
FLOOR, CEILING = 1e-5, 1e2  # of the axis of distances: below are hardly more than roundings, above nothing is left


def sections(records: Sequence[Record]) -> list[Section]:
    rows = rows_of(records, "distance")
    results = [worst(own) for own in grouped(rows, lambda row: row.key).values()]
    items: list[Table | Chart] = []
    if results:
        items += [_summary(results), *_charts(results), _baselines(rows_of(records, "sequential")), _all(results)]
    items += reasons(rows_of(records))
    return [Section("Fidelity: how near the parallel answers are", TEXT, command_of(records), items)]


def worst(runs: Sequence[Row]) -> Row:
    """Of the runs of the same thing: one that failed, or else the one whose score is farthest off."""
    return max(runs, key=lambda row: (bool(row.reason), abs(row.measures.get("difference", 0.0)), _distance(row)))


def holds(row: Row) -> bool:
    return not row.reason and row.measures.get("holds") == 1.0


def _distance(row: Row) -> float:
    return row.measures.get("distance", 0.0)


def _known(rows: Sequence[Row]) -> list[Row]:
    """Without sets that could not be had."""
    return [row for row in rows if row.system]


def _summary(results: Sequence[Row]) -> Table:
    """Systems and losses: of how many sets, threads and blocks each holds."""
    results = _known(results)
    losses = list(dict.fromkeys(row.loss for row in results))
    lines = []
    for system, own in grouped(results, lambda row: row.system).items():
        line = [Cell(system)]
        for loss in losses:
            each = [row for row in own if row.loss == loss]
            line.append(_share(sum(map(holds, each)), len(each)))
        diverged = sum(bool(row.reason) for row in own)
        distances = [_distance(row) for row in measured(own)]
        line += [number(max(distances, default=None), ".2g"), number(diverged, "d")]
        lines.append(line)
    columns = ("system", *(f"{loss_name(loss)}: holds" for loss in losses), "largest distance", "diverged")
    note = "Of all sets, numbers of threads and sizes of blocks."
    return Table("Which systems hold the sequential answer", columns, lines, note)


def _share(part: int, whole: int) -> Cell:
    if not whole:
        return Cell("")
    return Cell(f"{part} of {whole}", part / whole, part == whole)


def _baselines(rows: Sequence[Row]) -> Table:
    lines = []
    for (data, loss), own in grouped(measured(rows), lambda row: (row.data, row.loss)).items():
        name = "r2" if "r2" in own[0].measures else "auc"
        scores = [row.measures[name] for row in own]
        lines.append([
            Cell(data), Cell(loss_name(loss)), number(own[0].settings.get("step_size"), "g"),
            number(own[0].settings.get("passes"), "d"), number(scores[0], ".5f"),
            number(max(scores) - min(scores), ".5f"), number(len(scores), "d"),
            number(own[0].measures.get("log_loss"), ".5f"),
        ])  # fmt: skip
    columns = ("data set", "loss", "step size", "passes", "AUC or R²", "largest less smallest", "seeds", "log loss")
    return Table("The sequential runs", columns, lines)


def _all(results: Sequence[Row]) -> Table:
    columns = (
        "data set", "loss", "system", "combiner", "threads", "block", "difference", "tolerance", "holds", "log loss",
        "distance", "measured error", "mean block", "rank", "rows alone",
    )  # fmt: skip
    lines = []
    for row in _known(results):
        found = row.measures
        change, alone = found.get("log_loss_change"), found.get("alone")
        block = row.settings.get("block_size")
        lines.append([
            Cell(row.data), Cell(loss_name(row.loss)), Cell(row.system), Cell(str(row.settings.get("combiner", ""))),
            number(row.threads, "d"), number(block if _has_block(row) else None, "d"),
            number(found.get("difference"), "+.5f"), number(found.get("tolerance"), ".5f"), _mark(row),
            number(change, "+.2%"), number(found.get("distance"), ".2g"), number(found.get("error"), ".3f"),
            number(found.get("block"), ".0f"), number(found.get("rank"), ".0f"), number(alone, ".0%"),
        ])  # fmt: skip
    note = "Rows alone: the share that one thread has trained, as no round was worth it or merges were undone."
    return Table("Every run", columns, lines, note)


def _mark(row: Row) -> Cell:
    if row.reason:
        return Cell(f"✗ {row.reason}", -1.0, False)
    return Cell("✓", 1.0, True) if holds(row) else Cell("✗", 0.0, False)


def _charts(results: Sequence[Row]) -> list[Chart]:
    """One a data set, with a panel a loss; of several numbers of threads the largest."""
    charts = []
    for data, own in grouped(measured(_known(results)), lambda row: row.data).items():
        text = (
            f"Distance to the sequential model by block size on {data}, a line a system; logarithmic axes, cut at "
            f"{FLOOR:g} and {CEILING:g}"
        )
        title = f"{data}: distance to the sequential model by block size"

        def draw(theme: Theme, own: Sequence[Row] = own) -> Any:
            return _draw(own, theme)

        charts.append(Chart(file_name("fidelity", data), title, text, draw))
    return charts


def _draw(rows: Sequence[Row], theme: Theme) -> Any:
    losses = grouped(rows, lambda row: row.loss)
    drawn, axes = figure(theme, columns=len(losses), width=4.2 * len(losses) + 0.6, height=4.6)
    for place, (loss, own) in zip(axes, losses.items(), strict=True):
        place.set_title(loss_name(loss))
        place.set_xscale("log", base=2)
        place.set_yscale("log")
        place.set_xlabel("rows a block")
        blocks = sorted({_block(row) for row in own if _has_block(row)})
        place.set_xticks(blocks, [f"{block:,}" for block in blocks])
        place.minorticks_off()
        for system, each in grouped(own, lambda row: row.system).items():
            _line(place, system, each, theme)
    axes[0].set_ylabel("‖w − w_seq‖ / ‖w_seq‖")
    legend(drawn, theme)
    return drawn


def _line(place: Any, system: str, rows: Sequence[Row], theme: Theme) -> None:
    """By the size given; "auto" is a point at its mean block, and what has no blocks a level across."""
    most = max(row.threads for row in rows)
    rows = [row for row in rows if row.threads == most]
    look = line_of(system, theme) | ({"linestyle": VARIANTS[system]} if system in VARIANTS else {})
    given = sorted(filter(_has_block, rows), key=_block)
    if given:
        place.plot([_block(row) for row in given], [_shown(row) for row in given], label=system, **look)
        return
    for row in rows:
        if system == "auto":  # where no round was worth it, it has the sequential answer and no blocks
            at = row.measures.get("block", place.get_xticks()[0] if len(place.get_xticks()) else 1)
            star = look | {"linestyle": "none", "markersize": 13, "marker": "*"}
            place.plot([at], [_shown(row)], label=system, **star)
        else:
            place.axhline(_shown(row), color=look["color"], linestyle=(0, (1, 3)), label=system)


def _shown(row: Row) -> float:
    return min(max(_distance(row), FLOOR), CEILING)


def _has_block(row: Row) -> bool:
    return bool(row.settings.get("block_size", "") != "")


def _block(row: Row) -> int:
    return int(row.settings["block_size"])
