"""`symsgd train`: a model from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from symsgd.cli.config import config_option
from symsgd.cli.estimators import check_width, load_estimator
from symsgd.cli.frame import INTERRUPTED, Output, check_target, short, with_output
from symsgd.cli.job import Job
from symsgd.cli.settings import estimator_for, training_options
from symsgd.cli.sources import check_there, open_source, reading_options

if TYPE_CHECKING:
    from symsgd.data.dataset import Dataset
    from symsgd.training import Result

MOST_LINES = 20  # of the table of passes
EARLY_STOPPING = {"holdout": 0.1, "tol": 1e-3, "passes": 1000}


@click.command(short_help="Train a model from rows.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.option("-o", "--output-model", "path", required=True, type=click.Path(), help="Where to write the model.")
@click.option(
    "-i", "--initial-model", type=click.Path(), help="Continue this model, by its own settings where none are given."
)
@config_option
@reading_options
@training_options
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of the rows to keep out of the training and score the model on.",
)
@click.option(
    "--early-stopping",
    is_flag=True,
    help="Stop when the held-out rows say so: --holdout 0.1 --tol 0.001 --passes 1000, where not given.",
)
@click.option(
    "--checkpoint", type=click.Path(), help="Keep the training in this file, and go on from it if it is there."
)
@click.option("--every", type=click.IntRange(min=1), help="So many passes the checkpoint is written; 1 by default.")
@click.option(
    "--cv",
    type=click.IntRange(min=2),
    help="Before the training, score so many models on the part of the rows that each has not seen.",
)
@with_output
def command(
    data: str,
    path: str,
    initial_model: str | None,
    reading: dict[str, Any],
    holdout: float | None,
    early_stopping: bool,
    cv: int | None,
    checkpoint: str | None,
    every: int | None,
    output: Output,
    **given: Any,
) -> None:
    """Train a model from the rows in DATA ("-": standard input) and write it to a file.

    \b
    Logistic regression, because there are two labels; a tenth of the rows to judge it by:
        symsgd train a9a.svm -o a9a.model --holdout 0.1
    A linear SVM with larger steps, as many passes as it takes:
        symsgd train a9a.svm -o svm.model --loss hinge --step-size 0.1 --early-stopping
    What `symsgd tune` found, then more of it tomorrow:
        symsgd train monday.svm -o model --config best.toml
        symsgd train tuesday.svm -o model -i model
    A long training, which goes on where it was if it is killed and started again:
        symsgd train criteo.store -o model --passes 50 --checkpoint criteo.ckpt
    Dense rows on a GPU:
        symsgd train higgs.npz -o model --device cuda
    """
    check_target(path)
    check_there(data)
    import symsgd
    from symsgd.cli.targets import check_labelled, likely_loss, targets_for
    from symsgd.errors import TrainingInterrupted

    if every is not None and checkpoint is None:
        raise click.UsageError("--every says how often --checkpoint is written, and there is none")
    kept = {} if checkpoint is None else {"checkpoint": checkpoint, "every": every or 1}
    model = None if initial_model is None else load_estimator(initial_model)
    source = open_source(data, reading, getattr(model, "schema_", None))
    output.notes(source.notes)
    if model is not None:
        check_width(model, source, data)
    loss = given["loss"] or (None if model is None else model.loss)
    if loss != "one_class":
        check_labelled(source, data)
    if loss is None:
        loss, why = likely_loss(source)
        output.note(f"loss: {loss} ({why})")
    if early_stopping:
        holdout = holdout or EARLY_STOPPING["holdout"]
        given |= {own: EARLY_STOPPING[own] for own in ("tol", "passes") if given[own] is None}
    targets = targets_for(source, loss, getattr(model, "classes_", None))
    job = Job(source, targets, estimator_for(loss, given, model), model)
    _check_device(job.estimator.device)
    scores = {}
    if cv is not None:
        scores["cross-validation"] = job.cross_validate(cv, output)
    held_out = None if holdout is None else job.rows_to_hold_out(holdout)
    interrupted = None
    try:
        result = job.train(held_out, output, **kept)
    except TrainingInterrupted as interrupt:
        if not interrupt.result.passes:
            raise
        interrupted, result = interrupt, interrupt.result
    trained = job.model(result)
    symsgd.save(trained, path, schema=source.schema)
    if held_out is not None:
        scores["held-out rows"] = job.score(trained, held_out)
    _report(output, source, result, scores, loss, path)
    if interrupted is not None:
        output.note(f"{interrupted}; the model so far is in {path}")
        raise click.exceptions.Exit(INTERRUPTED)


def _check_device(device: str) -> None:
    """Before anything is trained, and whether it was asked for here, in a configuration or by the initial model."""
    from symsgd import devices

    if device == "cuda" and (reason := devices.why_not_cuda()):
        raise click.UsageError(f"--device cuda needs a GPU and CuPy: {reason}")


def _report(output: Output, data: Dataset, result: Result, scores: dict[str, Any], loss: str, path: str) -> None:
    seconds = sum(record.seconds for record in result.passes)
    output.document(
        {
            "model": path,
            "rows": len(data),
            "features": int(data.X.shape[1]),
            "loss": loss,
            "strategy": result.strategy,
            "converged": result.converged,
            "seconds": seconds,
            "passes": [vars(record) for record in result.passes],
            "scores": scores,
        }
    )
    if not output.speaks:
        return
    judged = any(record.validation_score is not None for record in result.passes)
    measured = any(record.error is not None for record in result.passes)
    columns = ["pass", "loss", *(["held out"] if judged else []), "seconds", "rows/s", *(["error"] if measured else [])]
    shown = _thinned(result.passes)
    output.table(
        columns,
        [
            [
                str(record.number),
                short(record.loss),
                *([f"{record.validation_score:.4f}"] if judged else []),
                f"{record.seconds:.3g}",
                f"{record.rows / max(record.seconds, 1e-9):,.0f}",
                *(["" if record.error is None else f"{record.error:.4f}"] if measured else []),
            ]
            for record in shown
        ],
    )
    output.text(f"{len(data):,} rows, {data.X.shape[1]:,} features, {len(result.passes)} passes in {seconds:.3g} s")
    for where, found in scores.items():
        output.text(f"{where}: " + ", ".join(f"{name} {short(value, 4)}" for name, value in found.items()))
    output.text(f"model: {path}")


def _thinned(passes: list[Any]) -> list[Any]:
    """The first ones, the last one, and as many between as fit."""
    if len(passes) <= MOST_LINES:
        return passes
    step = -(-len(passes) // MOST_LINES)
    return [*passes[:-1:step], passes[-1]]
