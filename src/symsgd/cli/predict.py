"""`symsgd predict`: a line for every row."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from symsgd.cli.estimators import check_width, load_estimator
from symsgd.cli.frame import Output, check_target, with_output
from symsgd.cli.sources import Stream, format_option, without_targets


@click.command(short_help="Predict labels, probabilities, scores or numbers.")
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "-o", "--output-file", "path", default="-", type=click.Path(allow_dash=True), help="Standard output by default."
)
@click.option(
    "--what",
    type=click.Choice(["label", "probability", "score"]),
    help="By default labels, or numbers if the model predicts numbers.",
)
@format_option
@with_output
def command(model: str, data: str, path: str, what: str | None, format: str | None, output: Output) -> None:
    """Predict the rows in DATA ("-": standard input) by MODEL, a line for every row, in their order.

    The rows are read and predicted some thousands at a time, in bounded memory. Labels in DATA are not used. A line has
    the label, or the probability of the second of two labels, or one for each of several, in the order that
    `symsgd inspect MODEL` shows; scores likewise. With --json a line has all of them, by name.

    \b
        symsgd predict model new.svm > labels.txt
        symsgd predict model new.svm --what probability -o probabilities.txt
        zcat new.svm.gz | symsgd predict model - --json
    """
    if path != "-":
        check_target(path)
    loaded = load_estimator(model)
    _check(loaded, what, model)
    schema = without_targets(getattr(loaded, "schema_", None))
    stream = Stream(data, {} if format is None else {"format": format}, schema)
    rows = 0
    with _opened(path) as file:
        for part in stream:
            check_width(loaded, part, data)
            if len(part):
                file.write(_lines(loaded, part.X, what, output.as_json).encode())
                file.flush()  # somebody may be waiting for it
            rows += len(part)
    output.notes(stream.notes)
    if path != "-":
        output.note(f"{rows:,} rows predicted, in {path}")


def _check(model: Any, what: str | None, path: str) -> None:
    if what == "probability" and not hasattr(model, "predict_proba"):
        raise ValueError(f"{path} has no probabilities: its loss is {model.loss}; log_loss and modified_huber have")
    if what is not None and not hasattr(model, "decision_function"):
        raise ValueError(f"{path} predicts numbers, which are neither labels nor scores; leave --what out")


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    from symsgd.files import written_whole

    if path != "-":
        with written_whole(path) as file:
            yield file
    else:
        yield sys.stdout.buffer


def _lines(model: Any, X: Any, what: str | None, as_json: bool) -> str:
    if as_json:
        return _documents(model, X)
    if not hasattr(model, "decision_function") or what in (None, "label"):
        rows = model.predict(X)
    elif what == "score":
        rows = model.decision_function(X)
    else:
        rows = model.predict_proba(X)
        rows = rows[:, 1] if rows.shape[1] == 2 else rows
    values = rows.tolist()
    lines = ("\t".join(map(str, row)) for row in values) if rows.ndim == 2 else map(str, values)
    return "\n".join(lines) + "\n"


def _documents(model: Any, X: Any) -> str:
    """A JSON object a line."""
    columns = {"label" if hasattr(model, "decision_function") else "prediction": model.predict(X).tolist()}
    if hasattr(model, "decision_function"):
        columns["score"] = model.decision_function(X).tolist()
    if hasattr(model, "predict_proba"):
        names = [str(label) for label in model.classes_]
        columns["probability"] = [dict(zip(names, row, strict=True)) for row in model.predict_proba(X).tolist()]
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
