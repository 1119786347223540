"""`train`: the one way to the native core. Estimators, command line and everything else go through it.

It checks the input once, runs the training pass by pass and decides between passes: callbacks, tolerance, early
stopping, divergence. What happens within a pass is the core's.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symsgd import _core, losses, penalties, schedules, strategies
from symsgd._choices import check_count, check_number
from symsgd.callbacks import Callback, CallbackLike, PassRecord, as_callbacks
from symsgd.checkpoints import Checkpoint, Checkpoints, fingerprint
from symsgd.data.store import Store
from symsgd.errors import DivergenceError, TrainingInterrupted
from symsgd.inputs import Array, check_data, decide, dense, without_repeats
from symsgd.judging import EarlyStopping, Judge
from symsgd.losses import Loss, OneClass
from symsgd.penalties import Penalty
from symsgd.problem import Problem, Rule
from symsgd.schedules import Adaptive, Schedule
from symsgd.stopping import Patience
from symsgd.strategies import Auto, Strategy, Work
from symsgd.threads import available_memory, resolve_threads

if TYPE_CHECKING:
    from symsgd.data.dataset import Schema

logger = logging.getLogger("symsgd")

SPARSE_INTERCEPT_DECAY = 0.01  # scikit-learn's: intercepts of sparse problems learn a hundred times slower
WINDOW_ORDER_FROM = 16 * 512  # rows; below this a full permutation costs no cache misses worth avoiding
SMALLEST_ADAPTIVE_STEP = 1e-6


@dataclass(frozen=True)
class Start:
    """What a training continues from. ``t`` is the number of its first step."""

    coef: Array
    intercept: Array
    t: float = 1.0
    average_coef: Array | None = None
    average_intercept: Array | None = None


@dataclass(frozen=True)
class Result:
    """A trained model and how it came about.

    ``coef`` has one row, or one per class where there are more than two; ``average_coef`` and ``average_intercept``
    are the means of the iterates where averaging was asked for and had begun. ``schema`` says what the columns of X
    meant, in results that were loaded from a file which had one.
    """

    coef: Array
    intercept: Array
    passes: list[PassRecord]
    strategy: str
    t: float
    converged: bool
    classes: Array | None = None
    average_coef: Array | None = None
    average_intercept: Array | None = None
    schema: Schema | None = None

    @property
    def n_passes(self) -> int:
        return len(self.passes)

    def decision(self, X: Any, n_threads: int | None = None) -> Array:
        """x·w + b for every row and class: the averaged model where there is one."""
        if self.average_coef is not None:
            return decision(X, self.average_coef, self.average_intercept, n_threads=n_threads)
        return decision(X, self.coef, self.intercept, n_threads=n_threads)


def decision(X: Any, coef: Any, intercept: Any, *, n_threads: int | None = None) -> Array:
    """Scores x·w + b of every row, shape (rows,) for one model and (rows, classes) for several; on all cores."""
    threads = resolve_threads(n_threads, "n_threads")
    data = check_data(X, threads, allow_empty=True)
    return decide(data, np.atleast_2d(dense(coef)), np.atleast_1d(intercept), threads)


def train(
    X: Any,
    y: Any = None,
    *,
    loss: str | Loss = "log_loss",
    penalty: str | Penalty | None = "l2",
    schedule: str | Schedule = "optimal",
    strategy: str | Strategy = "auto",
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
        (:func:`symsgd.data.open`), which has targets and weights of its own and may be larger than the memory
    y : targets. For the margin losses (log_loss, hinge, …) labels of any kind, two or more of them; for the others
        numbers. Not used by the one-class loss.
    loss, penalty, schedule, strategy : a name, or an instance from the module of that name
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
    if init is not None:
        _check_start(init)
    if isinstance(X, Store):
        y, sample_weight = _targets_of_store(X, y, sample_weight, rule.loss)
    data = check_data(X, threads)
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
    )
    chosen, reason = _decide(chosen, rule, work)
    rule = replace(rule, schedule=chosen.schedule(rule.schedule))
    if chosen.needs_norms(rule):  # |x|² is wrong where a feature repeats
        data = without_repeats(data, threads)
    judge = Judge.check(data, problem, rule.loss, early_stopping, eval_set, threads)
    in_core = chosen.native(work)
    order = _order(shuffle, data.n_rows)
    run = _Run(
        native=_core.Training(
            rows=data.rows,
            **problem.native(),
            **rule.native(),
            fit_intercept=bool(fit_intercept),
            intercept_decay=SPARSE_INTERCEPT_DECAY if data.sparse else 1.0,
            track_norms=tol is not None and early_stopping is None,
            repeats=not data.canonical,
            soft_curvature=chosen.soft_curvature,
            strategy=_core.Strategy(**in_core),
            order=order,
            seed=_check_seed(seed),
            held_out=None if early_stopping is None else judge.held_out_bytes(),
            t=1.0 if init is None else float(init.t),
            mapped=data.mapped,
            memory=work.memory,
        ),
        problem=problem,
        rule=rule,
        reason=reason,
        n_features=data.n_features,
        dtype=data.dtype,
    )
    run.begin_from(init)
    keeper = None
    if checkpoint is not None:
        decisive = {
            "X": f"{data.n_rows} rows of {data.n_features} features "
            f"({fingerprint(data.values)}, {fingerprint(data.indices)})",
            "y": f"{problem.target} ({fingerprint(problem.labels)})",
            "sample_weight": fingerprint(problem.sample_weight),
            "class weights": f"{problem.positive_weight}, {problem.negative_weight}",
            "held-out rows": fingerprint(judge.held_out),
            "loss, penalty and schedule": repr(rule),
            "fit_intercept": str(bool(fit_intercept)),
            "strategy": repr(chosen),
            "what the core makes of it": str({name: value for name, value in in_core.items() if name != "cores"}),
            "n_threads": str(threads),
            "order": f"{order} of seed {seed}",
            "tol, patience": f"{tol}, {patience}",
            "init": "none" if init is None else f"{fingerprint(init.coef)} at step {init.t}",
            "instruction set": _core.instruction_set(),
        }
        keeper = Checkpoints.check(checkpoint, every, decisive)
    logger.info("training %d rows x %d features; %s", data.n_rows, data.n_features, reason)
    return _pass_by_pass(run, judge, listeners, n_passes, data.n_rows, tol, patience, keeper)


def _targets_of_store(store: Store, y: Any, sample_weight: Any, loss: Loss) -> tuple[Any, Any]:
    """The store's own where the caller gives none."""
    if y is None and store.summary.unlabelled and not isinstance(loss, OneClass):
        raise ValueError(
            f"{store.path}: {store.summary.unlabelled} of its {len(store)} rows have no label, and loss={loss.name!r} "
            "needs one for each"
        )
    return store.y if y is None else y, store.sample_weight if sample_weight is None else sample_weight


