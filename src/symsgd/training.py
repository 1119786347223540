"""`train`: the one way to the native core. Estimators, command line and everything else go through it.

It checks the input once, says in the core's words what there is to do, and lets it run pass by pass
(:mod:`symsgd.runs`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from symsgd import _core, devices, losses, penalties, schedules, strategies
from symsgd._choices import check_count, check_number
from symsgd.callbacks import CallbackLike, as_callbacks
from symsgd.checkpoints import Checkpoints, fingerprint
from symsgd.data.store import Store
from symsgd.gpu import build
from symsgd.gpu.machine import Machine
from symsgd.inputs import Data, check_data, on_host, without_repeats
from symsgd.judging import EarlyStopping, Judge
from symsgd.losses import Loss, OneClass
from symsgd.penalties import Penalty
from symsgd.problem import Problem, Rule
from symsgd.results import Result, Start, decision
from symsgd.runs import NativeTraining, Run, pass_by_pass
from symsgd.schedules import Linear, Schedule
from symsgd.step_sizes import largest_step
from symsgd.strategies import Auto, Strategy, Work
from symsgd.threads import available_memory, resolve_threads

__all__ = ["Result", "Start", "decision", "train"]

logger = logging.getLogger("symsgd")

SPARSE_INTERCEPT_DECAY = 0.01  # scikit-learn's: intercepts of sparse problems learn a hundred times slower
WINDOW_ORDER_FROM = 16 * 512  # rows; below this a full permutation costs no cache misses worth avoiding
FINGERPRINT_ROWS = 256  # of data in a GPU's memory
MODEL_COPIES = 3  # at least: the core's, and the last two that it has come to


def train(
    X: Any,
    y: Any = None,
    *,
    loss: str | Loss = "log_loss",
    penalty: str | Penalty | None = "l2",
    schedule: str | Schedule = "optimal",
    strategy: str | Strategy = "auto",
    device: str = "cpu",
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
    average: bool | int = False,
    init: Start | Result | None = None,
    early_stopping: EarlyStopping | None = None,
    eval_set: tuple[Any, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 1,
    callbacks: Iterable[CallbackLike] | CallbackLike | None = None,
) -> Result:
    """Trains a linear model by stochastic gradient descent.

    Parameters
    ----------
    X : CSR matrix or array of shape (rows, features), float32 or float64, used in place; or a store
        (:func:`symsgd.data.open`), which has targets and weights of its own and may be larger than the memory; or rows
        that were checked before (:class:`symsgd.inputs.Data`)
    y : targets. For the margin losses (log_loss, hinge, …) labels of any kind, two or more of them; for the others
        numbers. Not used by the one-class loss.
    loss, penalty, schedule, strategy : a name, or an instance from the module of that name
    device : "cpu", "cuda" for a GPU (docs/gpu.md), or "auto" for a GPU where there is one and the work is worth it
    n_threads : ``None`` for every core this process may use
    n_passes : passes over the data, at most
    seed : of the order of the rows, 0 … 2³² − 1
    sample_weight : one weight a row, or one for all
    class_weight : one weight a class, in ascending order of the labels
    classes : the labels in ascending order, if ``y`` may lack some; also makes a classification of losses for numbers
    shuffle : ``True`` for the window order (a permutation up to 8,192 rows), ``"full"`` for scikit-learn's permutation,
        ``"blocks"`` for one that reads files larger than the memory in large pieces, ``False`` for storage order
    tol, patience : stop after ``patience`` passes without improving the objective by ``tol``; ``None`` never stops
    average : ``True``, or the number of the step from which the iterates are averaged
    init : continue from here; the order starts again with the first pass's, and L1 forgets what each weight has
        received, as in scikit-learn's ``partial_fit``
    early_stopping : rows to hold out, and to judge the model by, instead of the objective
    eval_set : (X, y) whose score goes into each pass's record
    checkpoint, every : a file that the training is kept in after every so many passes, and goes on from if it is there:
        one that was killed ends with the same bits as one that was not (docs/checkpoints.md)
    callbacks : called after each pass, see :mod:`symsgd.callbacks`

    Raises
    ------
    CheckpointError : the file at ``checkpoint`` is damaged, or of another training
    DivergenceError : the weights became infinite; ``.result`` has the last finite model
    TrainingInterrupted : Ctrl-C; ``.result`` has the model so far
    """
    listeners = as_callbacks(callbacks)
    chosen = strategies.resolve(strategy)
    threads = resolve_threads(n_threads, "n_threads")
    rule = Rule.check(losses.resolve(loss), penalties.resolve(penalty), schedules.resolve(schedule), average)
    chosen.check(rule, shuffle)
    if checkpoint is not None:
        chosen.check_checkpoint()
    check_count("n_passes", n_passes)
    check_count("patience", patience)
    if tol is not None:
        check_number("tol", tol, at_least=0.0)
        if isinstance(rule.schedule, Linear) and rule.schedule.n_steps is None:
            raise ValueError(
                f"tol={tol!r} does not go with schedule='linear', which comes down to 0 over all of "
                f"n_passes={n_passes}: a training that stops before has not come down. Use tol=None, or say how many "
                "steps: schedules.Linear(n_steps=...)"
            )
    if init is not None:
        check_start(init)
    y, sample_weight = on_host(y), on_host(sample_weight)
    if isinstance(X, Store):
        y, sample_weight = targets_of_store(X, y, sample_weight, rule.loss)
    data = check_data(X, threads)
    chosen.check_data(data.sparse)
    problem = Problem.check(data, y, rule.loss, classes, class_weight, sample_weight)
    expected = n_passes if tol is None else min(n_passes, strategies.PASSES_TO_EXPECT)
    work = Work(
        n_threads=threads,
        n_passes=expected,
        entries=data.n_entries,
        sparse=data.sparse,
        n_features=data.n_features,
        n_models=problem.n_models,
        bytes_a_number=data.dtype.itemsize,
        memory=available_memory(),
        mapped=data.mapped,
        n_rows=data.n_rows,
    )
    machine = _machine_for(device, chosen, rule, work, data.on_gpu)
    if machine is None:
        _check_memory(work)
        chosen, work, reason = _decide(chosen, rule, work)
    else:
        build.check(rule)
        chosen, reason = build.decide(chosen, rule, work, data.n_rows, machine)
    rule = replace(rule, schedule=chosen.schedule(rule.schedule))
    if chosen.needs_norms(rule):  # |x|² is wrong where a feature repeats
        data = without_repeats(data, threads)
    judge = Judge.check(data, problem, rule.loss, early_stopping, eval_set, threads)
    decay = SPARSE_INTERCEPT_DECAY if data.sparse else 1.0
    if isinstance(rule.schedule, Linear):
        n_trained = data.n_rows if judge.held_out is None else int((~judge.held_out).sum())
        line = rule.schedule.over(1.0 if init is None else float(init.t), n_passes * n_trained)
        if line.step_size == "auto":
            line = replace(line, step_size=largest_step(data, problem, rule.loss, decay if fit_intercept else 0.0))
            logger.info("the first step is of size %.3g", line.step_size)
        rule = replace(rule, schedule=line)
    in_core = chosen.native(work)
    order = row_order(shuffle, data.n_rows)
    common: dict[str, Any] = {
        "fit_intercept": bool(fit_intercept),
        "track_norms": tol is not None and early_stopping is None,
        "order": order,
        "seed": check_seed(seed),
        "held_out": None if early_stopping is None else judge.held_out_bytes(),
        "t": 1.0 if init is None else float(init.t),
    }
    native: NativeTraining
    if machine is None:
        native = _core.Training(
            rows=data.rows,
            **problem.native(),
            **rule.native(),
            intercept_decay=decay,
            repeats=not data.canonical,
            soft_curvature=chosen.soft_curvature,
            strategy=_core.Strategy(**in_core),
            mapped=data.mapped,
            memory=work.memory,
            **common,
        )
    else:
        native = build.make(machine, data, problem, rule, chosen, intercept_decay=decay, **common)
    run = Run(
        native=native,
        problem=problem,
        rule=rule,
        reason=reason,
        n_features=data.n_features,
        dtype=data.dtype,
        placed=machine.asarray if machine is not None and data.on_gpu else None,
        gathers=chosen.gathers,
    )
    run.begin_from(init)
    keeper = None
    if checkpoint is not None:
        decisive = {
            **_named_data(data, problem, judge),
            "loss, penalty and schedule": repr(rule),
            "fit_intercept": str(bool(fit_intercept)),
            "strategy": repr(chosen),
            "what the core makes of it": str({name: value for name, value in in_core.items() if name != "cores"}),
            "n_threads": str(threads),
            "order": f"{order} of seed {seed}",
            "tol, patience": f"{tol}, {patience}",
            "init": "none" if init is None else f"{fingerprint(init.coef)} at step {init.t}",
            "instruction set": _core.instruction_set() if machine is None else machine.name,
        }
        keeper = Checkpoints.check(checkpoint, every, decisive)
    logger.info("training %d rows x %d features; %s", data.n_rows, data.n_features, reason)
    return pass_by_pass(run, judge, listeners, n_passes, data.n_rows, tol, patience, keeper)


def targets_of_store(store: Store, y: Any, sample_weight: Any, loss: Loss) -> tuple[Any, Any]:
    """The store's own where the caller gives none."""
    if y is None and store.summary.unlabelled and not isinstance(loss, OneClass):
        raise ValueError(
            f"{store.path}: {store.summary.unlabelled} of its {len(store)} rows have no label, and loss={loss.name!r} "
            "needs one for each"
        )
    return store.y if y is None else y, store.sample_weight if sample_weight is None else sample_weight


