"""A training in the words of :func:`symsgd.train`, checked and put on a machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from symsgd.combiners import Curvature
from symsgd.gpu.directions import USUAL_RANK
from symsgd.gpu.machine import Machine, Step
from symsgd.gpu.schedule import PassSteps
from symsgd.gpu.source import Source, source_of, too_large
from symsgd.gpu.training import Orders, Rounds, Training
from symsgd.inputs import Data
from symsgd.penalties import L2, NoPenalty
from symsgd.problem import Problem, Rule
from symsgd.steps import StepSizes
from symsgd.strategies import Auto, MapReduce, Sequential, Strategy, Work

LEAST_ROWS = 8192  # fewer are over before rounds have found their size
LEAST_WORK = 1_000_000_000  # numbers in all passes: half a second on one core, less than what a GPU takes to begin


def decide(chosen: Strategy, rule: Rule, work: Work, n_rows: int, machine: Machine | None) -> tuple[Strategy, str]:
    """Sequential, which is exact, or the curvature combiner; and why.

    Raises
    ------
    ValueError : the strategy is one that a GPU does not have
    """
    name = machine.name if machine else "a GPU"
    if work.sparse and (isinstance(chosen, Sequential) or rule.schedule.passive_aggressive):
        raise ValueError(
            "device='cuda' trains sparse rows in rounds only: strategy='auto' and a schedule that is not "
            f"passive-aggressive, not strategy={chosen.name!r} and schedule={rule.schedule.name!r}; use device='cpu'"
        )
    if isinstance(chosen, Sequential) or (isinstance(chosen, MapReduce) and isinstance(chosen.combiner, Curvature)):
        return chosen, f"{chosen.name} on {name}: as asked"
    if not isinstance(chosen, Auto):
        raise ValueError(
            f"strategy={chosen.name!r} does not run on device='cuda'; there are 'sequential', "
            "MapReduce(Curvature(), block_size='auto') and 'auto'"
        )
    if rule.schedule.passive_aggressive:
        return Sequential(), f"sequential on {name}: schedule={rule.schedule.name!r} takes its steps from margins"
    if n_rows < LEAST_ROWS and not work.sparse:
        return Sequential(), f"sequential on {name}: {n_rows} rows are too few for rounds"
    if machine is not None and not work.sparse:
        try:
            dtype = np.dtype(f"f{work.bytes_a_number}")
            machine.most_rows(machine.padded(work.n_features), work.n_models, USUAL_RANK + 1, dtype)
        except ValueError as reason:
            return Sequential(), f"sequential on {name}: {reason}"
    return (
        MapReduce(Curvature(), block_size="auto"),
        f"mr-symsgd with the curvature combiner on {name}, rounds as large as their measured error allows",
    )


def why_cpu(chosen: Strategy, rule: Rule, work: Work) -> str:
    """Why ``device="auto"`` does not ask for a GPU; nothing if it does."""
    if work.mapped:
        return "the rows are in a file"
    if work.entries * work.n_passes < LEAST_WORK:
        return f"{work.entries * work.n_passes:,} numbers in all passes are not worth the way to a GPU"
    try:
        check(rule)
        decide(chosen, rule, work, LEAST_ROWS, None)
    except ValueError as reason:
        return str(reason)
    return ""


def no_room(machine: Machine, work: Work) -> str:
    """Why sparse rows, which are not streamed, do not fit; nothing if they do."""
    return too_large(machine, work.entries, work.bytes_a_number) if work.sparse else ""


def check(rule: Rule) -> None:
    """Raises ValueError for what a GPU does not train."""
    if not isinstance(rule.penalty, (NoPenalty, L2)):
        raise ValueError(
            f"penalty={rule.penalty.name!r} does not work with device='cuda', which has None and 'l2'; use device='cpu'"
        )
    if rule.average_from:
        raise ValueError("average does not work with device='cuda'; use device='cpu'")


def make(
    machine: Machine,
    data: Data,
    problem: Problem,
    rule: Rule,
    chosen: Strategy,
    *,
    fit_intercept: bool,
    intercept_decay: float,
    track_norms: bool,
    order: str,
    seed: int,
    held_out: Any,
    t: float,
) -> Training:
    """The training; rows are copied to the machine unless they are there."""
    native = rule.native()
    source = source_of(machine, data.source, data.on_gpu)
    if rule.schedule.name == "pa1" and native["l2"] > 0.0 and not _all_have_features(machine, source):
        raise ValueError(
            "schedule='pa1' passes over rows of zeros, and X has some; with device='cuda' and penalty='l2' they would "
            "still shrink the weights; use device='cpu', or leave them out"
        )
    most_curvature = rule.loss.most_curvature * max(*problem.positive_weight, *problem.negative_weight)
    steps = PassSteps(machine=machine, dtype=data.dtype, sizes=StepSizes.of(rule), most_curvature=most_curvature)
    step = Step(
        loss=rule.loss.name,
        epsilon=native["loss_parameter"],
        kappa=intercept_decay if fit_intercept else 0.0,
        pull=native["intercept_pull"],
        passive_aggressive={"pa1": 1, "pa2": 2}.get(rule.schedule.name, 0),
    )
    return Training(
        machine,
        source=source,
        n_features=data.n_features,
        labels=_labels(problem, data.n_rows),
        sample_weight=problem.sample_weight,
        positive_weight=problem.positive_weight,
        negative_weight=problem.negative_weight,
        several=problem.target == "classes",
        step=step,
        steps=steps,
        track_norms=track_norms,
        mode="exact" if isinstance(chosen, Sequential) else "rounds",
        rounds=_rounds(chosen),
        orders=Orders(machine, order, data.n_rows, seed, held_out),
        t=t,
    )


def _all_have_features(machine: Machine, source: Source) -> bool:
    rows = machine.asarray(np.arange(source.shape[0], dtype=np.int32))
    return all(bool((piece.X != 0).any(axis=1).all()) for piece in source.pieces(rows))


def _rounds(chosen: Strategy) -> Rounds:
    if not isinstance(chosen, MapReduce) or not isinstance(chosen.combiner, Curvature):
        return Rounds(0.0, 1, 0, 0)
    combiner = chosen.combiner
    return Rounds(
        tolerance=combiner.tolerance,
        rank=USUAL_RANK if combiner.rank == "auto" else combiner.rank,
        block_size=0 if chosen.block_size == "auto" else chosen.block_size,
        sweeps=0 if combiner.refine == "auto" else combiner.refine + 1,
    )


def _labels(problem: Problem, n_rows: int) -> Any:
    """What the kernels read: ±1 for two classes, class numbers for more, numbers as they are."""
    if problem.labels is None:
        return np.ones(n_rows)
    if problem.target == "binary":
        return np.where(problem.labels == problem.positive, 1.0, -1.0)
    return problem.labels