def _decide(chosen: Strategy, rule: Rule, work: Work) -> tuple[Strategy, str]:
    """The strategy that will run, and in words why."""
    if not isinstance(chosen, Auto):
        return chosen, f"{chosen.name}: as asked"
    return chosen.decide(rule, work)


def _pass_by_pass(
    run: _Run,
    judge: Judge,
    listeners: list[Callback],
    n_passes: int,
    n_rows: int,
    tol: float | None,
    patience: int,
    keeper: Checkpoints | None,
) -> Result:
    followed = {c: Patience(tol, patience, rising=judge.stops) for c in range(run.problem.n_models)}
    if keeper is not None and (kept := keeper.load()) is not None:
        run.resume(kept)
        followed.update(kept.patience)
        logger.info("resumed after pass %d from %s", len(run.passes), keeper.path)
    result = None
    started: list[Callback] = []
    try:
        for listener in listeners:
            started.append(listener)
            listener.on_strategy(run.reason)
            listener.on_start(n_passes, n_rows)
        for number in range(len(run.passes) + 1, n_passes + 1 if not run.converged else 0):
            before = time.perf_counter()
            sums = run.native.run_pass()
            seconds = time.perf_counter() - before
            loss, objective = sums.loss, sums.objective
            # predictions overflow before the weights do, and clipped gradients can hide it from the weights for good
            if not all(map(math.isfinite, loss)) or not run.store():
                raise DivergenceError(number, run.result(finite=True))
            record = PassRecord(
                number=number,
                seconds=seconds,
                rows=sums.rows,
                merges=sums.merges,
                loss=math.fsum(loss) / len(loss),
                objective=None if tol is None or judge.stops else math.fsum(objective) / len(objective),
                validation_score=judge.eval_score(*run.predicting()),
                rank=sums.rank,
                sweeps=sums.sweeps,
                error=sums.error if sums.error >= 0 else None,
                rows_alone=sums.alone,
                caught=sums.caught,
            )
            run.passes.append(record)
            told_to_stop = [listener.on_pass(record) for listener in listeners]
            values = judge.stop_scores(run.coef, run.intercept, run.active) if judge.stops else objective
            going = [c for c, value in zip(run.active, values, strict=True) if not followed[c].exhausted(value)]
            going = run.lower_steps(going, followed)
            run.converged = not going
            if going:
                run.keep(going)
            last = run.converged or any(told_to_stop) or number == n_passes
            if keeper is not None and keeper.due(number, last):
                keeper.save(run.kept(followed))
            if last:
                break
        result = run.result()
    except KeyboardInterrupt as interrupt:
        raise TrainingInterrupted(run.result(finite=not run.store())) from interrupt
    finally:
        for listener in started:
            listener.on_end(result)
    return result


