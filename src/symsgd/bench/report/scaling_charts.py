"""The figures of scaling: logarithmic axes, so that what is proportional is straight, and lines of the ideal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symsgd.bench.records import Row
from symsgd.bench.report.base import Chart, Theme
from symsgd.bench.report.grouping import file_name, grouped, in_groups, least
from symsgd.bench.report.style import SURFACES, figure, legend, line_of

GROWTH = {"rows": "rows", "features": "features", "nonzeros": "nonzeros a row"}
PANELS = 3  # side by side, at most
IDEAL = (0, (1, 2))
_TITLES = {"threads": "Speedup", "GPU": "Speedup beside a GPU"}


def growth(rows: Sequence[Row]) -> Chart:
    """A panel for each of rows, features and nonzeros that was measured."""

    def draw(theme: Theme) -> Any:
        parts = grouped(rows, lambda row: row.part)
        drawn, axes = figure(theme, columns=len(parts), width=3.8 * len(parts) + 0.6, height=4.2)
        for place, (part, own) in zip(axes, parts.items(), strict=True):
            ideal: list[tuple[int, float]] = []
            for system, each in grouped(own, lambda row: row.system).items():
                points = _points(each, part)
                ideal = ideal or points
                place.plot(*zip(*points, strict=True), label=system, **line_of(system, theme))
            end, last = ideal[-1]  # where what a row costs by itself counts least
            level = [ideal[0][1] if part == "features" else last * value / end for value, _ in ideal]
            place.plot(
                [value for value, _ in ideal], level, color=SURFACES[theme].faint, linestyle=IDEAL, label="ideal"
            )  # fmt: skip
            place.set_xscale("log")
            place.set_yscale("log")
            place.set_xlabel(GROWTH.get(part, part))
        axes[0].set_ylabel("ms a pass")
        legend(drawn, theme)
        return drawn

    title = "Milliseconds a pass over rows that grow"
    text = "Milliseconds a pass against rows, features and nonzeros a row, a line a system, with lines of the ideal"
    return Chart("scaling-growth", title, text, draw)


def _points(rows: Sequence[Row], part: str) -> list[tuple[int, float]]:
    by_value = grouped(rows, lambda row: int(row.settings[part]))
    return [(value, 1e3 * (least(own, "pass_seconds") or 0.0)) for value, own in sorted(by_value.items())]


def on_gpu(row: Row) -> bool:
    """Rows of the part "GPU" are of a GPU unless they say that they are the CPU's beside it."""
    return row.part == "GPU" and row.settings.get("device") != "cpu"


def speedups(rows: Sequence[Row], part: str) -> list[Chart]:
    """Times faster than the sequential loop by threads, a panel a set, a few sets a figure. A GPU is a level line."""
    sets = {
        data: own
        for data, own in grouped(rows, lambda row: row.data).items()
        if any(row.system == "sequential" for row in own)
    }
    charts = []
    for names in in_groups(list(sets), PANELS):

        def draw(theme: Theme, names: Sequence[str] = names) -> Any:
            return _draw_speedups({name: sets[name] for name in names}, theme)

        text = f"Times faster than the sequential loop by threads on {', '.join(names)}; the dotted line is the ideal"
        if part == "GPU":
            text += ", level lines are a GPU's"
        charts.append(Chart(file_name("scaling", part, *names), f"{_TITLES[part]}: {', '.join(names)}", text, draw))
    return charts


def _draw_speedups(sets: dict[str, list[Row]], theme: Theme) -> Any:
    drawn, axes = figure(theme, columns=len(sets), width=3.8 * len(sets) + 0.6, height=4.6)
    for place, (data, rows) in zip(axes, sets.items(), strict=True):
        base = least([row for row in rows if row.system == "sequential"], "pass_seconds") or 1.0
        counts = sorted({1, *(row.threads for row in rows)})
        for system, own in grouped(rows, lambda row: row.system).items():
            look = line_of(system, theme)
            times = {count: _times(base, each) for count, each in grouped(own, lambda row: row.threads).items()}
            if on_gpu(own[0]):
                level = [times[own[0].threads]] * len(counts)
                place.plot(counts, level, label=system, **look | {"linestyle": "-."})
            elif system != "sequential":
                if 1 not in times and system != "Hogwild!":
                    times[1] = 1.0  # it is the sequential loop
                place.plot(sorted(times), [times[count] for count in sorted(times)], label=system, **look)
        place.plot(counts, counts, color=SURFACES[theme].faint, linestyle=IDEAL, label="ideal")
        place.axhline(1.0, color=SURFACES[theme].faint, linewidth=0.8)
        place.set_title(data)
        _by_threads(place, counts)
        place.set_yscale("log", base=2)
        place.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[0].set_ylabel("times sequential")
    legend(drawn, theme)
    return drawn


def _times(base: float, rows: Sequence[Row]) -> float:
    seconds = least(rows, "pass_seconds")
    return base / seconds if seconds else 1.0


def _by_threads(place: Any, counts: Sequence[int]) -> None:
    place.set_xscale("log", base=2)
    place.set_xticks(counts, [str(count) for count in counts])
    place.minorticks_off()
    place.set_xlabel("threads")


def bandwidths(rows: Sequence[Row]) -> Chart:
    """GB/s by threads: reads alone, and passes."""

    def draw(theme: Theme) -> Any:
        drawn, (place,) = figure(theme, width=6.4, height=4.4)
        for system, own in grouped(rows, lambda row: row.system).items():
            best = {
                count: max(row.measures["bytes_per_second"] for row in each) / 1e9
                for count, each in sorted(grouped(own, lambda row: row.threads).items())
            }
            place.plot(list(best), list(best.values()), label=system, **line_of(system, theme))
        _by_threads(place, sorted({row.threads for row in rows}))
        place.set_ylim(bottom=0)
        place.set_ylabel("GB/s")
        legend(drawn, theme)
        return drawn

    text = "Gigabytes a second that threads read from the memory, and that passes over dense rows take, by threads"
    return Chart("scaling-memory", "Dense rows against the memory", text, draw)
