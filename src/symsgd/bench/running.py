"""From a choice to a report: measure, keep, compare, write."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symsgd.bench.compare import Change, compare, previous, summary
from symsgd.bench.protocols import find
from symsgd.bench.protocols.base import Size, Surroundings
from symsgd.bench.records import FILE_NAME, Journal, Record, Row, Run, read, runs_of
from symsgd.bench.report import sections
from symsgd.bench.report.base import Section
from symsgd.bench.report.page import write_report

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Choices:
    """What the user has chosen; None leaves it to the protocol's plan."""

    protocol: str
    size: Size
    data_dir: Path | None = None
    sets: tuple[str, ...] | None = None
    systems: tuple[str, ...] | None = None
    parts: tuple[str, ...] | None = None
    threads: tuple[int, ...] | None = None
    repeats: int | None = None
    seed: int = 0

    @property
    def of_plan(self) -> dict[str, Any]:
        """What replaces fields of the plan."""
        return {name: getattr(self, name) for name in ("sets", "systems", "parts", "threads", "repeats")}

    @property
    def command(self) -> str:
        """What measures the same again, wherever it is entered."""
        words = ["symsgd", "bench", self.protocol, "--size", self.size]
        if self.data_dir is not None:
            words += ["--data-dir", str(self.data_dir)]
        for name, value in self.of_plan.items():
            if value is not None:
                words += [f"--{name}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
        words += ["--seed", str(self.seed)] if self.seed else []
        return shlex.join(words)


@dataclass(frozen=True)
class Written:
    """The page, the file of results, what the page shows, and what has changed since the run before: in a sentence,
    and one by one."""

    page: Path
    results: Path
    shown: Sequence[Section]
    summary: str
    changes: Sequence[Change]


def run(choices: Choices, folder: Path, against: Path | None, tell: Tell) -> Written:
    """Measures and reports. A run that is interrupted has its rows in the file and no report."""
    protocol = find(choices.protocol)
    plan = protocol.plans[choices.size].with_choices(**choices.of_plan)
    others = None if against is None else read(against)
    journal = Journal(folder, Run.begin(choices.command, choices.size))
    for row in protocol.measure(plan, Surroundings(choices.data_dir, choices.seed, tell)):
        journal.add(row)
        tell(_in_words(row))
    return report(folder, others)


def report_again(folder: Path, against: Path | None) -> Written:
    """The report of what a folder has."""
    return report(folder, None if against is None else read(against))


def report(folder: Path, others: Sequence[Record] | None) -> Written:
    """Writes the page; the newest run is compared with the run before, or with the newest of ``others``."""
    records = read(folder)
    if not records:
        raise ValueError(f"{folder / FILE_NAME} has no rows")
    newest = list(runs_of(records).values())[-1]
    before = previous(newest, records if others is None else others)
    changes = [] if before is None else compare(before, newest)
    shown = sections(records)
    page = write_report(folder, shown, newest, before, changes)
    return Written(page, folder / FILE_NAME, shown, summary(before, newest, changes), changes)


def _in_words(row: Row) -> str:
    words = [f"{row.protocol}, {row.part}:", row.data, row.loss, row.system, f"{row.threads} thread(s)"]
    found = ", ".join(f"{name} {value:.4g}" for name, value in row.measures.items())
    return f"{' '.join(own for own in words if own)}: {row.reason or found}"