@dataclass
class _Run:
    """The native training and what Python keeps of it: the last two models stored, one of them finite."""

    native: _core.Training
    problem: Problem
    rule: Rule
    reason: str
    n_features: int
    dtype: np.dtype[Any]
    passes: list[PassRecord] = field(default_factory=list)
    converged: bool = False

    def __post_init__(self) -> None:
        n_models = self.problem.n_models
        self.coef = np.zeros((n_models, self.n_features), self.dtype)
        self.intercept = np.zeros(n_models)
        self.t = self.native.t  # of the model stored last
        self._spare_coef = np.zeros_like(self.coef)
        self._spare_intercept = np.zeros(n_models)
        averaged = self.rule.average_from > 0
        self._average_coef = np.zeros_like(self.coef) if averaged else None
        self._average_intercept = np.zeros(n_models) if averaged else None

    @property
    def active(self) -> list[int]:
        """The classes still in training."""
        return self.native.active

    def begin_from(self, init: Start | Result | None) -> None:
        if init is None:
            return
        if init.average_coef is None and 0 < self.rule.average_from < init.t:
            raise ValueError(
                f"average={self.rule.average_from} asks for the mean of the iterates from that step on, which the "
                f"training continued here, now at step {int(init.t)}, did not keep; average={int(init.t)} begins now"
            )
        self.coef[...] = _shaped("init.coef", init.coef, self.coef.shape)
        self.intercept[...] = _shaped("init.intercept", init.intercept, self.intercept.shape)
        self.native.load(self.coef, self.intercept)
        if self._average_coef is not None and init.average_coef is not None:
            self._average_coef[...] = _shaped("init.average_coef", init.average_coef, self.coef.shape)
            self._average_intercept = _shaped(
                "init.average_intercept", init.average_intercept, self.intercept.shape
            ).astype(np.float64)
            self.native.load_average(self._average_coef, self._average_intercept)

    def store(self) -> bool:
        """Takes the model over from the core. If it is not finite, the last one stays and False is returned."""
        finite = self.native.store(self._spare_coef, self._spare_intercept)
        if finite:
            self.t = self.native.t
            self.coef, self._spare_coef = self._spare_coef, self.coef
            self.intercept, self._spare_intercept = self._spare_intercept, self.intercept
            if len(self.active) < self.problem.n_models:
                stopped = [c for c in range(self.problem.n_models) if c not in self.active]
                self.coef[stopped] = self._spare_coef[stopped]
                self.intercept[stopped] = self._spare_intercept[stopped]
        return finite

    def kept(self, patience: dict[int, Patience]) -> Checkpoint:
        """All that later passes depend on."""
        self._store_average()
        arrays = {"coef": self.coef, "intercept": self.intercept}
        if self._average_coef is not None and self._average_intercept is not None:
            arrays |= {"average_coef": self._average_coef, "average_intercept": self._average_intercept}
        return Checkpoint(self.native.save(), arrays, self.passes, patience, self.converged)

    def resume(self, kept: Checkpoint) -> None:
        self.native.resume(kept.state)
        self.coef, self.intercept = kept.arrays["coef"], kept.arrays["intercept"]
        self._average_coef = kept.arrays.get("average_coef")
        self._average_intercept = kept.arrays.get("average_intercept")
        self.passes, self.converged, self.t = kept.passes, kept.converged, self.native.t

    def lower_steps(self, going: list[int], followed: dict[int, Patience]) -> list[int]:
        """Adaptive: a class without improvement goes on with a fifth of its step, until that is too small."""
        if not isinstance(self.rule.schedule, Adaptive):
            return going
        for at, c in enumerate(self.active):
            step = self.native.step_size(at)
            if c not in going and step > SMALLEST_ADAPTIVE_STEP:
                self.native.set_step_size(at, step / 5)
                followed[c].restart()
                going.append(c)
        return sorted(going)

    def keep(self, going: list[int]) -> None:
        if going == self.active:
            return
        self._store_average()
        self.native.keep_classes([self.active.index(c) for c in going])

    def _store_average(self) -> None:
        if self._average_coef is not None and self._average_intercept is not None and self.native.averaged_steps >= 1:
            self.native.store_average(self._average_coef, self._average_intercept)

    def predicting(self) -> tuple[Array, Array]:
        """The model that a fit ending now would predict with: the means of the iterates once averaging has begun."""
        self._store_average()
        if self._average_coef is None or self._average_intercept is None or self.native.averaged_steps < 1:
            return self.coef, self.intercept
        return self._average_coef, self._average_intercept

    def result(self, finite: bool = False) -> Result:
        self._store_average()
        begun = self._average_coef is not None and self.native.averaged_steps >= 1 and not finite
        return Result(
            coef=self.coef,
            intercept=self.intercept,
            passes=self.passes,
            strategy=self.reason,
            t=self.t,
            converged=self.converged,
            classes=self.problem.classes,
            average_coef=self._average_coef if begun else None,
            average_intercept=self._average_intercept if begun else None,
        )


def _check_start(init: Start | Result) -> None:
    if not isinstance(init, (Start, Result)):
        raise TypeError(f"init={init!r} is neither a symsgd.Start nor a symsgd.Result")
    check_number("init.t", init.t, at_least=1.0)


def _shaped(argument: str, value: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value)
    if array.size != math.prod(shape):
        raise ValueError(f"{argument} has shape {array.shape}; expected {shape}")
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError(f"{argument} is not made of finite numbers")
    return array.reshape(shape)


def _order(shuffle: Any, n_rows: int) -> str:
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


def _check_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise ValueError(f"seed={seed!r} is not accepted; it must be an integer from 0 to 2**32 - 1")
    return int(seed)
