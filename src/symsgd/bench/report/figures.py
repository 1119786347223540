"""Charts as files, and as pieces of the page."""

from __future__ import annotations

import importlib.util
import io
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from symsgd.bench.report.base import Chart, Theme
from symsgd.bench.report.style import settings
from symsgd.files import written_whole

FOLDER = "figures"
NO_CHARTS = (
    "matplotlib is not installed, so there are no figures: pip install 'symsgd[plots]', then symsgd bench report"
)
WIDE = 7.5  # inches; a wider figure gets a row of its own
PIXELS = 96  # in an inch of CSS


def can_draw() -> bool:
    """Whether there is a matplotlib."""
    return importlib.util.find_spec("matplotlib") is not None


@dataclass(frozen=True)
class Drawn:
    """A figure in both themes, as SVG for the page."""

    light: str
    dark: str
    width: float  # inches

    @property
    def is_wide(self) -> bool:
        return self.width > WIDE


def draw(chart: Chart, name: str, folder: Path) -> Drawn:
    """Draws a chart twice, and writes the light one to ``folder``/figures/name.png and .svg."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    svg: dict[Theme, bytes] = {}
    for theme in ("dark", "light"):
        figure, svg[theme] = _drawn(chart, theme)
    for ending, content in (("svg", svg["light"]), ("png", _saved(figure, "png", "light"))):
        with written_whole(folder / FOLDER / f"{name}.{ending}") as file:
            file.write(content)
    return Drawn(
        light=_inline(svg["light"].decode(), f"{name}-light", chart),
        dark=_inline(svg["dark"].decode(), f"{name}-dark", chart),
        width=float(figure.get_figwidth()),
    )


def _drawn(chart: Chart, theme: Theme) -> tuple[Any, bytes]:
    import matplotlib

    with matplotlib.rc_context(settings(theme)):
        figure = chart.draw(theme)
    return figure, _saved(figure, "svg", theme)


def _saved(figure: Any, form: str, theme: Theme) -> bytes:
    import matplotlib

    file = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    with matplotlib.rc_context(settings(theme)):
        figure.savefig(file, format=form, dpi=160, metadata=metadata)
    return file.getvalue()


def _inline(svg: str, prefix: str, chart: Chart) -> str:
    """An SVG as it can stand in a page: without a prolog, with names of its own, as wide as there is room."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", svg, flags=re.DOTALL)  # its style is page.css's
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    opening, rest = svg.split(">", 1)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    return f'{opening} role="img" aria-label="{escape(chart.text or chart.title)}">{rest}'
