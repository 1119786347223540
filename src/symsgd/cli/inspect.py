"""`symsgd inspect`: what a model or a file of rows holds."""

from __future__ import annotations

from typing import Any

import click

from symsgd.cli.frame import Output, with_output
from symsgd.cli.sources import open_source, reading_options

SAMPLE = 1000  # rows by which frequent features are told


@click.command(short_help="Show what a model or a file of rows holds.")
@click.argument("file", type=click.Path())
@click.option(
    "-n",
    "--largest",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many of a model's weights to show.",
)
@reading_options
@with_output
def command(file: str, largest: int, reading: dict[str, Any], output: Output) -> None:
    """Show what FILE holds: a model, a store or any file of rows.

    Of a model: how it was trained, its labels, its largest weights by name. Of rows: how many, their features and
    nonzeros, their labels, and the share of nonzeros that belong to frequent features (NFNZ).

    \b
        symsgd inspect model
        symsgd inspect model -n 1000 > weights.txt
        symsgd inspect train.svm
    """
    from symsgd.archives import BEGINNING, MODEL, NAME_AT

    with open(file, "rb") as beginning:
        head = beginning.read(NAME_AT + len(MODEL.document))
    if head.startswith(BEGINNING) and head.endswith(MODEL.document.encode()):
        _show_model(file, largest, output)
    else:
        _show_rows(file, reading, output)


def _show_model(file: str, largest: int, output: Output) -> None:
    import symsgd
    from symsgd.models.predictor import Predictor
    from symsgd.models.text import by_size, describe

    model = symsgd.load(file)
    predictor, about = Predictor.of(model), describe(model)
    order = by_size(predictor.coef)
    shown = [(predictor.name(int(at)), predictor.coef[:, at].tolist()) for at in order[:largest]]
    result = model if isinstance(model, symsgd.Result) else getattr(model, "result_", None)
    output.document(
        {
            **{name: about.get(name) for name in ("model", "loss", "parameters", "strategy")},
            "read from": None if predictor.schema is None else predictor.schema.format,
            "classes": predictor.classes,
            "features": predictor.n_features,
            "features with a weight": len(order),
            "steps": None if result is None else int(result.t) - 1,
            "passes": [] if result is None else [vars(record) for record in result.passes],
            "intercept": predictor.intercept,
            "weights": dict(shown),
        }
    )
    for name, value in about.items():
        output.text(f"{name}: {value}")
    several = len(predictor.coef) > 1 and predictor.classes is not None
    columns = [str(own) for own in predictor.classes] if several and predictor.classes is not None else ["weight"]
    rows = [("(intercept)", predictor.intercept.tolist()), *shown]
    output.table(["feature", *columns], [[name, *(f"{own:.6g}" for own in weights)] for name, weights in rows])
    if len(shown) < len(order):
        output.text(f"and {len(order) - len(shown):,} smaller weights")


def _show_rows(file: str, reading: dict[str, Any], output: Output) -> None:
    data = open_source(file, reading)
    facts = _facts(data)
    output.notes(data.notes)
    output.document(facts)
    output.table(["", "value"], [[name, _words(value)] for name, value in facts.items()])


def _facts(data: Any) -> dict[str, Any]:
    import numpy as np
    import scipy.sparse as sp

    from symsgd.analysis import nfnz_ratio
    from symsgd.inputs import find_classes

    rows, features = data.X.shape
    nonzeros = data.X.nnz if sp.issparse(data.X) else int(np.count_nonzero(data.X))
    facts: dict[str, Any] = {
        "format": data.schema.format,
        "rows": int(rows),
        "features": int(features),
        "nonzeros": int(nonzeros),
        "nonzeros a row": nonzeros / max(rows, 1),
    }
    if nonzeros:
        sample = data.X[: 10 * SAMPLE]  # a share of so many rows is known well enough
        facts["NFNZ"] = nfnz_ratio(sample, sample=SAMPLE)
    known = data.y[~np.isnan(data.y)]
    facts["rows without a label"] = len(data.y) - len(known)
    values = find_classes(known) if len(known) else known
    if data.schema.label_names is not None or len(values) <= 10:
        names = data.schema.label_names or [f"{own:g}" for own in values]
        counts = [int(np.count_nonzero(known == own)) for own in values]
        facts["labels"] = {
            names[int(own)] if data.schema.label_names else f"{own:g}": count
            for own, count in zip(values, counts, strict=True)
        }
    else:
        facts["targets"] = {"least": float(known.min()), "mean": float(known.mean()), "greatest": float(known.max())}
    facts["weights"] = data.sample_weight is not None
    return facts


def _words(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
        case dict():
            return ", ".join(f"{name}: {_words(own)}" for name, own in value.items())
    return str(value)
