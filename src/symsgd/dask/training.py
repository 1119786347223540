"""`train(client, …)`: :func:`symsgd.train` on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symsgd import _core, losses, penalties, schedules
from symsgd._choices import check_count, check_number
from symsgd.callbacks import CallbackLike, as_callbacks
from symsgd.checkpoints import Checkpoints, fingerprint
from symsgd.dask import costs
from symsgd.dask.choices import Plan, check_several, plan_for
from symsgd.dask.cluster import Cluster
from symsgd.dask.control import first_control
from symsgd.dask.directions import Sample
from symsgd.dask.judging import DistributedJudge
from symsgd.dask.lanes import Journal, Lanes
from symsgd.dask.partitions import Partitions, draw_sample, partitions_of
from symsgd.dask.rounds import DistributedTraining, RoundRecord
from symsgd.dask.worker import Training
from symsgd.inputs import Array, check_data
from symsgd.losses import Loss
from symsgd.penalties import Penalty
from symsgd.problem import Problem, Rule, check_class_weight
from symsgd.results import Result, Start
from symsgd.runs import Run, pass_by_pass
from symsgd.schedules import Linear, Schedule
from symsgd.step_sizes import largest_step
from symsgd.steps import StepSizes
from symsgd.strategies import Strategy
from symsgd.training import SPARSE_INTERCEPT_DECAY, check_seed, check_start, row_order

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("symsgd")

LEAST_BLOCKS, MOST_BLOCKS = 8, 64  # of a round, where the caller does not say


@dataclass(frozen=True)
class DistributedResult(Result):
    """A :class:`symsgd.Result`, what every round was (``rounds``, by pass; empty lists for those before a checkpoint),
    and in which order rows were trained: ``journal.order(0)`` are those of the first pass."""

    rounds: list[list[RoundRecord]] = field(default_factory=list)
    journal: Journal | None = None
    repeated: int = 0  # rounds that were computed again because workers died


def train(
    client: Client,
    X: Any,
    y: Any = None,
    *,
    loss: str | Loss = "log_loss",
    penalty: str | Penalty | None = "l2",
    schedule: str | Schedule = "optimal",
    strategy: str | Strategy = "auto",
    blocks: int | None = None,
    n_threads: int | None = None,
    n_passes: int = 10,
    seed: int = 0,
    sample_weight: Any = None,
    class_weight: Any = None,
    classes: Any = None,
    fit_intercept: bool = True,
    shuffle: bool | str = True,
    tol: float | None = None,
    patience: int = 5,
    init: Start | Result | None = None,
    eval_set: tuple[Any, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 1,
    callbacks: Iterable[CallbackLike] | CallbackLike | None = None,
) -> DistributedResult:
    """Trains a linear model on the workers of a cluster. Parameters as in :func:`symsgd.train`, but for

    Parameters
    ----------
    client : a ``distributed.Client``
    X : a Dask array (dense or of CSR blocks), a Dask dataframe, a list of delayed partitions or futures, the path of a
        store or a list of paths. Workers open stores themselves. Nothing is gathered here. Also what
        :func:`symsgd.dask.partitions.partitions_of` has made of one of them
    y, sample_weight : a collection that is cut as X is; partitions that are tuples (X, y, weights) and stores have
        theirs
    strategy : "auto", "sequential", "averaging", "allreduce", "parameter-server", "mr-symsgd" or what they stand for;
        "auto" and "mr-symsgd" merge by the curvature combiner, and "auto" leaves rounds that do not pay to one worker
    blocks : blocks of a round, which may be trained at the same time. By default as many as X has partitions, from 8
        to 64. It decides the order of the rows and the result; the number of workers does not
    n_threads : of a block of 50 million entries and more; by default as many as every worker has. Smaller blocks have
        one, and a worker trains as many of them at a time as it has threads
    eval_set : (X, y), collections or arrays
    checkpoint, every : a file of the client; one that was killed goes on from there with the same bits

    Raises
    ------
    DivergenceError, TrainingInterrupted, CheckpointError : as there
    RuntimeError : workers died again and again in the same round, or took data with them that cannot be computed again
    """
    listeners = as_callbacks(callbacks)
    _check_client(client)
    rule = Rule.check(losses.resolve(loss), penalties.resolve(penalty), schedules.resolve(schedule), False)
    plan = plan_for(strategy, rule)
    check_count("n_passes", n_passes)
    check_count("patience", patience)
    if blocks is not None:
        check_count("blocks", blocks)
    if n_threads is not None:
        check_count("n_threads", n_threads)
    check_seed(seed)
    row_order(shuffle, 1)
    if tol is not None:
        check_number("tol", tol, at_least=0.0)
        if isinstance(rule.schedule, Linear) and rule.schedule.n_steps is None:
            raise ValueError(
                f"tol={tol!r} does not go with schedule='linear', which comes down to 0 over all of "
                f"n_passes={n_passes}; use tol=None, or schedules.Linear(n_steps=...)"
            )
    if init is not None:
        check_start(init)
    keeper_at = None if checkpoint is None else Checkpoints.check(checkpoint, every, {})
    found = partitions_of(client, X, y, sample_weight)
    known = found.classes(rule.loss, classes)
    n_models = 1 if known is None or len(known) == 2 else len(known)
    check_several(rule, n_models)
    weights = None if known is None or class_weight is None else check_class_weight(class_weight, len(known))
    judge = DistributedJudge.check(client, eval_set, known, rule.loss, found.n_features)
    sample = draw_sample(client, found, known, weights)
    kappa = (SPARSE_INTERCEPT_DECAY if found.sparse else 1.0) if fit_intercept else 0.0
    t = 1.0 if init is None else float(init.t)
    rule = replace(rule, schedule=plan.within.schedule(rule.schedule))
    rule = _with_line(rule, sample, found, kappa, t, n_passes * found.n_rows)
    threads = n_threads or min(client.nthreads().values(), default=1)
    training = Training(
        loss=rule.loss, penalty=rule.penalty, schedule=rule.schedule, strategy=plan.within, n_threads=threads,
        fit_intercept=bool(fit_intercept), shuffle=shuffle, classes=known, class_weight=weights, n_models=n_models,
        dtype=str(found.dtype), steps=StepSizes.of(rule), known_steps=not rule.schedule.passive_aggressive,
    )  # fmt: skip
    lanes = Lanes(found.rows, _n_lanes(blocks, plan, found), seed)
    probe = _probe(sample)
    cluster = Cluster(client, found, training, probe.X)
    control, reason = _control(plan, lanes, found)
    native = DistributedTraining(
        cluster, training, lanes, control, sample, probe,
        n_features=found.n_features, kappa=kappa, pull=float(getattr(rule.loss, "nu", 0.0)), merges=plan.merges,
        rank=plan.rank, track_norms=tol is not None, t=t, journal=Journal(found.rows, shuffle),
    )  # fmt: skip
    run = Run(
        native=native, problem=_problem(known, n_models), rule=rule, reason=reason, n_features=found.n_features,
        dtype=found.dtype, gathers=plan.merges == "adagrad",
    )  # fmt: skip
    run.begin_from(init)
    keeper = None
    if keeper_at is not None:
        decisive = {
            "X, y and sample_weight": _named(found),
            "loss, penalty and schedule": repr(rule),
            "fit_intercept": str(bool(fit_intercept)),
            "strategy": repr(plan),
            "classes and their weights": f"{None if known is None else known.tolist()}, {weights}",
            "blocks and n_threads": f"{lanes.count}, {threads}",
            "order": f"{shuffle} of seed {seed}",
            "tol, patience": f"{tol}, {patience}",
            "init": "none" if init is None else f"{fingerprint(init.coef)} at step {init.t}",
            "instruction set": _core.instruction_set(),
        }
        keeper = replace(keeper_at, settings=decisive)
    logger.info("training %d rows x %d features; %s", found.n_rows, found.n_features, reason)
    try:
        result = pass_by_pass(run, judge, listeners, n_passes, found.n_rows, tol, patience, keeper)
    finally:
        cluster.close()
    own = {name.name: getattr(result, name.name) for name in fields(Result)}
    return DistributedResult(**own, rounds=native.rounds, journal=native.journal, repeated=cluster.repeated)


def _check_client(client: Any) -> None:
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("symsgd.dask needs Dask's scheduler: pip install 'symsgd[dask]'") from error
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(f"client={client!r} is not accepted; it must be a distributed.Client that is not asynchronous")


def _n_lanes(blocks: int | None, plan: Plan, found: Partitions) -> int:
    if not plan.parallel:
        return 1
    return blocks or min(MOST_BLOCKS, max(LEAST_BLOCKS, sum(rows > 0 for rows in found.rows)))


def _control(plan: Plan, lanes: Lanes, found: Partitions) -> tuple[Any, str]:
    entries = found.n_entries / found.n_rows
    least = costs.least_rows(entries, lanes.count) if plan.pays else 1
    whole = found.n_rows if not plan.parallel or plan.block_size == 0 else plan.block_size
    control = first_control(found.n_rows, lanes.count, least, plan.tolerance, whole, plan.measures)
    reason = plan.reason
    if plan.pays and control.alone > found.n_rows:
        reason = (
            f"sequential, one block after the other: rounds of {lanes.count} blocks pay from {least:,} rows each on, "
            f"and {found.n_rows:,} rows would be less than four of them; one machine would be faster"
        )
    return control, f"{reason}; {lanes.count} blocks a round over {len(found.rows)} partitions"


def _probe(sample: Sample) -> Sample:
    """The rows that errors are measured by."""
    return sample.take(np.unique(np.linspace(0, sample.n_rows - 1, min(256, sample.n_rows)).astype(np.int64)))


def _with_line(rule: Rule, sample: Sample, found: Partitions, kappa: float, t: float, n_steps: int) -> Rule:
    if not isinstance(rule.schedule, Linear):
        return rule
    line = rule.schedule.over(t, n_steps)
    if line.step_size == "auto":
        heaviest = Problem("real", None, 1.0, None, [1.0], [1.0], sample.weights.max(axis=0))
        line = replace(line, step_size=largest_step(check_data(sample.X, 1), heaviest, rule.loss, kappa))
        logger.info("the first step is of size %.3g", line.step_size)
    return replace(rule, schedule=line)


def _problem(classes: Array | None, n_models: int) -> Problem:
    """What a run asks of it: the number of models and the classes."""
    target = "real" if classes is None else "binary" if n_models == 1 else "classes"
    return Problem(target, None, 1.0, classes, [1.0] * n_models, [1.0] * n_models, None)


def _named(found: Partitions) -> str:
    """What tells a checkpoint of other data from one of these."""
    return (
        f"{found.n_rows} rows of {found.n_features} features ({fingerprint(np.array([f.print for f in found.facts]))})"
    )
