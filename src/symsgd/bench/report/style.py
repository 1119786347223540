"""The looks of all charts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from symsgd.bench.report.base import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = {"light": "#ffffff", "dark": "#161b22"}
INK = {"light": "#1c2430", "dark": "#e6ebf1"}


def colour_of(system: str, theme: Theme) -> str:
    """The same for the same name."""
    number = hashlib.blake2b(system.encode(), digest_size=1).digest()[0] % 10
    return f"C{number}"


def figure(theme: Theme, columns: int = 1, width: float = 6.0, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """A figure with axes side by side."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained", facecolor=PAGE[theme])
    axes = [made.add_subplot(1, columns, place + 1, facecolor=PAGE[theme]) for place in range(columns)]
    for own in axes:
        own.tick_params(colors=INK[theme])
    return made, axes


def legend(made: Figure, theme: Theme) -> None:
    """One legend of all axes, below them."""
    entries: dict[str, Any] = {}
    for axes in made.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    made.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=3, labelcolor=INK[theme], frameon=False
    )
