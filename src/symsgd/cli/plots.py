"""The commands' pictures, by matplotlib."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from symsgd.cli.frame import check_target
from symsgd.files import written_whole

if TYPE_CHECKING:
    from symsgd.cli.scores import Array, Bin

MOST_POINTS = 5000


def figure(columns: int = 1) -> tuple[Any, Any]:
    """An empty figure and its axes."""
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError("--plot needs matplotlib: pip install matplotlib") from error
    drawn = figures.Figure(figsize=(5 * columns, 4), layout="constrained")
    return drawn, drawn.subplots(1, columns, squeeze=False)[0]


def check(path: str | None) -> None:
    """Refuses a name of a file that no picture can be written to, before there is one."""
    if path is None:
        return
    check_target(path)
    known = figure()[0].canvas.get_supported_filetypes()
    if _suffix(path) not in known:
        raise ValueError(
            f"--plot {path}: the name must end with one of {', '.join('.' + own for own in sorted(known))}"
        )


def _suffix(path: str) -> str:
    return Path(path).suffix.lstrip(".").lower()


def write(drawn: Any, path: str) -> None:
    """Writes a figure in the format that the name of the file ends with."""
    content = io.BytesIO()
    drawn.savefig(content, format=_suffix(path))
    with written_whole(path) as file:
        file.write(content.getvalue())


def of_classes(scores: Array, places: Array, labels: Array, bins: Sequence[Bin]) -> Any:
    """ROC curves, one against the rest, and beside them the calibration if there is one."""
    from sklearn.metrics import roc_curve

    drawn, axes = figure(2 if bins else 1)
    columns = {labels[1]: scores} if scores.ndim == 1 else dict(zip(labels.tolist(), scores.T, strict=True))
    for at, (label, own) in enumerate(columns.items()):
        right = places == (1 if scores.ndim == 1 else at)
        if right.any() and not right.all():
            wrong_share, right_share, _ = roc_curve(right, own)
            axes[0].plot(wrong_share, right_share, label=str(label))
    axes[0].plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes[0].set(title="ROC", xlabel="false positives", ylabel="true positives")
    axes[0].legend(title="label")
    if bins:
        axes[1].plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes[1].plot([own.predicted for own in bins], [own.observed for own in bins], marker="o")
        axes[1].set(title="Calibration", xlabel="predicted", ylabel="observed")
    return drawn


def of_numbers(predicted: Array, y: Array) -> Any:
    """Predictions against targets; a sample where there are many."""
    drawn, (axes,) = figure()
    shown = np.linspace(0, len(y) - 1, min(len(y), MOST_POINTS)).astype(int)
    ends = [float(min(y.min(), predicted.min())), float(max(y.max(), predicted.max()))]
    axes.plot(ends, ends, color="0.7", linewidth=1)
    axes.plot(y[shown], predicted[shown], ".", markersize=2)
    axes.set(xlabel="target", ylabel="prediction")
    return drawn


def of_search(found: Sequence[tuple[dict[str, Any], float]]) -> Any:
    """The held-out loss over the step size, a line for each penalty; trainings that diverged are left out."""
    drawn, (axes,) = figure()
    finite = [(own, loss) for own, loss in found if np.isfinite(loss)]
    along = "eta0" if "eta0" in finite[0][0] else "alpha"
    lines = {own.get("alpha") if along == "eta0" else None for own, _ in finite}
    for line in sorted(lines, key=lambda own: own or 0.0):
        points = sorted((own[along], loss) for own, loss in finite if line is None or own["alpha"] == line)
        axes.plot(*zip(*points, strict=True), marker=".", label=None if line is None else f"{line:g}")
    axes.set(xscale="log", xlabel="step size" if along == "eta0" else "alpha", ylabel="held-out loss")
    if lines != {None}:
        axes.legend(title="alpha")
    return drawn
