"""What a report is made of, whatever it is rendered as: sections of tables and charts, made from rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Theme = Literal["light", "dark"]


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by: the text itself if nothing else is said. ``good`` marks it."""

    text: str
    value: float | str | None = None
    good: bool | None = None

    @property
    def key(self) -> float | str:
        return self.text if self.value is None else self.value


def number(value: float | None, form: str = ".4g") -> Cell:
    """A number in a cell; None is an empty one."""
    return Cell("") if value is None else Cell(format(value, form), value)


@dataclass(frozen=True)
class Table:
    """``numeric`` columns are set to the right; by default all that have a number in each filled cell."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def is_numeric(self, column: int) -> bool:
        filled = [row[column] for row in self.rows if column < len(row) and row[column].text]
        return bool(filled) and all(isinstance(cell.key, (int, float)) for cell in filled)


@dataclass(frozen=True)
class Chart:
    """A figure: ``draw`` makes a matplotlib figure for a theme; ``name`` is that of its files, ``text`` what a person
    who cannot see it is told."""

    name: str
    title: str
    text: str
    draw: Callable[[Theme], Any]


@dataclass(frozen=True)
class Section:
    """Tables and charts under a title, with the command that makes them again."""

    title: str
    text: str
    command: str
    items: Sequence[Table | Chart]
