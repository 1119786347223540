"""`symsgd spectrum`: the singular values of the combiners of a data set."""

from __future__ import annotations

from typing import Any

import click

from symsgd.cli.estimators import check_width, load_estimator
from symsgd.cli.frame import Output, with_output
from symsgd.cli.settings import positive
from symsgd.cli.sources import check_there, open_source, reading_options
from symsgd.cli.tune import Numbers
from symsgd.losses import LOSSES


@click.command(short_help="Show the singular values of the combiners of a data set.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "--model",
    type=click.Path(),
    help="Where the blocks begin; by default a model trained for one pass.",
)
@click.option(
    "--loss",
    type=click.Choice(sorted(set(LOSSES) - {"one_class"})),
    help="By default that of the model, or log_loss for two labels and squared_error for numbers.",
)
@click.option("--step-size", type=positive(), default=0.1, show_default=True)
@click.option(
    "--alpha", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Strength of the l2 penalty."
)
@click.option(
    "--block-sizes",
    type=Numbers(whole=True),
    help="Rows of a block; by default 64,128,256,512, as in the paper.",
)
@click.option("--plot", type=click.Path(), help="Draw them to this file (.png, .svg, .pdf).")
@reading_options
@with_output
def command(
    data: str, model: str | None, loss: str | None, step_size: float, alpha: float, block_sizes: list[int] | None,
    plot: str | None, reading: dict[str, Any], output: Output,
) -> None:  # fmt: skip
    """Show how large the parts of the model combiner M of blocks of rows of DATA are: its singular values.

    M says how what a block ends with depends on what it begins with. Singular values of N = M - D, D being what the
    penalty does, fall quickly where few random columns (k) of the projected combiner are enough.

    \b
        symsgd spectrum train.svm --step-size 0.5 --plot spectrum.png
        symsgd spectrum train.svm --model model --block-sizes 32,1024 --json
    """
    check_there(data)
    from symsgd.analysis import plot_singular_values, singular_values
    from symsgd.analysis.spectra import PAPER_BLOCK_SIZES
    from symsgd.cli import plots
    from symsgd.penalties import L2, NoPenalty

    plots.check(plot)
    loaded = None if model is None else load_estimator(model)
    source = open_source(data, reading, getattr(loaded, "schema_", None))
    output.notes(source.notes)
    loss, y, start, intercept = _start(source, data, loaded, loss, step_size)
    sizes = block_sizes or [own for own in PAPER_BLOCK_SIZES if own <= len(source)]
    if not sizes or max(sizes) > len(source):
        raise ValueError(f"{data} has {len(source):,} rows; say --block-sizes, none larger than that")
    found = singular_values(
        source.X[: max(sizes)], y[: max(sizes)], start, block_sizes=sizes, loss=loss, step_size=step_size,
        penalty=L2(alpha) if alpha else NoPenalty(), intercept=intercept,
    )  # fmt: skip
    output.document(
        [
            {"block_size": own.block_size, "decay": own.decay, "n_states": own.n_states, "M": own.M, "N": own.N}
            for own in found
        ]
    )
    output.table(
        ["block", "largest of N", "half as large", "a tenth as large", "smallest of M"],
        [
            [
                str(own.block_size), f"{own.N[0]:.4g}", f"number {_reaching(own.N, 0.5)}",
                f"number {_reaching(own.N, 0.1)}", f"{own.M[-1]:.4g}",
            ]
            for own in found
        ],
    )  # fmt: skip
    if plot is not None:
        plots.write(plot_singular_values(found), plot)
        output.note(f"plot: {plot}")


def _start(source: Any, path: str, model: Any, loss: str | None, step_size: float) -> tuple[str, Any, Any, float]:
    """The loss, targets as it takes them, and the weights and the intercept that blocks begin from."""
    import numpy as np

    import symsgd
    from symsgd.cli.targets import check_labelled, class_numbers, likely_loss, targets_for
    from symsgd.inputs import dense

    check_labelled(source, path)
    loss = loss or (likely_loss(source)[0] if model is None else str(model.loss))
    if loss == "one_class":
        raise ValueError("the combiner of one_class is not looked at here")
    targets = targets_for(source, loss)
    y = source.y
    if targets.classes is not None:
        if len(targets.classes) != 2:
            raise ValueError(f"{path} has {len(targets.classes)} labels; a combiner is that of two, or of numbers")
        labels: Any = targets.labels if model is None else model.classes_
        y = np.where(class_numbers(source, labels) == 1, 1.0, -1.0)
    if model is None:
        first = symsgd.train(
            source.X, y, loss=loss, penalty=None, schedule=symsgd.schedules.Constant(step_size), n_passes=1
        )
        return loss, y, first.coef[0], float(first.intercept[0])
    check_width(model, source, path)
    return loss, y, np.ravel(dense(model.coef_)), float(np.ravel(model.intercept_)[0])


def _reaching(values: Any, share: float) -> int:
    """The number, from 1, of the first singular value that is at most a share of the first."""
    import numpy as np

    below = np.flatnonzero(values <= share * values[0])
    return int(below[0]) + 1 if len(below) else len(values)
