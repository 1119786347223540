"""Curves: how far above the least objective, after how many passes and after how many seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from symsgd.bench.records import Record, Row
from symsgd.bench.report.base import Cell, Chart, Section, Table, Theme, number
from symsgd.bench.report.grouping import (
    average,
    command_of,
    file_name,
    grouped,
    loss_name,
    measured,
    reasons,
    rows_of,
)
from symsgd.bench.report.style import figure, legend, line_of

TEXT = (
    "After every pass the training objective, mean loss + (alpha/2)‖w‖², and the held-out loss and score, computed "
    "after the run and not on the clock. Seconds are those of the passes alone, set-up within them counted. All run at "
    "the constant step size at which the sequential objective is least in the end. The objective is shown above the "
    "least there is, which Newton's method has found, or else above the least of the table."
)
NEVER = 1e30  # sorts after all that has come there
LABELS = {"auc": "AUC", "r2": "R²", "log_loss": "held-out log loss"}


@dataclass(frozen=True)
class Point:
    """The mean of the runs after a pass."""

    number: int
    measures: dict[str, float]


@dataclass(frozen=True)
class Curve:
    system: str
    threads: int
    points: Sequence[Point]
    reason: str = ""

    @property
    def label(self) -> str:
        return self.system if self.threads == 1 else f"{self.system}, {self.threads} threads"

    def values(self, measure: str) -> list[float]:
        return [point.measures[measure] for point in self.points if measure in point.measures]

    def seconds_to(self, objective: float) -> float | None:
        """When it is as low for the first time."""
        for point in self.points:
            if point.measures["objective"] <= objective:
                return point.measures["seconds"]
        return None


def sections(records: Sequence[Record]) -> list[Section]:
    rows = rows_of(records)
    items: list[Table | Chart] = []
    for (data, loss), own in grouped((row for row in rows if row.system), lambda row: (row.data, row.loss)).items():
        curves = curves_of([row for row in own if row.part == "passes"])
        if not any(curve.points for curve in curves):
            continue
        floor = least_objective(own, curves)
        where = f"{data}, {loss_name(loss)}"
        items += [_objectives(where, curves, floor), _scores(where, curves), _table(where, curves, floor)]
    items += reasons(rows)
    return [Section("Convergence: loss and score against passes and seconds", TEXT, command_of(records), items)]


def curves_of(rows: Sequence[Row]) -> list[Curve]:
    found = []
    for (system, threads), own in grouped(rows, lambda row: (row.system, row.threads)).items():
        points = []
        for place, each in sorted(grouped(measured(own), lambda row: int(row.settings["pass"])).items()):
            names = each[0].measures
            points.append(Point(place, {name: average(each, name) or 0.0 for name in names}))
        reason = next((row.reason for row in own if row.reason), "")
        found.append(Curve(system, threads, points, reason))
    return found


def least_objective(rows: Sequence[Row], curves: Sequence[Curve]) -> float:
    """Newton's less what it says that it may still be too high, or the least of all, whichever is lower."""
    values = [
        row.measures["objective"] - row.measures["decrement"]
        for row in rows
        if row.part == "optimum" and not row.reason
    ]
    return min(values + [value for curve in curves for value in curve.values("objective")])


def _objectives(where: str, curves: Sequence[Curve], floor: float) -> Chart:
    def draw(theme: Theme) -> Any:
        drawn, (by_pass, by_second) = figure(theme, columns=2, width=10, height=4.6)
        for curve in curves:
            # what is at the floor itself has no place on a logarithmic axis
            shown = [point for point in curve.points if point.measures["objective"] > floor]
            gaps = [point.measures["objective"] - floor for point in shown]
            look = line_of(curve.system, theme) | {"label": curve.label, "markersize": 4}
            by_pass.plot([point.number for point in shown], gaps, **look)
            by_second.plot([point.measures["seconds"] for point in shown], gaps, **look)
        by_second.set_xscale("log")
        for axes, label in ((by_pass, "passes"), (by_second, "seconds")):
            axes.set_yscale("log")
            axes.set_xlabel(label)
        by_pass.set_ylabel("objective above the least")
        legend(drawn, theme)
        return drawn

    text = f"The training objective above its least value on {where}, by passes and by seconds, a line a system"
    return Chart(file_name("convergence", where, "objective"), f"{where}: training objective", text, draw)


def _scores(where: str, curves: Sequence[Curve]) -> Chart:
    first = next(curve for curve in curves if curve.points).points[0].measures
    names = [name for name in LABELS if name in first]

    def draw(theme: Theme) -> Any:
        drawn, axes = figure(theme, columns=2, rows=len(names), width=10, height=3.4 * len(names) + 1.2)
        for place, name in enumerate(names):
            by_pass, by_second = axes[2 * place : 2 * place + 2]
            for curve in curves:
                look = line_of(curve.system, theme) | {"label": curve.label, "markersize": 4}
                values = curve.values(name)
                by_pass.plot([point.number for point in curve.points], values, **look)
                by_second.plot(curve.values("seconds"), values, **look)
            by_pass.set_ylabel(LABELS[name])
            by_pass.set_xlabel("passes")
            by_second.set_xlabel("seconds")
            by_second.set_xscale("log")
        legend(drawn, theme)
        return drawn

    shown = " and ".join(LABELS[name] for name in names)
    text = f"{shown} of the held-out rows of {where}, by passes and by seconds, a line a system"
    return Chart(file_name("convergence", where, "scores"), f"{where}: {shown}", text, draw)


def _table(where: str, curves: Sequence[Curve], floor: float) -> Table:
    """The end of every curve, and when it was as low as the sequential run in the end."""
    sequential = next((curve for curve in curves if curve.system == "sequential" and curve.points), None)
    goal = sequential.points[-1].measures["objective"] if sequential else None
    lines = []
    for curve in curves:
        if not curve.points:
            lines.append([Cell(curve.system), number(curve.threads, "d"), Cell(curve.reason, good=False)])
            continue
        last = curve.points[-1]
        found = last.measures
        until = None if goal is None else curve.seconds_to(goal * (1 + 1e-3))
        lines.append([
            Cell(curve.system), number(curve.threads, "d"), number(last.number, "d"), number(found["seconds"], ".3g"),
            number(found["objective"], ".6f"), number(found["objective"] - floor, ".2e"),
            number(until, ".3g") if until is not None else Cell("never", NEVER),
            number(found.get("log_loss"), ".5f"), number(found.get("auc", found.get("r2")), ".5f"), Cell(curve.reason),
        ])  # fmt: skip
    columns = (
        "system", "threads", "passes", "seconds", "objective", "above the least", "seconds to sequential's end",
        "log loss", "AUC or R²", "",
    )  # fmt: skip
    note = "Sequential's end: its objective after the last pass, to 0.1 %."
    return Table(f"{where}: after the last pass", columns, lines, note)
