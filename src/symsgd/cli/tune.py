"""`symsgd tune`: the step size and the penalty that suit the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from symsgd.cli.frame import Output, check_target, short, with_output
from symsgd.cli.settings import estimator_for, training_options
from symsgd.cli.sources import check_there, open_source, reading_options

if TYPE_CHECKING:
    from symsgd.cli.job import Job
    from symsgd.cli.search import Candidate, Timed
    from symsgd.cli.targets import Array

MOST_LINES = 12
PAPER_BLOCKS = (64, 128, 256, 512)
PAPER_K = (7, 15, 31)
WITHOUT_STEP = ("optimal",)
KEPT = (
    "penalty", "l1_ratio", "epsilon", "intercept", "class_weight", "power", "average", "seed", "strategy", "block_size",
    "combiner", "k", "device",
)  # fmt: skip
PAPER_STRATEGIES = ("mr-symsgd", "async-symsgd")
NOT_HERE = {  # options of a training that a search has no use for
    "step_size": "--step-sizes are tried",
    "alpha": "--alphas are tried",
    "tol": "every round has its passes",
    "patience": "every round has its passes",
    "nu": "it is of one_class, which has no targets to judge by",
}


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """Numbers above 0 with commas between them."""

    name = "numbers"

    def __init__(self, whole: bool = False) -> None:
        self._number: type[float] = int if whole else float
        self._example = "64,256" if whole else "0.01,0.1,1"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, list):
            return value
        try:
            found = [self._number(own) for own in str(value).split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers, as {self._example}", param, ctx)
        if not all(math.isfinite(own) and own > 0 for own in found):
            self.fail(f"{value!r} has a number that is not above 0", param, ctx)
        return found


@click.command(short_help="Find the step size and the penalty that suit the data.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "-o",
    "--output-config",
    "path",
    required=True,
    type=click.Path(),
    help="Where to write the best settings: JSON if it ends with .json, else TOML.",
)
@reading_options
@training_options
@click.option("--step-sizes", type=Numbers(), help="To try; by default 0.001 to 10, two in each decade.")
@click.option(
    "--alphas", type=Numbers(), help="Strengths of the penalty to try; by default 1e-7 to 0.001, one in each decade."
)
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    show_default=True,
    help="Share of the rows that judge.",
)
@click.option(
    "--paper",
    is_flag=True,
    help="Then try block sizes and k of --strategy mr-symsgd or async-symsgd, as the paper did.",
)
@click.option(
    "--plot", type=click.Path(), help="Draw the loss over step size and penalty to this file (.png, .svg, .pdf)."
)
@with_output
def command(
    data: str, path: str, reading: dict[str, Any], step_sizes: list[float] | None, alphas: list[float] | None,
    holdout: float, paper: bool, plot: str | None, output: Output, **given: Any,
) -> None:  # fmt: skip
    """Find the step size and the strength of the penalty that suit the rows in DATA, on all cores.

    All of them are tried for a pass; the better third goes on for more, up to --passes; and so on. The loss on held-out
    rows decides. What is found is written as a configuration that `symsgd train --config` takes.

    \b
        symsgd tune train.svm -o best.toml
        symsgd train train.svm -o model --config best.toml
    Fewer choices, a schedule that takes only a penalty, and the paper's own parameters:
        symsgd tune train.svm -o best.toml --step-sizes 0.1,0.3,1 --alphas 1e-6
        symsgd tune train.svm -o best.toml --schedule optimal
        symsgd tune train.svm -o best.toml --paper --strategy async-symsgd
    """
    for option, why in NOT_HERE.items():
        if given[option] is not None:
            raise click.UsageError(f"--{option.replace('_', '-')} is no option of a search: {why}")
    kind = given["strategy"] or PAPER_STRATEGIES[0]
    if paper and kind not in PAPER_STRATEGIES:
        raise click.UsageError(f"--paper is for --strategy {' and '.join(PAPER_STRATEGIES)}")
    check_target(path)
    check_there(data)
    from symsgd.cli import plots
    from symsgd.cli.config import to_text
    from symsgd.cli.job import Job
    from symsgd.cli.targets import check_labelled, likely_loss, targets_for
    from symsgd.files import written_whole

    plots.check(plot)
    source = open_source(data, reading)
    output.notes(source.notes)
    check_labelled(source, data)
    loss = given["loss"] or likely_loss(source)[0]
    if loss == "one_class":
        raise click.UsageError("--loss one_class has no targets to judge by")
    given["schedule"] = given["schedule"] or "constant"
    job = Job(source, targets_for(source, loss), estimator_for(loss, given))
    held_out = job.rows_to_hold_out(holdout)
    candidates = _search(job, held_out, step_sizes, alphas, output)
    best = candidates[0]
    if math.isinf(best.loss):
        raise ValueError("every training diverged; try smaller --step-sizes, or scale the data")
    job = job.with_parameters(**best.parameters)
    found: dict[str, Any] = {"loss": loss, "schedule": given["schedule"], "passes": best.passes}
    found |= {own: given[own] for own in KEPT if given[own] is not None}
    found |= {_option(name): value for name, value in best.parameters.items()}
    timed: list[Timed] = []
    if paper:
        timed = _time(job, kind, held_out, output)
        from symsgd.cli.search import fastest

        chosen = fastest(timed)
        found |= {"strategy": kind, "block_size": chosen.block_size, "k": chosen.k}
    with written_whole(path) as file:
        file.write(to_text(found, path).encode())
    scores = job.score(job.model(best.result), held_out) if best.result is not None else {}
    _report(output, candidates, timed, found, scores, path)
    if plot is not None:
        plots.write(plots.of_search([(own.parameters, own.loss) for own in candidates]), plot)
        output.note(f"plot: {plot}")


def _option(parameter: str) -> str:
    return "step_size" if parameter == "eta0" else parameter


def _search(
    job: Job, held_out: Array, steps: list[float] | None, alphas: list[float] | None, output: Output
) -> list[Candidate]:
    from symsgd.cli.search import around, halve
    from symsgd.threads import resolve_threads

    parameters = job.estimator.get_params()
    grid: list[dict[str, Any]] = [{}]
    if parameters["penalty"] is not None:
        grid = [{"alpha": own} for own in alphas or around(1e-5, 2, 10)]
    elif alphas:
        raise click.UsageError("--alphas are strengths of a penalty, and --penalty none has none")
    if parameters["learning_rate"] == "linear" and not steps:
        pass  # the curvature of the loss gives it one
    elif parameters["learning_rate"] not in WITHOUT_STEP:
        grid = [{"eta0": step, **own} for own in grid for step in steps or around(0.1, 4, 10**0.5)]
    elif steps:
        raise click.UsageError(f"--step-sizes do not go with --schedule {parameters['learning_rate']}")

    def told(passes: int, going: list[Candidate]) -> None:
        best = going[0]
        settings = ", ".join(f"{_option(name)} {value:g}" for name, value in best.parameters.items())
        output.note(f"{len(going)} trained for {passes} passes; best loss {_loss(best.loss)} with {settings}")

    threads = resolve_threads(job.estimator.n_jobs)
    return halve(job, grid, held_out, job.estimator.max_iter, threads, told)


def _time(job: Job, kind: str, held_out: Array, output: Output) -> list[Timed]:
    from symsgd.cli.search import time_blocks
    from symsgd.strategies import STRATEGIES

    found = []
    sizes = [(block, k) for block in PAPER_BLOCKS for k in PAPER_K]
    for own in time_blocks(job, STRATEGIES[kind], sizes, held_out, min(3, job.estimator.max_iter)):
        output.note(f"block {own.block_size}, k {own.k}: loss {_loss(own.loss)}, {own.seconds:.3g} s a pass")
        found.append(own)
    return found


def _report(
    output: Output, candidates: list[Candidate], timed: list[Timed], found: dict[str, Any], scores: Any, path: str
) -> None:
    tried = [
        {
            **{_option(name): value for name, value in own.parameters.items()},
            "passes": own.passes,
            "loss": _finite(own.loss),
        }
        for own in candidates
    ]
    blocks = [vars(own) | {"loss": _finite(own.loss), "seconds": _finite(own.seconds)} for own in timed]
    output.document({"config": path, "best": found, "scores": scores, "tried": tried, "blocks": blocks})
    names = [_option(name) for name in candidates[0].parameters]
    output.table(
        [*names, "passes", "held-out loss"],
        [
            [*(f"{value:g}" for value in own.parameters.values()), str(own.passes), _loss(own.loss)]
            for own in candidates[:MOST_LINES]
        ],
    )
    if len(candidates) > MOST_LINES:
        output.text(f"and {len(candidates) - MOST_LINES} that were worse")
    if timed:
        output.table(
            ["block", "k", "held-out loss", "seconds a pass"],
            [[str(own.block_size), str(own.k), _loss(own.loss), f"{own.seconds:.3g}"] for own in timed],
        )
    output.text("best: " + ", ".join(f"{name} {value}" for name, value in found.items()))
    output.text("held-out rows: " + ", ".join(f"{name} {short(value, 4)}" for name, value in scores.items()))
    output.text(f"config: {path}")


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _loss(loss: float) -> str:
    return short(loss) if math.isfinite(loss) else "diverged"
