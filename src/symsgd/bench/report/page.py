"""The page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from symsgd.bench.compare import Change
from symsgd.bench.records import Record
from symsgd.bench.report.base import Section


def write_report(
    folder: Path,
    shown: Sequence[Section],
    newest: Sequence[Record],
    before: Sequence[Record] | None,
    changes: Sequence[Change],
) -> Path:
    """Writes report.html and the figures; returns the path of the page."""
    raise NotImplementedError
