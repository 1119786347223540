"""The looks of all charts: a colour and a marker for every system, the same in each figure, in light and in dark.

Colours are told apart by people with any of the common kinds of colour blindness (tests/bench/test_style.py looks at
them as they do) and stand out from the page; lines differ in their markers too.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symsgd.bench.report.base import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Surface:
    """The colours of a theme: what is drawn on, and what is written with. The page takes them from here too."""

    page: str
    around: str
    ink: str
    faint: str
    grid: str
    accent: str
    good: str
    bad: str


SURFACES: dict[Theme, Surface] = {
    "light": Surface(
        page="#ffffff",
        around="#f4f6f9",
        ink="#1c2430",
        faint="#566070",
        grid="#dde3ea",
        accent="#1d4fe0",
        good="#0b6b3a",
        bad="#a83208",
    ),
    "dark": Surface(
        page="#161b22",
        around="#0e1218",
        ink="#e6ebf1",
        faint="#9fabb9",
        grid="#2c3541",
        accent="#7aa6ff",
        good="#5fd68f",
        bad="#ff9d73",
    ),
}


@dataclass(frozen=True)
class Look:
    """How a system is drawn."""

    light: str
    dark: str
    marker: str


# by how the names of systems begin; of several the longest counts
KNOWN: dict[str, Look] = {
    "sequential": Look("#4b5060", "#8b95a5", "s"),
    "auto": Look("#1d4fe0", "#6a9bff", "o"),
    "curvature": Look("#1d4fe0", "#6a9bff", "o"),
    "symsgd": Look("#1d4fe0", "#6a9bff", "o"),
    "symsgd, cuda": Look("#b3123f", "#ff7d9c", "P"),
    "symsgd, exact, cuda": Look("#8a6d00", "#e8c547", "d"),
    "hogwild": Look("#a3300f", "#f2583e", "X"),
    "async-symsgd": Look("#0a9c74", "#25e8ae", "^"),
    "async": Look("#0a9c74", "#25e8ae", "^"),
    "mr-symsgd": Look("#b88a00", "#ffb02e", "D"),
    "mr": Look("#b88a00", "#ffb02e", "D"),
    "map-reduce": Look("#b88a00", "#ffb02e", "D"),
    "averag": Look("#d945b8", "#f0c4ea", "v"),
    "scikit-learn saga": Look("#0d7fa8", "#6fd3f7", "<"),
    "scikit-learn lbfgs": Look("#5b3da6", "#b9a1ff", ">"),
    "scikit-learn": Look("#2f96d3", "#9ddcff", "P"),
    "vowpal": Look("#8c2d04", "#e0a080", "h"),
    "liblinear-multicore": Look("#2e7d32", "#8fd694", "8"),
    "liblinear": Look("#5c8a00", "#b8dc5a", "p"),
    "snapml": Look("#7a1fa2", "#dd9bf5", "*"),
    "xlearn": Look("#99004d", "#ff9ebf", "d"),
    "lapack": Look("#37474f", "#a8bac4", "H"),
    "sketch": Look("#795548", "#cfb3a6", "p"),
    "randomised sketch": Look("#795548", "#cfb3a6", "p"),
    "gpu": Look("#558b00", "#a5e04a", "*"),
}

# for names that nobody has thought of
OTHERS: tuple[Look, ...] = (
    Look("#0d7fa8", "#6fd3f7", "<"),
    Look("#7a1fa2", "#dd9bf5", ">"),
    Look("#8c2d04", "#e0a080", "h"),
    Look("#2e7d32", "#8fd694", "P"),
    Look("#99004d", "#ff9ebf", "d"),
    Look("#5c8a00", "#b8dc5a", "p"),
    Look("#795548", "#cfb3a6", "H"),
    Look("#5b3da6", "#b9a1ff", "8"),
)


def look_of(system: str) -> Look:
    """The same for the same name, in every figure and every run."""
    name = system.strip().lower()
    for known in sorted(KNOWN, key=len, reverse=True):
        if name.startswith(known):
            return KNOWN[known]
    return OTHERS[hashlib.blake2b(name.encode(), digest_size=4).digest()[0] % len(OTHERS)]


def colour_of(system: str, theme: Theme) -> str:
    """A system's colour, as matplotlib and CSS take it."""
    look = look_of(system)
    return look.dark if theme == "dark" else look.light


def marker_of(system: str) -> str:
    """A system's marker, as matplotlib names it: lines are told apart without colour too."""
    return look_of(system).marker


def line_of(system: str, theme: Theme) -> dict[str, Any]:
    """What ``Axes.plot`` and ``errorbar`` need to draw a system's line, label aside."""
    return {
        "color": colour_of(system, theme),
        "marker": marker_of(system),
        "linestyle": "--" if system.strip().lower().startswith("sequential") else "-",
        "markeredgecolor": SURFACES[theme].page,
    }


def settings(theme: Theme) -> Any:
    """matplotlib's settings for a theme; they count when things are drawn and when a figure is saved."""
    surface = SURFACES[theme]
    return {
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10.0,
        "text.color": surface.ink,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlecolor": surface.ink,
        "axes.labelcolor": surface.ink,
        "lines.linewidth": 1.8,
        "lines.markersize": 6.5,
        "svg.fonttype": "none",
        "svg.hashsalt": "symsgd",  # the same figure gives the same file
    }


def figure(
    theme: Theme, columns: int = 1, width: float = 6.0, height: float = 4.0, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """A figure with axes side by side, ``width`` by ``height`` inches in all, in a theme's looks.

    Axes have no title yet and no legend: `legend` puts one beside the data.
    """
    from matplotlib.figure import Figure

    surface = SURFACES[theme]
    made = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor=surface.page)
    axes = [made.add_subplot(rows, columns, place + 1) for place in range(rows * columns)]
    for own in axes:
        _dress(own, surface)
    return made, axes


def _dress(axes: Axes, surface: Surface) -> None:
    axes.set_facecolor(surface.page)
    axes.grid(True, color=surface.grid, linewidth=0.8)
    axes.grid(True, which="minor", color=surface.grid, linewidth=0.4)  # those of logarithmic axes
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(surface.faint)
        spine.set_linewidth(0.8)
    axes.tick_params(which="both", colors=surface.faint, labelcolor=surface.ink, labelsize=9, length=3)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(surface.ink)
        label.set_fontsize(10)
    axes.title.set_color(surface.ink)
    axes.title.set_fontsize(10.5)
    axes.title.set_fontweight("bold")


def legend(made: Figure, theme: Theme, columns: int | None = None) -> None:
    """One legend of all axes, below them, so that it covers no data; each label once. Nothing if there are none."""
    entries: dict[str, Any] = {}
    for axes in made.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    if columns is None:  # as many as there is room for, in lines of about the same length
        longest = max(map(len, entries))
        room = max(1, int(made.get_figwidth() / (0.75 + 0.075 * longest)))
        columns = math.ceil(len(entries) / math.ceil(len(entries) / room))
    made.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=columns, frameon=False,
        labelcolor=SURFACES[theme].ink, fontsize=9, handlelength=2.2, columnspacing=1.6,
    )  # fmt: skip
