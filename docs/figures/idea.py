"""Draws docs/figures/idea.svg: two processors, a stale start, and where each combiner lands.

    python docs/figures/idea.py

The file is the same for the same version of matplotlib. The numbers drawn are in its description, as JSON:
tests/test_docs.py compares them with what `numbers` says now.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from symsgd import analysis, losses, penalties, reference, schedules

STEP_SIZE, ROWS, K, DRAWS = 0.2, 10, 15, 60
STEEP, FLAT = np.array([0.28, 0.96]), np.array([-0.96, 0.28])
TARGET = np.array([1.0, 0.0])  # the weights that made y
START = TARGET + 1.9 * STEEP + 3.0 * FLAT  # w_g
FIGURE = Path(__file__).with_suffix(".svg")


def problem() -> tuple[Any, Any]:
    """Two blocks of rows whose loss is a valley: steep in one direction, flat in the other."""
    rng = np.random.default_rng(38)
    sizes = rng.uniform(0.6, 1.4, (2 * ROWS, 2)) * rng.choice([-1.0, 1.0], (2 * ROWS, 2))
    X = sizes @ np.array([STEEP, 0.45 * FLAT])
    return X, X @ TARGET + 0.3 * rng.standard_normal(2 * ROWS)


def path(X: Any, y: Any, start: Any) -> Any:
    """Where SGD is before its first step and after each."""
    learner = reference.make_learner(
        X, y, loss=losses.SquaredError(), penalty=penalties.NoPenalty(), schedule=schedules.Constant(STEP_SIZE),
        fit_intercept=False,
    )  # fmt: skip
    state, points = reference.start_state(learner, start), [start]
    for row in range(len(X)):
        state = reference.run_block(learner, state, [row]).end
        points.append(state.vector[:-1])
    return np.array(points)


def numbers() -> dict[str, Any]:
    """All that is drawn: the paths, and where each combiner lands."""
    X, y = problem()
    (X1, y1), (X2, y2) = (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])
    first, stale = path(X1, y1, START), path(X2, y2, START)
    second = path(X2, y2, first[-1])  # what one processor would have done
    d = first[-1] - START
    block = analysis.combiner(X2, y2, START, loss="squared_error", step_size=STEP_SIZE)
    rng, estimates = np.random.default_rng(0), []
    for _ in range(DRAWS):
        A = reference.sparse_projection(rng, 2, K)
        estimates.append(stale[-1] + d + block.apply_rest(A) @ (A.T @ d))
    return {
        "first": first,
        "stale": stale,
        "second": second,
        "sum": stale[-1] + d,
        "mean": (first[-1] + stale[-1]) / 2,
        "exact": stale[-1] + block.apply(d),
        "projected": np.array(estimates),
    }


def distances(drawn: dict[str, Any]) -> dict[str, float]:
    """How far from the sequential end each combiner lands; of the projected one the root mean square of the draws."""
    end = drawn["second"][-1]
    off = {name: drawn[name] - end for name in ("sum", "mean", "projected", "exact")}
    return {name: float(np.sqrt(np.mean(np.sum(np.atleast_2d(by) ** 2, axis=1)))) for name, by in off.items()}


def description(drawn: dict[str, Any]) -> str:
    """The numbers as JSON, as the file carries them."""
    return json.dumps({name: np.round(points, 4).tolist() for name, points in drawn.items()}, separators=(",", ":"))


def draw(target: Path = FIGURE) -> None:
    """Writes the figure."""
    import matplotlib
    from matplotlib.figure import Figure

    drawn = numbers()
    with matplotlib.rc_context({"svg.hashsalt": "symsgd", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 5.8), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, title in (left, "What the two processors do"), (right, "What each combiner makes of it"):
            _contours(axes)
            axes.set(title=title, xlabel="first weight", aspect="equal", xticks=[], yticks=[])
            axes.set(xlim=(-2.3, 1.7), ylim=(-1.6, 3.0))
        left.set_ylabel("second weight")
        _paths(left, drawn)
        _landings(right, drawn)
        metadata = {"Date": None, "Creator": "docs/figures/idea.py", "Description": description(drawn)}
        figure.savefig(target, metadata=metadata, bbox_inches="tight")


def _contours(axes: Any) -> None:
    """The loss is a quadratic function: its contours are ellipses around the least squares solution."""
    from matplotlib.patches import Ellipse

    X, y = problem()
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    curvatures, directions = np.linalg.eigh(X.T @ X / len(X))
    angle = np.degrees(np.arctan2(*directions[::-1, 0]))
    for above in np.geomspace(0.02, 6, 7):  # of the loss, above its least
        axes.add_patch(
            Ellipse(best, *2 * np.sqrt(2 * above / curvatures), angle=angle, fill=False, color="0.8", lw=0.7)
        )
    axes.plot(*best, "+", color="0.4")


def _paths(axes: Any, drawn: dict[str, Any]) -> None:
    first, stale, second = drawn["first"], drawn["stale"], drawn["second"]
    axes.plot(*second.T, ".-", color="0.45", lw=1, ms=3, label="block 2 after block 1: the sequential run")
    axes.plot(*first.T, ".-", color="#0072b2", lw=1.3, ms=4, label="block 1")
    axes.plot(*stale.T, ".-", color="#d55e00", lw=1.3, ms=4, label="block 2 from the stale start")
    arrow = {"arrowstyle": "->", "color": "#0072b2", "linestyle": "--", "shrinkA": 3, "shrinkB": 3}
    axes.annotate("", first[-1], START, arrowprops=arrow)
    _name(axes, (first[-1] + START) / 2, "d", (5, 3), "#0072b2")
    _name(axes, START, "w_g", (-22, 4), "black")
    _name(axes, first[-1], "S₁", (2, 7), "#0072b2")
    _name(axes, stale[-1], "S₂", (-4, -16), "#d55e00")
    axes.plot(*START, "ko", ms=5)
    axes.plot(*second[-1], "k*", ms=11)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.05), frameon=False)


def _landings(axes: Any, drawn: dict[str, Any]) -> None:
    axes.plot(*drawn["first"].T, "-", color="#0072b2", lw=0.8, alpha=0.5)
    axes.plot(*drawn["second"].T, "-", color="0.45", lw=0.8)
    axes.plot(*START, "ko", ms=5)
    axes.plot(*drawn["projected"].T, ".", color="#d6a1be", ms=3, label=f"projected, {DRAWS} draws, k = {K}")
    axes.plot(*drawn["sum"], "s", color="#d55e00", ms=7, label="sum: S₂ + d")
    axes.plot(*drawn["mean"], "D", color="#009e73", ms=6, label="mean: (S₁ + S₂) / 2")
    axes.plot(*drawn["exact"], "o", mfc="none", mec="#56b4e9", mew=2, ms=13, label="exact: S₂ + M₂ d")
    axes.plot(*drawn["second"][-1], "k*", ms=9, label="where one processor ends")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.05), frameon=False)


def _name(axes: Any, at: Any, text: str, offset: tuple[float, float], color: str) -> None:
    axes.annotate(text, at, xytext=offset, textcoords="offset points", color=color, fontsize=11)


if __name__ == "__main__":
    draw()
