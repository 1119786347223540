"""`symsgd train`: a model from rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from symsgd.cli.config import config_option
from symsgd.cli.estimators import load_estimator
from symsgd.cli.frame import INTERRUPTED, Output, with_output
from symsgd.cli.settings import estimator_for, training_options
from symsgd.cli.sources import format_option, open_source

if TYPE_CHECKING:
    from symsgd.cli.targets import Array, Targets
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
@format_option
@config_option
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
    "--cv",
    type=click.IntRange(min=2),
    help="Before the training, score so many models on the part of the rows that each has not seen.",
)
@with_output
def command(
    data: str,
    path: str,
    initial_model: str | None,
    format: str | None,
    holdout: float | None,
    early_stopping: bool,
    cv: int | None,
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
    """
    import symsgd
    from symsgd.cli.targets import check_labelled, likely_loss, targets_for
    from symsgd.errors import TrainingInterrupted

    model = None if initial_model is None else load_estimator(initial_model)
    source = open_source(data, format=format, schema=getattr(model, "schema_", None))
    output.notes(source.notes)
    loss = given["loss"] or (None if model is None else model.loss)
    if loss != "one_class":
        check_labelled(source, data)
    if loss is None:
        loss, why = likely_loss(source)
        output.note(f"loss: {loss} ({why})")
    if early_stopping:
        holdout = holdout or EARLY_STOPPING["holdout"]
        given |= {own: given[own] or EARLY_STOPPING[own] for own in ("tol", "passes")}
    targets = targets_for(source, loss, getattr(model, "classes_", None))
    job = Job(source, targets, estimator_for(loss, given, model), model)
    scores = {}
    if cv is not None:
        scores["cross-validation"] = job.cross_validate(cv, output)
    held_out = None if holdout is None else job.rows_to_hold_out(holdout)
    interrupted = None
    try:
        result = job.train(held_out, output)
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


@dataclass
class Job:
    """Rows, targets and settings of one training."""

    data: Dataset
    targets: Targets
    estimator: Any
    start: Any = None

    def __post_init__(self) -> None:
        from symsgd.cli.targets import class_weights

        text = getattr(self.estimator, "class_weight", None)
        if isinstance(text, str):
            self.estimator.class_weight, self.class_weight = class_weights(text, self.targets)
        elif isinstance(text, dict) and self.targets.labels is not None:  # of the model that is continued
            import numpy as np

            self.class_weight = np.array([text.get(label, 1.0) for label in self.targets.labels.tolist()])
        else:
            self.class_weight = None

    @property
    def seed(self) -> int:
        """Of the estimator, whose owner may have wanted none, or one that nobody can write on a command line."""
        own = self.estimator.random_state
        return own if isinstance(own, int) else 0

    def train(self, held_out: Array | None, output: Output, **options: Any) -> Result:
        """Trains on all rows but those held out, whose score is in the record of every pass."""
        import symsgd
        from symsgd.callbacks import ProgressBar

        targets = self.targets
        if held_out is not None:
            if targets.y is None:
                raise ValueError("--loss one_class has no targets to score held-out rows by")
            options["early_stopping"] = symsgd.EarlyStopping(held_out)
            options["eval_set"] = (self.data.X[held_out], targets.y[held_out])
        if targets.classes is not None:
            options |= {"classes": targets.classes, "class_weight": self.class_weight}
        if (console := output.watch()) is not None:
            options.setdefault("callbacks", [ProgressBar(console)])
        return symsgd.train(
            self.data.X,
            targets.y,
            **(self.estimator.train_options() | {"seed": self.seed} | options),
            sample_weight=self.data.sample_weight,
            init=None if self.start is None else self.start.as_start(),
        )

    def model(self, result: Result) -> Any:
        """The estimator with this result, and labels by their own names."""
        from sklearn.base import clone

        return clone(self.estimator).adopt(dataclasses.replace(result, classes=self.targets.labels))

    def rows_to_hold_out(self, share: float) -> Array:
        import numpy as np

        n = len(self.data)
        count = min(max(1, round(share * n)), n - 1)
        held_out = np.zeros(n, np.bool_)
        held_out[np.random.default_rng(self.seed).choice(n, count, replace=False)] = True
        return held_out

    def cross_validate(self, parts: int, output: Output) -> dict[str, float]:
        """The mean scores of models each of which was trained without one part of the rows."""
        import numpy as np

        if parts > len(self.data):
            raise ValueError(f"--cv {parts} needs at least as many rows; there are {len(self.data)}")
        part = np.random.default_rng(self.seed).permutation(len(self.data)) % parts
        found: list[dict[str, float]] = []
        for own in range(parts):
            held_out = part == own
            # without a tolerance: the rows that a model is scored by must not decide when it stops
            result = self.train(held_out, Output(quiet=True), tol=None)
            found.append(self.score(self.model(result), held_out))
            output.note(f"part {own + 1}/{parts}: " + ", ".join(f"{k} {v:.4f}" for k, v in found[-1].items()))
        return {name: float(np.mean([own[name] for own in found if name in own])) for name in found[0]}

    def score(self, model: Any, held_out: Array) -> dict[str, float]:
        import numpy as np

        from symsgd.cli.scores import of_model, predictions

        assert self.targets.y is not None
        X, y = self.data.X[held_out], self.targets.y[held_out]
        weight = None if self.data.sample_weight is None else self.data.sample_weight[held_out]
        if self.targets.classes is not None:
            y = np.searchsorted(self.targets.classes, y)
        return of_model(model, *predictions(model, X), y, weight)


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
                f"{record.loss:.5f}",
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
        output.text(f"{where}: " + ", ".join(f"{name} {value:.4f}" for name, value in found.items()))
    output.text(f"model: {path}")


def _thinned(passes: list[Any]) -> list[Any]:
    """The first ones, the last one, and as many between as fit."""
    if len(passes) <= MOST_LINES:
        return passes
    step = -(-len(passes) // MOST_LINES)
    return [*passes[:-1:step], passes[-1]]
