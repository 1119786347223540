"""The way of each library to the best objective: how far it is from it, against the seconds of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from symsgd.bench.report.base import Chart, Theme
from symsgd.bench.report.style import colour_of, figure, legend, marker_of

LOWEST, HIGHEST = 1e-4, 10.0  # gaps that are shown; what is lower is drawn at the rim
OURS = "symsgd"
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Line:
    """Seconds and gap for each budget of a system."""

    system: str
    points: Sequence[tuple[float, float]]

    @property
    def nearest(self) -> float:
        return min(gap for _, gap in self.points)


def chart(name: str, title: str, lines: Sequence[Line], targets: Sequence[float]) -> Chart:
    """Both axes are logarithmic. Lower and to the left is better."""
    near = ", ".join(f"{line.system} {max(0.0, 100 * line.nearest):.3g} %" for line in lines)
    text = f"Distance from the best objective against seconds of training, on {title}. The nearest each came: {near}."
    return Chart(name, title, text, lambda theme: _draw(theme, title, lines, targets))


def _draw(theme: Theme, title: str, lines: Sequence[Line], targets: Sequence[float]) -> Any:
    made, (axes,) = figure(theme, width=8.0, height=5.5)
    drawn: dict[str, int] = {}
    for line in sorted(lines, key=lambda own: own.system == OURS):  # ours on top
        colour = colour_of(line.system, theme)
        dash = DASHES[drawn.get(colour, 0) % len(DASHES)]  # variants of a library have its colour
        drawn[colour] = drawn.get(colour, 0) + 1
        points = [(seconds, max(gap, LOWEST)) for seconds, gap in line.points if gap < HIGHEST]
        if points:
            seconds, gaps = zip(*points, strict=True)
            width = 2.8 if line.system == OURS else 1.5
            axes.plot(
                seconds,
                gaps,
                color=colour,
                linestyle=dash,
                linewidth=width,
                marker=marker_of(line.system),
                markersize=4,
                label=line.system,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.8 * LOWEST, HIGHEST)
    for target in targets:
        axes.axhline(target, color=axes.xaxis.label.get_color(), linewidth=0.8, linestyle=":")
        axes.annotate(
            f"{100 * target:g} %", (1.0, target), xycoords=("axes fraction", "data"), ha="right", va="bottom",
            fontsize=8, color=axes.xaxis.label.get_color(),
        )  # fmt: skip
    axes.set_xlabel("seconds of a training")
    axes.set_ylabel("above the best objective")
    axes.yaxis.set_major_formatter(lambda gap, _: f"{100 * gap:g} %")
    axes.set_title(title)
    legend(made, theme)
    return made
