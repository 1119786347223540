"""The figures of the *paper* protocol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from symsgd.bench.protocols.base import mean
from symsgd.bench.protocols.paper import ASYNC, AUTO, HOGWILD, MAP_REDUCE, SEQUENTIAL
from symsgd.bench.protocols.singular import REST, WHOLE
from symsgd.bench.records import Row
from symsgd.bench.report.base import Chart, Theme
from symsgd.bench.report.paper_rows import IN_WORDS, Speedups
from symsgd.bench.report.style import SURFACES, figure, legend, line_of

LINES = (AUTO, ASYNC, MAP_REDUCE, HOGWILD)
MATRICES = {WHOLE: "M, smallest first", REST: "M − I, largest first"}


def charts_of_speedups(rows: Sequence[Row]) -> list[Chart]:
    """One for each loss, a panel for each data set."""
    speedups = Speedups.of(rows)
    charts = []
    for loss in dict.fromkeys(loss for _, loss in speedups.cases):
        sets = [data for data, own in speedups.cases if own == loss]
        told = [_in_words(speedups, data, loss) for data in sets]
        charts.append(
            Chart(
                f"paper-speedup-{loss.replace('_', '-')}",
                f"Speedup over the sequential loop, {IN_WORDS.get(loss, loss)}",
                "Times faster than the sequential loop, by threads; the span of the repeats; hollow where one of them "
                "does not hold the sequential AUC. " + " ".join(told),
                partial(_draw_speedups, speedups, loss, sets),
            )
        )
    return charts


def _in_words(speedups: Speedups, data: str, loss: str) -> str:
    most = max(speedups.threads(data, loss))
    found = {system: speedups.ratio(data, loss, system, SEQUENTIAL, most) for system in LINES}
    words = ", ".join(f"{system} {'failed' if ratio is None else f'{ratio:.2f}'}" for system, ratio in found.items())
    return f"{data} at {most} threads: {words}."


def _draw_speedups(speedups: Speedups, loss: str, sets: Sequence[str], theme: Theme) -> Any:
    columns = min(2, len(sets))
    lines = math.ceil(len(sets) / columns)
    made, axes = figure(theme, columns, width=4.2 * columns, height=3.2 * lines + 0.5, rows=lines)
    for panel, data in zip(axes, sets, strict=False):
        _draw_panel(panel, speedups, data, loss, theme)
    for panel in axes[len(sets) :]:
        panel.set_visible(False)
    legend(made, theme)
    return made


def _draw_panel(panel: Any, speedups: Speedups, data: str, loss: str, theme: Theme) -> None:
    threads = speedups.threads(data, loss)
    faint = SURFACES[theme].faint
    panel.plot(threads, threads, color=faint, linestyle=":", linewidth=1.2, label="ideal")
    panel.axhline(1.0, color=faint, linestyle="--", linewidth=1.0, label=SEQUENTIAL)
    for system in LINES:
        points = [(n, ratio) for n in threads if (ratio := speedups.ratio(data, loss, system, SEQUENTIAL, n))]
        if not points:
            continue
        look = line_of(system, theme)
        panel.plot(*zip(*points, strict=True), label=system, **look)
        spans = [_span(speedups, data, loss, system, n) for n, _ in points]
        panel.vlines([n for n, _ in points], *zip(*spans, strict=True), color=look["color"], linewidth=1.0, alpha=0.6)
        hollow = {**look, "linestyle": "", "markeredgecolor": look["color"], "markerfacecolor": SURFACES[theme].page}
        for n, ratio in points:
            if not speedups.hold(data, loss, system, n):
                panel.plot([n], [ratio], **hollow)
    panel.set(title=data, xlabel="threads", ylabel="times faster", xticks=threads, ylim=(0, None))


def _span(speedups: Speedups, data: str, loss: str, system: str, threads: int) -> tuple[float, float]:
    """The speedup of the slowest repeat and of the fastest, over the same mean of the sequential ones."""
    sequential = mean(speedups.seconds(data, loss, SEQUENTIAL, threads))
    seconds = speedups.seconds(data, loss, system, threads)
    return sequential / max(seconds), sequential / min(seconds)


def charts_of_singular_values(rows: Sequence[Row]) -> list[Chart]:
    """One for each data set and matrix, a panel for each loss and step size."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.part == "singular values" and not row.reason:
            found.setdefault((row.data, row.system), []).append(row)
    charts = []
    for (data, matrix), own in found.items():
        name = "combiner" if matrix == WHOLE else "rest"
        charts.append(
            Chart(
                f"paper-singular-values-{data.replace(' ', '-')}-{name}",
                f"Singular values of {MATRICES.get(matrix, matrix)}, {data}",
                f"By block size, for each loss and step size. {_extremes(own)}",
                partial(_draw_singular_values, own),
            )
        )
    return charts


def _extremes(rows: Sequence[Row]) -> str:
    words = []
    for loss, step_size in _panels(rows):
        own = [row for row in rows if (row.loss, row.settings["step_size"]) == (loss, step_size)]
        firsts = ", ".join(f"{row.measures['1']:.3g} (block of {row.settings['block_size']})" for row in own)
        words.append(f"{IN_WORDS.get(loss, loss)}, step size {step_size:g}: first value {firsts}.")
    return " ".join(words)


def _panels(rows: Sequence[Row]) -> list[tuple[str, float]]:
    return list(dict.fromkeys((row.loss, float(row.settings["step_size"])) for row in rows))


def _draw_singular_values(rows: Sequence[Row], theme: Theme) -> Any:
    panels = _panels(rows)
    columns = min(2, len(panels))
    lines = math.ceil(len(panels) / columns)
    made, axes = figure(theme, columns, width=4.2 * columns, height=3.0 * lines + 0.5, rows=lines)
    colours = _colours_of_sizes(sorted({int(row.settings["block_size"]) for row in rows}), theme)
    for panel, (loss, step_size) in zip(axes, panels, strict=False):
        own = [row for row in rows if (row.loss, row.settings["step_size"]) == (loss, step_size)]
        for row in own:
            size = int(row.settings["block_size"])
            ranks = [int(rank) for rank in row.measures]
            panel.plot(ranks, list(row.measures.values()), color=colours[size], label=f"blocks of {size} rows")
        whose = "the runs'" if own[0].settings["trained_with"] == step_size else "the paper's"
        panel.set(title=f"{IN_WORDS.get(loss, loss)}, step size {step_size:g} ({whose})")
        panel.set(xlabel="number", ylabel="singular value", xscale="log")
        panel.xaxis.set_major_formatter("{x:g}")
        if own[0].system == REST:
            panel.set_yscale("log")
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    legend(made, theme)
    return made


def _colours_of_sizes(sizes: Sequence[int], theme: Theme) -> dict[int, Any]:
    """From small to large; the ends that would not stand out from the page are left out."""
    from matplotlib import colormaps

    low, high = (0.3, 0.95) if theme == "dark" else (0.0, 0.75)
    places = [low + (high - low) * place / max(1, len(sizes) - 1) for place in range(len(sizes))]
    return dict(zip(sizes, colormaps["viridis"](places), strict=True))
