"""Reports: one file a protocol, which turns its rows into sections, and the renderers of sections."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from symsgd.bench.records import Record, runs_of
from symsgd.bench.report.base import Section


def sections(records: Sequence[Record]) -> list[Section]:
    """What there is to show of the newest run of every protocol: `sections` of ``report/paper.py`` and so on."""
    newest: dict[str, list[Record]] = {}
    for own in runs_of(records).values():
        by_protocol: dict[str, list[Record]] = {}
        for record in own:
            by_protocol.setdefault(record.row.protocol, []).append(record)
        newest |= by_protocol
    found: list[Section] = []
    for name, own in newest.items():
        found += import_module(f"symsgd.bench.report.{name}").sections(own)
    return found
