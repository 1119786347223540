"""The page: one file that needs nothing else, with its figures beside it for use elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from symsgd.bench.compare import Change, summary
from symsgd.bench.records import FILE_NAME, Record
from symsgd.bench.report import figures, pieces
from symsgd.bench.report.base import Chart, Section, Table
from symsgd.bench.report.style import SURFACES
from symsgd.files import written_whole

FILE = "report.html"
TITLE = "symsgd: the evaluation"
END = f"Made from `{FILE_NAME}`, which has every row of every run; `symsgd bench report` makes the page again."


def write_report(
    folder: Path,
    shown: Sequence[Section],
    newest: Sequence[Record],
    before: Sequence[Record] | None,
    changes: Sequence[Change],
) -> Path:
    """Writes report.html and the figures; returns the path of the page. Without matplotlib it has tables alone."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    text = page(folder, shown, newest, before, changes)
    with written_whole(path) as file:
        file.write(text.encode())
    return path


def page(
    folder: Path,
    shown: Sequence[Section],
    newest: Sequence[Record],
    before: Sequence[Record] | None,
    changes: Sequence[Change],
) -> str:
    """The page as text; figures are written to ``folder``."""
    names, files_taken = {"run", "since"}, set[str]()
    drawing = figures.can_draw()
    links = [("run", "The run"), ("since", "Since the run before")]
    parts = [_run(newest), _since(before, newest, changes)]
    for section in shown:
        name = pieces.slug(section.title, names)
        links.append((name, section.title))
        parts.append(_section(name, section, folder, files_taken, drawing))
    lacking = any(isinstance(item, Chart) for section in shown for item in section.items) and not drawing
    return _SHEET.format(
        title=escape(TITLE),
        style=_colours() + _file("page.css"),
        script=_file("page.js"),
        subtitle=escape(_subtitle(newest)),
        missing=f'<p class="missing" role="note">{escape(figures.NO_CHARTS)}</p>' if lacking else "",
        links="".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in links),
        parts="\n".join(parts),
        end=pieces.with_code(END),
    )


_SHEET = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header><div><h1>{title}</h1><p>{subtitle}</p></div><div id="theme"></div></header>
<div class="columns">
<nav aria-label="Contents"><ol>{links}</ol></nav>
<main>{missing}
{parts}
</main>
</div>
<footer><p>{end}</p></footer>
<script>{script}</script>
</body>
</html>
"""


def _subtitle(newest: Sequence[Record]) -> str:
    run = newest[0].run
    return f"{run.environment.machine} · {run.started.replace('T', ' ').replace('+00:00', ' UTC')}"


def _run(newest: Sequence[Record]) -> str:
    run, rows = newest[0].run, [record.row for record in newest]
    here = run.environment
    without = sum(bool(row.reason) for row in rows)
    giving = "gives" if without == 1 else "give"
    facts = [
        ("Machine", here.machine),
        ("Instruction set", here.instruction_set),
        ("Threads", "pinned to cores" if here.pinned else "not pinned"),
        ("System", f"{here.system}, Python {here.python}"),
        ("Versions", ", ".join(f"{name} {own}" for name, own in here.versions.items())),
        ("Commit", here.commit),
        ("Size", run.size),
        ("Rows", f"{len(rows)}" + f", of which {without} {giving} a reason instead of a number" * bool(without)),
        ("Name", run.name),
    ]
    return f'<section id="run"><h2>The run</h2>{pieces.command(run.command)}{pieces.facts(facts)}</section>'


def _since(before: Sequence[Record] | None, newest: Sequence[Record], changes: Sequence[Change]) -> str:
    said = summary(before, newest, changes)
    verdict = f'<p class="verdict">{escape(said[:1].upper() + said[1:])}.</p>'
    return f'<section id="since"><h2>Since the run before</h2>{verdict}{pieces.changes(changes)}</section>'


def _section(name: str, section: Section, folder: Path, taken: set[str], drawing: bool) -> str:
    items = "".join(_items(section, folder, taken, drawing))
    head = f'<h2><a href="#{name}">{escape(section.title)}</a></h2>'
    return f'<section id="{name}">{head}{pieces.prose(section.text)}{pieces.command(section.command)}{items}</section>'


def _items(section: Section, folder: Path, taken: set[str], drawing: bool) -> Iterator[str]:
    """Tables one below the other; charts that follow each other share a grid."""
    for kind, items in groupby(section.items, type):
        if kind is Table:
            yield from (pieces.table(item) for item in items if isinstance(item, Table))
        elif drawing:
            charts = [(item, pieces.slug(item.name, taken)) for item in items if isinstance(item, Chart)]
            drawn = (pieces.chart(item, name, figures.draw(item, name, folder)) for item, name in charts)
            yield f'<div class="charts">{"".join(drawn)}</div>'


def _colours() -> str:
    """The themes as CSS: the reader's system chooses, unless the reader does; paper is light."""
    light, dark = (
        "".join(f"--{name}:{value};" for name, value in asdict(SURFACES[theme]).items()) + f"color-scheme:{theme};"
        for theme in ("light", "dark")
    )
    system, chosen = ":root:not([data-theme=light])", ":root[data-theme=dark]"

    def darkened(root: str) -> str:
        return f"{root}{{{dark}}}{root} .on-light{{display:none}}{root} .on-dark{{display:block}}"

    return (
        f":root{{{light}}}.on-dark{{display:none}}"
        f"@media screen and (prefers-color-scheme:dark){{{darkened(system)}}}"
        f"@media screen{{{darkened(chosen)}}}\n"
    )


def _file(name: str) -> str:
    return files("symsgd.bench.report").joinpath(name).read_text(encoding="utf-8")
