"""The same sections as Markdown: tables and commands; of charts the description, and the figure if it is said where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from symsgd.bench.report.base import Cell, Chart, Section, Table
from symsgd.bench.report.figures import FOLDER
from symsgd.bench.report.pieces import slug
from symsgd.files import written_whole

MARKS = {True: "✓", False: "✗"}


def as_markdown(sections: Sequence[Section], figures: str | None = None) -> str:
    """``figures`` is the folder of the charts' files as seen from the text; without it charts are left out."""
    parts: list[str] = []
    taken: set[str] = set()
    for section in sections:
        parts += [f"## {section.title}", section.text.strip()]
        parts.append("\n".join(f"    {line}" for line in section.command.splitlines()))
        for item in section.items:
            parts += _table(item) if isinstance(item, Table) else _chart(item, figures, taken)
    return "\n\n".join(part for part in parts if part) + "\n"


def write_markdown(path: Path, sections: Sequence[Section], folder: Path) -> None:
    """The text to a file, with the figures that a report in ``folder`` has written."""
    seen = os.path.relpath(folder / FOLDER, path.parent) if (folder / FOLDER).is_dir() else None
    with written_whole(path) as file:
        file.write(as_markdown(sections, seen).encode())


def _table(table: Table) -> list[str]:
    lines = [_line([_escaped(name) for name in table.columns])]
    lines.append(_line(["--:" if table.is_numeric(column) else ":--" for column in range(len(table.columns))]))
    for row in table.rows:
        cells = [*row, *[Cell("")] * (len(table.columns) - len(row))]
        lines.append(_line([_cell(cell) for cell in cells]))
    body = "\n".join(lines) if table.rows else "Nothing was measured."
    return [f"**{table.title}**", body, table.note.strip()]


def _cell(cell: Cell) -> str:
    mark = "" if cell.good is None or MARKS[cell.good] in cell.text else MARKS[cell.good]
    return f"{_escaped(cell.text)} {mark}".strip()


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _chart(chart: Chart, figures: str | None, taken: set[str]) -> list[str]:
    name = slug(chart.name, taken)  # as the page has named its files
    return [] if figures is None else [f"![{_escaped(chart.text or chart.title)}]({figures}/{name}.svg)"]


def _escaped(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())
