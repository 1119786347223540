"""What reports do with rows before they show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

from symsgd.bench.records import Record, Row
from symsgd.bench.report.base import Cell, Table

Key = TypeVar("Key")


def rows_of(records: Sequence[Record], part: str | None = None) -> list[Row]:
    return [record.row for record in records if part is None or record.row.part == part]


def command_of(records: Sequence[Record]) -> str:
    """What has made the rows."""
    return records[-1].run.command if records else ""


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """In the order in which keys appear."""
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def measured(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.reason]


def average(rows: Sequence[Row], measure: str) -> float | None:
    """Over those that have the measure."""
    values = [row.measures[measure] for row in rows if measure in row.measures]
    return fmean(values) if values else None


def least(rows: Sequence[Row], measure: str) -> float | None:
    """What a busy machine has disturbed least."""
    return min((row.measures[measure] for row in rows if measure in row.measures), default=None)


def reasons(rows: Iterable[Row], title: str = "What there is no number for") -> list[Table]:
    """The rows that were skipped or have failed; no table if there are none."""
    lines: dict[tuple[str, ...], None] = {}
    for row in rows:
        if row.reason:
            lines[(row.part, row.data, LOSSES.get(row.loss, row.loss), row.system, _settings(row), row.reason)] = None
    cells = [[Cell(text) for text in line] for line in lines]
    return [Table(title, ("part", "data set", "loss", "system", "settings", "reason"), cells)] if cells else []


LOSSES: Mapping[str, str] = {"log_loss": "logistic", "hinge": "hinge", "squared_error": "OLS"}


def loss_name(loss: str) -> str:
    return LOSSES.get(loss, loss)


def _settings(row: Row) -> str:
    chosen = {"threads": row.threads, **row.settings}
    return ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in chosen.items() if value != "")


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def file_name(*words: str) -> str:
    """Of a figure."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def in_groups(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Panels of a figure: groups of at most ``size``."""
    return [items[begin : begin + size] for begin in range(0, len(items), size)]
