"""Rows on their way, and how many a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symsgd.cli.frame import Output
    from symsgd.data.dataset import Part, Reader, Schema


class Watched:
    """A reader whose progress is shown on a terminal (a :class:`symsgd.data.dataset.Reader`)."""

    def __init__(self, reader: Reader, output: Output) -> None:
        self._reader = reader
        self._output = output

    def parts(self) -> Iterator[Part]:
        console = self._output.watch()
        if console is None or not console.is_terminal:
            yield from self._reader.parts()
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with Progress(
            SpinnerColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn(), console=console, transient=True
        ) as progress:
            task = progress.add_task("", total=None, text="")
            for part in self._reader.parts():
                yield part
                progress.advance(task, len(part.y))
                rows, elapsed = progress.tasks[0].completed, progress.tasks[0].elapsed or 0.0
                progress.update(task, text=f"{rows:,.0f} rows  {rows / max(elapsed, 1e-9):,.0f} rows/s")

    @property
    def schema(self) -> Schema:
        return self._reader.schema

    @property
    def index_shift(self) -> int:
        return self._reader.index_shift

    @property
    def notes(self) -> list[str]:
        return self._reader.notes
