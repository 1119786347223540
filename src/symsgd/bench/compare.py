"""What changed between two runs, beyond noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symsgd.bench.records import Record


@dataclass(frozen=True)
class Change:
    """A measure that is not what it was."""

    what: str
    measure: str
    before: float
    after: float

    @property
    def in_words(self) -> str:
        return f"{self.what}: {self.measure} {self.before:.5g} → {self.after:.5g}"


def previous(newest: Sequence[Record], records: Sequence[Record]) -> list[Record] | None:
    """The run before the newest that can be compared with it: of the same command, size and machine."""
    raise NotImplementedError


def compare(before: Sequence[Record], after: Sequence[Record]) -> list[Change]:
    """What is different in ``after``."""
    raise NotImplementedError