def _named_data(data: Data, problem: Problem, judge: Judge) -> dict[str, str]:
    """What tells a checkpoint of other data from one of these."""
    return {
        "X": f"{data.n_rows} rows of {data.n_features} features "
        f"({fingerprint(_told(data))}, {fingerprint(data.indices)})",
        "y": f"{problem.target} ({fingerprint(problem.labels)})",
        "sample_weight": fingerprint(problem.sample_weight),
        "class weights": f"{problem.positive_weight}, {problem.negative_weight}",
        "held-out rows": fingerprint(judge.held_out),
    }


def _told(data: Data) -> Any:
    """What data are known by; of rows in a GPU's memory some, spread evenly, and the sums of all."""
    if not data.on_gpu:
        return data.values
    some = data.source[:: max(1, data.n_rows // FINGERPRINT_ROWS)]
    return np.vstack([on_host(some), on_host(data.source.sum(axis=0, keepdims=True))])


def _check_memory(work: Work) -> None:
    """MemoryError where not even the model fits: a file with one index mistyped must not bring down the machine."""
    needed = MODEL_COPIES * work.n_models * work.n_features * work.bytes_a_number
    if needed > work.memory:
        raise MemoryError(
            f"a model of {work.n_features:,} features needs {needed / 2**30:,.1f} GiB, and there are "
            f"{work.memory / 2**30:,.1f}; is a feature's number in the data too large, or should features be hashed?"
        )


def _decide(chosen: Strategy, rule: Rule, work: Work) -> tuple[Strategy, Work, str]:
    """The strategy that will run, on how many threads, and in words why."""
    if not isinstance(chosen, Auto):
        return chosen, work, f"{chosen.name}: as asked"
    return chosen.decide(rule, work)


def _machine_for(device: str, chosen: Strategy, rule: Rule, work: Work, on_gpu: bool) -> Machine | None:
    """The GPU to train on; None for the CPU."""
    if devices.check_device(device) == "cpu":
        if on_gpu:
            raise ValueError(
                "X is in the memory of a GPU and device='cpu'; use device='cuda', or a copy of X on the host"
            )
        return None
    if device == "auto" and not on_gpu:
        reason = build.why_cpu(chosen, rule, work) or devices.why_not_cuda() or build.no_room(devices.cuda(), work)
        if reason:
            logger.info("on the CPU: %s", reason)
            return None
    return devices.cuda()


def check_start(init: Start | Result) -> None:
    """TypeError or ValueError for what a training cannot continue from."""
    if not isinstance(init, (Start, Result)):
        raise TypeError(f"init={init!r} is neither a symsgd.Start nor a symsgd.Result")
    check_number("init.t", init.t, at_least=1.0)


def row_order(shuffle: Any, n_rows: int) -> str:
    """Which order so many rows are visited in, in the core's words."""
    if shuffle is False or (isinstance(shuffle, np.bool_) and not shuffle):
        return "storage"
    if shuffle is True or isinstance(shuffle, np.bool_):
        return "window" if n_rows > WINDOW_ORDER_FROM else "full"
    if shuffle == "blocks":
        return "blocks"
    if shuffle == "full":
        if n_rows >= 2**32:
            raise ValueError(f"shuffle='full' works for fewer than 2**32 rows, not for {n_rows}; use shuffle=True")
        return "full"
    raise ValueError(f"shuffle={shuffle!r} is not accepted; it must be True, False, 'full' or 'blocks'")


def check_seed(seed: Any) -> int:
    """An integer of 32 bits."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise ValueError(f"seed={seed!r} is not accepted; it must be an integer from 0 to 2**32 - 1")
    return int(seed)
