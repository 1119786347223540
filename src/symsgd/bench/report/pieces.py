"""Pieces of the page. All text is escaped here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

from symsgd.bench.compare import Change
from symsgd.bench.report.base import Cell, Chart, Table
from symsgd.bench.report.figures import FOLDER, PIXELS, Drawn

SHORT = 24  # characters; a longer cell may be broken into lines
LONG = 25  # rows; a longer table scrolls under its head
SMALLEST = 0.52  # of a figure's own size; in a narrower window it scrolls
MARKS = {True: ("good", "✓"), False: ("bad", "✗")}
BADGES = {
    "drift": "all times", "cut": "cut short", "fails": "fails", "works": "works", "choice": "settings", "gone": "gone",
    "new": "new",
}  # fmt: skip
SHOWN = 12  # changes; more are behind a click


def slug(text: str, taken: set[str]) -> str:
    """A name for links and files that is not taken yet; it is then."""
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def prose(text: str) -> str:
    """Paragraphs, with `code`."""
    parts = [own.strip() for own in re.split(r"\n\s*\n", text) if own.strip()]
    return "".join(f"<p>{with_code(own)}</p>" for own in parts)


def with_code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def command(text: str) -> str:
    """A command to copy."""
    return f'<div class="command"><pre tabindex="0"><code>{escape(text)}</code></pre></div>' if text else ""


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and what they are; those that are nothing are left out."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs if value)
    return f'<dl class="facts">{items}</dl>'


def table(own: Table) -> str:
    numeric = [_mostly_numbers(own, column) for column in range(len(own.columns))]
    head = "".join(
        f'<th scope="col"{_class("number" if right else "")}>{escape(name)}</th>'
        for name, right in zip(own.columns, numeric, strict=True)
    )
    body = "".join(_row(row, numeric) for row in own.rows) or (
        f'<tr class="nothing"><td colspan="{max(1, len(own.columns))}">nothing was measured</td></tr>'
    )
    note = f'<p class="note">{with_code(own.note)}</p>' if own.note else ""
    long = " long" if len(own.rows) > LONG else ""
    return (
        f'<figure class="table"><figcaption>{escape(own.title)}</figcaption>'
        f'<div class="scrolls{long}" tabindex="0" role="region" aria-label="{escape(own.title)}">'
        f'<table class="sorts"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}</figure>'
    )


def _mostly_numbers(own: Table, column: int) -> bool:
    """A reason among numbers does not move them to the left."""
    filled = [row[column].key for row in own.rows if column < len(row) and row[column].text]
    return 2 * sum(not isinstance(key, str) for key in filled) > len(filled)


def _row(row: Sequence[Cell], numeric: Sequence[bool]) -> str:
    cells = [*row, *[Cell("")] * (len(numeric) - len(row))]
    return f"<tr>{''.join(_cell(cell, right) for cell, right in zip(cells, numeric, strict=True))}</tr>"


def _cell(cell: Cell, right: bool) -> str:
    classes = ["number"] * right + ["short"] * (len(cell.text) <= SHORT)
    text = escape(cell.text)
    if cell.good is not None:
        name, mark = MARKS[cell.good]
        classes.append(name)
        shown = "" if mark in cell.text else f'<span class="mark" aria-hidden="true">{mark}</span>'
        text = f'{shown}{text}<span class="hidden"> ({name})</span>'
    return f"<td{_class(' '.join(classes))}{_key(cell)}>{text}</td>"


def _key(cell: Cell) -> str:
    """What a cell is sorted by; an empty one goes last."""
    if isinstance(cell.key, str):
        return f' data-key="{escape(cell.key)}"' if cell.key else ""
    if math.isnan(cell.key):
        return ""
    return f' data-key="{float(cell.key)!r}" data-kind="number"'.replace("inf", "Infinity")


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def chart(own: Chart, name: str, drawn: Drawn) -> str:
    least = round(SMALLEST * PIXELS * drawn.width)
    natural = round(1.15 * PIXELS * drawn.width)
    files = " ".join(f'<a href="{FOLDER}/{name}.{end}">{end.upper()}</a>' for end in ("png", "svg"))
    return (
        f'<figure class="chart{" wide" if drawn.is_wide else ""}"><figcaption>{escape(own.title)}'
        f'<span class="files">{files}</span></figcaption>'
        f'<div class="scrolls" tabindex="0" role="region" aria-label="{escape(own.title)}">'
        f'<div class="drawing" style="min-width:{least}px;max-width:{natural}px">'
        f'<div class="on-light">{drawn.light}</div><div class="on-dark">{drawn.dark}</div></div></div>'
        f'<p class="note">{with_code(own.text)}</p></figure>'
    )


def changes(found: Sequence[Change]) -> str:
    """A list; a long one shows its beginning."""
    items = [_change(own) for own in found]
    shown = f'<ul class="changes">{"".join(items[:SHOWN])}</ul>' if items else ""
    if len(items) > SHOWN:
        rest = f"<summary>{len(items) - SHOWN} more</summary><ul class='changes'>{''.join(items[SHOWN:])}</ul>"
        shown += f"<details>{rest}</details>"
    return shown


def _change(own: Change) -> str:
    tone = "" if own.better is None else MARKS[own.better][0]
    badge = BADGES.get(own.kind) or {True: "better", False: "worse", None: "changed"}[own.better]
    return f'<li><span class="badge {tone}">{badge}</span> <span>{escape(own.in_words)}</span></li>'
