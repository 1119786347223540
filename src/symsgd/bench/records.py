"""What a protocol measures: rows, in a file of JSON lines that runs are appended to.

A line has all that is needed to read it alone: the row, and the run that it belongs to with its command and its
environment. It is written when it is measured, so a run that is stopped keeps what it has.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from symsgd.bench.environment import Environment
from symsgd.errors import DataError

FORMAT = 1
FILE_NAME = "results.jsonl"


@dataclass(frozen=True)
class Row:
    """One measurement, or the reason why there is none.

    ``part`` says which question of the protocol it answers; ``settings`` what was chosen (step size, block size,
    passes), ``measures`` what was found, in seconds and plain numbers. Rows that differ in ``repeat`` or ``measures``
    alone are the same thing measured again.
    """

    protocol: str
    part: str
    data: str
    system: str
    threads: int = 1
    loss: str = "log_loss"
    seed: int = 0
    repeat: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What is the same when a row is measured again."""
        settings = json.dumps(self.settings, sort_keys=True, default=str)
        return (self.protocol, self.part, self.data, self.loss, self.system, self.threads, self.seed, settings)


@dataclass(frozen=True)
class Run:
    """A call of the program. ``size`` is the protocol's: runs of different sizes are not compared."""

    name: str
    started: str
    command: str
    size: str
    environment: Environment

    @staticmethod
    def begin(command: str, size: str) -> Run:
        now = datetime.now(UTC)
        name = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        return Run(name, now.isoformat(timespec="seconds"), command, size, Environment.here())


@dataclass(frozen=True)
class Record:
    """A row of a run."""

    run: Run
    row: Row

    def plain(self) -> dict[str, Any]:
        return {"format": FORMAT, "run": asdict(self.run), "row": asdict(self.row)}

    @staticmethod
    def of(content: Mapping[str, Any]) -> Record:
        run = dict(content["run"])
        return Record(Run(**run | {"environment": Environment(**run["environment"])}), Row(**content["row"]))


class Journal:
    """The file that a run's rows go to; the folder is made if need be."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.path = folder / FILE_NAME
        self.run = run
        folder.mkdir(parents=True, exist_ok=True)
        _end_last_line(self.path)

    def add(self, row: Row) -> Record:
        record = Record(self.run, row)
        line = json.dumps(record.plain(), allow_nan=False, default=_plain)
        with self.path.open("a", encoding="utf-8") as file:  # one write a line: runs side by side do not mix them
            file.write(line + "\n")
        return record


def _end_last_line(path: Path) -> None:
    """What a run that was killed has left of a line becomes a line of its own."""
    if not path.exists() or not path.stat().st_size:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _plain(value: Any) -> Any:
    """numpy's numbers as JSON knows them."""
    return value.item()


def read(path: Path) -> list[Record]:
    """The rows of a file, or of the file in a folder. Lines that were cut off are passed over.

    Raises
    ------
    DataError : a whole line that is not a row, or a row of another version
    """
    path = path / FILE_NAME if path.is_dir() else path
    return list(_records(path))


def _records(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                content = json.loads(line)
            except json.JSONDecodeError:
                if line.lstrip().startswith("{"):
                    continue
                raise DataError(str(path), number, None, "it is not a line of JSON") from None
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise DataError(str(path), number, None, f"it is not a row of format {FORMAT}")
            try:
                yield Record.of(content)
            except (KeyError, TypeError) as error:
                raise DataError(str(path), number, None, f"the row does not have the fields of one: {error}") from None


def runs_of(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each run, in the order in which runs began."""
    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda own: own.run.started):
        found.setdefault(record.run.name, []).append(record)
    return found
