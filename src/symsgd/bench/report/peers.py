"""Peers: seconds to 1 % and 0.1 % of the best objective, for each library and set, and the way there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from symsgd.bench.records import Record, Row
from symsgd.bench.report.base import Cell, Chart, Section, Table, number
from symsgd.bench.report.peers_chart import Line, chart

OURS = "symsgd"
LOSSES = {"log_loss": "logistic regression", "squared_error": "least squares on dense rows"}
LEAST = {"log_loss": "mean log loss", "squared_error": "half the mean squared error"}

STEPS = (
    " SGD by others needs a step size where it has not scikit-learn's default schedule: one for all sets, the best of "
    "those tried on a small RCV1 twin, not tuned for each."
)


def sections(records: Sequence[Record]) -> list[Section]:
    """One for each loss and number of threads. A set that cannot be had has rows without threads to speak of."""
    rows = [record.row for record in records]
    found = []
    for loss in dict.fromkeys(row.loss for row in rows):
        own = [row for row in rows if row.loss == loss]
        counts = sorted({row.threads for row in own if row.system}) or [1]
        for threads in counts:
            contest = _Contest(loss, threads, [row for row in own if row.threads == threads or not row.system])
            found.append(contest.section(records[0].run.command))
    return found


@dataclass(frozen=True, eq=False)
class _Contest:
    """The rows of a loss at a number of threads."""

    loss: str
    threads: int
    rows: Sequence[Row]

    def section(self, command: str) -> Section:
        before = [self.ahead()] if self.peers and OURS in self.systems else []
        before += [self.times(target) for target in self.targets]
        after = [self.set_ups(), self.reasons()]
        text = (
            f"The objective is {LEAST.get(self.loss, self.loss)} + (α/2)‖w‖², α = 1e-6, without an intercept. Each "
            f"library trains in a process of its own, on {_threads(self.threads)}, from rows that are in its own form "
            "already. A time is the median of trainings from nothing with the smallest budget "
            "that came as near to the best objective as asked, or nearer if that was faster."
        )
        if self.loss == "log_loss":
            text += STEPS
        items: list[Table | Chart] = [table for table in before if table.rows]
        items += [self.chart(data) for data in self.sets if self.lines(data)]
        items += [table for table in after if table.rows]
        title = f"Peers: {LOSSES.get(self.loss, self.loss)}, {_threads(self.threads)}"
        return Section(title, text, command, items)

    @cached_property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(row.data for row in self.rows))

    @cached_property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(row.system for row in self.rows if row.system))

    @property
    def peers(self) -> list[str]:
        return [system for system in self.systems if system != OURS]

    @cached_property
    def targets(self) -> list[float]:
        found = {row.settings["target"] for row in self.rows if "target" in row.settings}
        return sorted(found, reverse=True)

    @cached_property
    def seconds(self) -> dict[tuple[str, str, float], float]:
        """By set, system and target, where at least half of the trainings came so near.

        What is within 0.1 % is within 1 %: the fastest of the budgets counts, which need not be the smallest.
        """
        found: dict[tuple[str, str, float], list[Row]] = {}
        for row in self.rows:
            if row.part == "time to target" and row.measures:
                found.setdefault((row.data, row.system, row.settings["target"]), []).append(row)
        times: dict[tuple[str, str, float], float] = {}
        for (data, system, near), rows in found.items():
            if statistics.median(row.measures["gap"] for row in rows) <= near:
                time = statistics.median(row.measures["seconds"] for row in rows)
                for key in ((data, system, target) for target in self.targets if target >= near):
                    times[key] = min(time, times.get(key, time))
        return times

    def fastest(self, data: str, target: float, systems: Sequence[str]) -> tuple[str, float] | None:
        times = [(own, self.seconds[data, own, target]) for own in systems if (data, own, target) in self.seconds]
        return min(times, key=lambda own: own[1]) if times else None

    def ahead(self) -> Table:
        """Ours beside the fastest of the others."""
        columns = ["data set"]
        for target in self.targets:
            columns += [f"fastest peer to {_percent(target)}", "s", "symsgd, s", "times faster"]
        rows = []
        for data in self.sets:
            cells = [Cell(data)]
            for target in self.targets:
                peer, ours = self.fastest(data, target, self.peers), self.fastest(data, target, [OURS])
                times = peer[1] / ours[1] if peer and ours else None
                cells += [
                    Cell(peer[0] if peer else "none"),
                    number(peer[1] if peer else None, ".3g"),
                    number(ours[1] if ours else None, ".3g") if ours else Cell("not reached"),
                    Cell("") if times is None else Cell(f"{times:.2f}", times, good=times > 1),
                ]
            rows.append(cells)
        note = "More than 1 in the last column: symsgd is the faster one."
        return Table("symsgd against the fastest of the others", columns, rows, note)

    def times(self, target: float) -> Table:
        best = {data: self.fastest(data, target, self.systems) for data in self.sets}

        def cell(system: str, data: str) -> Cell:
            time = self.seconds.get((data, system, target))
            first = best[data]
            if time is None:
                return Cell("–", float("inf")) if first else Cell("")
            return Cell(f"{time:.3g}", time, good=True if first and first[0] == system else None)

        note = "The fastest of each set is marked. – was not reached: the last table says why."
        return self._by_system(f"Seconds to within {_percent(target)} of the best objective", cell, note)

    def set_ups(self) -> Table:
        """What conversion costs, which is in none of the times."""
        found = {
            (row.system, row.data): row.measures["seconds"]
            for row in self.rows
            if row.part == "set up" and "seconds" in row.measures
        }
        note = (
            "Import, and rows into the library's own form: text and a cache for Vowpal Wabbit and xlearn, a copy for "
        )
        note += "LIBLINEAR. In none of the times above."
        return self._by_system("Seconds to set up", lambda system, data: number(found.get((system, data)), ".2g"), note)

    def _by_system(self, title: str, cell: Callable[[str, str], Cell], note: str) -> Table:
        rows = [[Cell(system), *(cell(system, data) for data in self.sets)] for system in self.systems]
        return Table(title, ["system", *self.sets], [row for row in rows if any(own.text for own in row[1:])], note)

    def reasons(self) -> Table:
        rows = []
        missed = {(row.data, row.system, row.settings["target"]) for row in self.rows if _missed(row)}
        for data, system, target in sorted(missed - set(self.seconds)):
            reason = "repeats did not come so near as the first trainings with this budget"
            rows.append([Cell(data), Cell(system), Cell(_percent(target)), Cell(reason)])
        for row in self.rows:
            if row.reason:
                target = row.settings.get("target")
                what = _percent(target) if target else row.part
                rows.append([Cell(row.data), Cell(row.system), Cell(what), Cell(row.reason)])
        return Table("What there is no time for, and why", ["data set", "system", "of", "reason"], rows)

    def best(self, data: str) -> float | None:
        """The best objective that anyone has reached."""
        known = [row.measures["objective"] for row in self.rows if row.data == data and "objective" in row.measures]
        said = [
            row.measures["objective"] for row in self.rows if row.data == data and row.part == "best" and row.measures
        ]
        return min(said or known) if known else None

    def lines(self, data: str) -> list[Line]:
        best = self.best(data)
        lines = []
        for system in self.systems if best else ():
            assert best is not None
            own = [
                (row.measures["seconds"], row.measures["objective"] / best - 1)
                for row in self.rows
                if row.part == "curve" and row.repeat == 0 and (row.data, row.system) == (data, system) and row.measures
            ]
            lines += [Line(system, own)] if own else []
        return lines

    def chart(self, data: str) -> Chart:
        name = f"peers-{self.loss}-{self.threads}-{data}".replace(" ", "-")
        return chart(name, data, self.lines(data), self.targets or [0.01, 0.001])


def _missed(row: Row) -> bool:
    return row.part == "time to target" and row.measures.get("gap", 0.0) > row.settings["target"]


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
