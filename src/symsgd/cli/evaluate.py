"""`symsgd evaluate`: how good a model is on rows whose targets are known."""

from __future__ import annotations

from typing import Any

import click

from symsgd.cli.estimators import check_width, load_estimator
from symsgd.cli.frame import Output, short, with_output
from symsgd.cli.sources import Stream, format_option


@click.command(short_help="Score a model on rows whose targets are known.")
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "--plot",
    type=click.Path(),
    help="Draw the ROC curve and the calibration, or predictions against targets, to this file (.png, .svg, .pdf).",
)
@format_option
@with_output
def command(model: str, data: str, plot: str | None, format: str | None, output: Output) -> None:
    """Score MODEL on the rows in DATA ("-": standard input), whose targets are known.

    For labels: AUC (for more than two the mean over one label against the rest), log loss, accuracy, and for two labels
    how often what had a probability happened. For numbers: R², root mean squared and mean absolute error.

    \b
        symsgd evaluate model test.svm
        symsgd evaluate model test.svm --plot test.png
        symsgd evaluate model test.svm --json | jq .scores.AUC
    """
    from symsgd.cli import plots
    from symsgd.cli.scores import Bin, calibration, of_model

    plots.check(plot)
    loaded = load_estimator(model)
    if loaded.loss == "one_class":
        raise ValueError(f"{model} finds outliers, and nothing says which are; symsgd predict lists them")
    stream = Stream(data, {} if format is None else {"format": format}, getattr(loaded, "schema_", None))
    scores, probabilities, targets, weight = _collected(loaded, stream, data)
    output.notes(stream.notes)
    values = of_model(loaded, scores, probabilities, targets, weight)
    bins: list[Bin] = []
    if probabilities is not None and probabilities.shape[1] == 2:
        bins = calibration(probabilities[:, 1], targets == 1, weight)
    document = {"model": model, "data": data, "rows": len(targets), "scores": values}
    output.document(document | ({"calibration": [vars(own) for own in bins]} if bins else {}))
    output.table(
        ["", "value"], [["rows", f"{len(targets):,}"], *([name, short(own, 6)] for name, own in values.items())]
    )
    if bins:
        output.table(
            ["probability", "predicted", "observed", "rows"],
            [
                [f"tenth {at}", f"{own.predicted:.4f}", f"{own.observed:.4f}", f"{own.rows:,}"]
                for at, own in enumerate(bins, 1)
            ],
            title=f"Calibration for the label {loaded.classes_[1]}",
        )
    if plot is not None:
        if (labels := getattr(loaded, "classes_", None)) is None:
            drawn = plots.of_numbers(scores, targets)
        else:
            drawn = plots.of_classes(scores, targets, labels, bins)
        plots.write(drawn, plot)
        output.note(f"plot: {plot}")


def _collected(model: Any, stream: Stream, path: str) -> tuple[Any, Any, Any, Any]:
    """Scores, probabilities, targets and weights of all rows; of a classifier the targets are numbers of classes."""
    import numpy as np

    from symsgd.cli.scores import predictions
    from symsgd.cli.targets import check_labelled, class_numbers

    found: list[tuple[Any, ...]] = []
    for part in stream:
        check_width(model, part, path)
        if len(part):
            check_labelled(part, path)
            targets = class_numbers(part, model.classes_) if hasattr(model, "classes_") else part.y
            found.append((*predictions(model, part.X), targets, part.sample_weight))
    if not found:
        raise ValueError(f"{path} has no rows")
    columns = (None if column[0] is None else np.concatenate(column) for column in zip(*found, strict=True))
    return next(columns), next(columns), next(columns), next(columns)
