"""`train`: the one way to the native core. Estimators, command line and everything else go through it.

It checks the input once, runs the training pass by pass and decides between passes: callbacks, tolerance, early
stopping, divergence. What happens within a pass is the core's.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd import _core, losses, penalties, schedules, strategies
from symsgd._choices import check_number
from symsgd.callbacks import Callback, CallbackLike, PassRecord, as_callbacks
from symsgd.errors import DivergenceError, TrainingInterrupted
from symsgd.inputs import (
    Data,
    check_data,
    check_labels,
    check_real_targets,
    check_weights,
    find_classes,
    without_repeats,
)
from symsgd.losses import Loss
from symsgd.penalties import L1, L2, ElasticNet, Lasso, Penalty
from symsgd.schedules import Adaptive, Schedule
from symsgd.stopping import Patience
from symsgd.strategies import Strategy
from symsgd.threads import resolve_threads

logger = logging.getLogger("symsgd")

Array = npt.NDArray[Any]

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
class EarlyStopping:
    """Rows kept out of the training; it stops when the score on them stops rising.

    The score is the accuracy of each one-vs-rest problem, or R² where numbers are predicted.
    """

    held_out: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Result:
    """A trained model and how it came about.

    ``coef`` has one row, or one per class where there are more than two; ``average_coef`` and ``average_intercept``
    are the means of the iterates where averaging was asked for and had begun.
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

    @property
    def n_passes(self) -> int:
        return len(self.passes)

    def decision(self, X: Any, n_threads: int | None = None) -> Array:
        """x·w + b for every row and class: the averaged model where there is one."""
        averaged = self.average_coef is not None and self.average_intercept is not None
        coef = self.average_coef if averaged else self.coef
        intercept = self.average_intercept if averaged else self.intercept
        return decision(X, coef, intercept, n_threads=n_threads)


def decision(X: Any, coef: Any, intercept: Any, *, n_threads: int | None = None) -> Array:
    """Scores x·w + b of every row, shape (rows,) for one model and (rows, classes) for several; on all cores."""
    threads = resolve_threads(n_threads, "n_threads")
    return _decide(check_data(X, threads, allow_empty=True), np.atleast_2d(coef), np.atleast_1d(intercept), threads)


def _decide(data: Data, coef: Array, intercept: Array, threads: int) -> Array:
    if coef.shape[1] != data.n_features:
        raise ValueError(f"X has {data.n_features} features, but the model has {coef.shape[1]}")
    scores: Array = _core.decide(
        data.rows, np.ascontiguousarray(coef, data.dtype), np.ascontiguousarray(intercept, np.float64), threads
    )
    return scores[:, 0] if len(intercept) == 1 else scores


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
    callbacks: Iterable[CallbackLike] | CallbackLike | None = None,
) -> Result:
    """Trains a linear model by stochastic gradient descent.

    Parameters
    ----------
    X : CSR matrix or array of shape (rows, features), float32 or float64, used in place
    y : targets. For the margin losses (log_loss, hinge, …) labels of any kind, two or more of them; for the others
        numbers. Not used by the one-class loss.
    loss, penalty, schedule, strategy : a name, or an instance from the module of that name
    n_threads : ``None`` for every core this process may use
    n_passes : passes over the data, at most
    seed : of the order of the rows, 0 … 2³² − 1
    sample_weight : one weight a row, or one for all
    class_weight : one weight a class, in ascending order of the labels
    classes : the labels in ascending order, if ``y`` may lack some; also makes a classification of losses for numbers
    shuffle : ``True`` for the window order, ``"full"`` for scikit-learn's permutation, ``False`` for storage order
    tol, patience : stop after ``patience`` passes without improving the objective by ``tol``; ``None`` never stops
    average : ``True``, or the number of the step from which the iterates are averaged
    init : continue from here
    early_stopping : rows to hold out, and to judge the model by, instead of the objective
    eval_set : (X, y) whose score goes into each pass's record
    callbacks : called after each pass, see :mod:`symsgd.callbacks`

    Raises
    ------
    DivergenceError : the weights became infinite; ``.result`` has the last finite model
    TrainingInterrupted : Ctrl-C; ``.result`` has the model so far
    """
    listeners = as_callbacks(callbacks)
    _, reason = strategies.resolve(strategy)
    threads = resolve_threads(n_threads, "n_threads")
    rule = _Rule.check(losses.resolve(loss), penalties.resolve(penalty), schedules.resolve(schedule), average)
    _check_count("n_passes", n_passes)
    _check_count("patience", patience)
    if tol is not None:
        check_number("tol", tol, at_least=0.0)
    data = check_data(X, threads)
    if isinstance(rule.penalty, Lasso):
        data = without_repeats(data, threads)
    problem = _Problem.check(data, y, rule.loss, classes, class_weight, sample_weight)
    judge = _Judge.check(data, y, problem, rule.loss, early_stopping, eval_set, threads)
    run = _Run(
        native=_core.Training(
            rows=data.rows,
            **problem.native(),
            **rule.native(),
            fit_intercept=bool(fit_intercept),
            intercept_decay=SPARSE_INTERCEPT_DECAY if data.sparse else 1.0,
            track_norms=tol is not None and early_stopping is None,
            order=_order(shuffle, data.n_rows),
            seed=_check_seed(seed),
            held_out=None if early_stopping is None else judge.held_out_bytes(data.n_rows),
            t=1.0 if init is None else float(init.t),
        ),
        problem=problem,
        rule=rule,
        reason=reason,
        n_features=data.n_features,
        dtype=data.dtype,
    )
    run.begin_from(init)
    logger.info("training %d rows x %d features; %s", data.n_rows, data.n_features, reason)
    return _pass_by_pass(run, judge, listeners, n_passes, data.n_rows, tol, patience)


def _pass_by_pass(
    run: _Run,
    judge: _Judge,
    listeners: list[Callback],
    n_passes: int,
    n_rows: int,
    tol: float | None,
    patience: int,
) -> Result:
    followed = {c: Patience(tol, patience, rising=judge.stops) for c in range(run.problem.n_models)}
    result = None
    for listener in listeners:
        listener.on_start(n_passes, n_rows)
    try:
        for number in range(1, n_passes + 1):
            started = time.perf_counter()
            rows, loss, objective = run.native.run_pass()
            seconds = time.perf_counter() - started
            if not run.store():
                raise DivergenceError(number, run.result(finite=True))
            record = PassRecord(
                number=number,
                seconds=seconds,
                rows=rows,
                loss=math.fsum(loss) / len(loss),
                objective=None if tol is None or judge.stops else math.fsum(objective) / len(objective),
                validation_score=judge.eval_score(run.coef, run.intercept),
            )
            run.passes.append(record)
            told_to_stop = [listener.on_pass(record) for listener in listeners]
            values = judge.stop_scores(run.coef, run.intercept, run.active) if judge.stops else objective
            going = [c for c, value in zip(run.active, values, strict=True) if not followed[c].exhausted(value)]
            going = run.lower_steps(going, followed)
            if not going:
                run.converged = True
                break
            run.keep(going)
            if any(told_to_stop):
                break
        result = run.result()
    except KeyboardInterrupt as interrupt:
        run.store()
        raise TrainingInterrupted(run.result(finite=True)) from interrupt
    finally:
        for listener in listeners:
            listener.on_end(result)
    return result


@dataclass(frozen=True)
class _Rule:
    """Loss, penalty and schedule in the core's words; pairs that make no sense are refused here."""

    loss: Loss
    penalty: Penalty
    schedule: Schedule
    average_from: int

    @staticmethod
    def check(loss: Loss, penalty: Penalty, schedule: Schedule, average: bool | int) -> _Rule:
        if schedule.passive_aggressive and loss.name not in ("hinge", "epsilon_insensitive"):
            raise ValueError(
                f"schedule={schedule.name!r} takes its step from the margin that is missing, so it works with the "
                f"losses 'hinge' and 'epsilon_insensitive' only, not with {loss.name!r}"
            )
        if isinstance(average, bool):
            average_from = int(average)
        else:
            _check_count("average", average)
            average_from = int(average)
        if average_from and isinstance(penalty, Lasso):
            raise ValueError(
                "average does not work with penalty='lasso': weights that a row does not have are shrunk later, so the "
                "iterates in between are never formed; use penalty='l1'"
            )
        return _Rule(loss, penalty, schedule, average_from)

    def native(self) -> dict[str, Any]:
        one_class = isinstance(self.loss, losses.OneClass)
        return {
            "loss": "hinge" if one_class else self.loss.name,
            "loss_parameter": float(getattr(self.loss, "epsilon", 0.0)),
            "one_class": one_class,
            "intercept_pull": float(getattr(self.loss, "nu", 0.0)),
            **self._native_penalty(),
            **self._native_schedule(),
            "average_from": float(self.average_from),
        }

    def _native_penalty(self) -> dict[str, Any]:
        match self.penalty:
            case L2(alpha):
                return {"penalty": "decay", "l2": float(alpha), "l1": 0.0}
            case L1(alpha):
                return {"penalty": "truncate", "l2": 0.0, "l1": float(alpha)}
            case ElasticNet(alpha, l1_ratio):
                return {"penalty": "truncate", "l2": float(alpha * (1 - l1_ratio)), "l1": float(alpha * l1_ratio)}
            case Lasso(alpha):
                return {"penalty": "halves", "l2": 0.0, "l1": float(alpha)}
            case _:
                return {"penalty": "none", "l2": 0.0, "l1": 0.0}

    def _native_schedule(self) -> dict[str, Any]:
        schedule = self.schedule
        return {
            "schedule": "constant" if isinstance(schedule, Adaptive) else schedule.name,
            "step_size": float(getattr(schedule, "step_size", getattr(schedule, "aggressiveness", 0.0))),
            "power": float(getattr(schedule, "power", 0.0)),
            "schedule_alpha": float(getattr(schedule, "alpha", 0.0)),
        }


@dataclass(frozen=True)
class _Problem:
    """The targets in the core's words: one model for numbers and two classes, one a class for more."""

    target: str
    labels: Array | None
    positive: float
    classes: Array | None
    positive_weight: list[float]
    negative_weight: list[float]
    sample_weight: Array | None

    @property
    def n_models(self) -> int:
        return len(self.positive_weight)

    @staticmethod
    def check(data: Data, y: Any, loss: Loss, classes: Any, class_weight: Any, sample_weight: Any) -> _Problem:
        weights = check_weights(sample_weight, data.n_rows, data.dtype)
        if isinstance(loss, losses.OneClass):
            return _Problem("real", None, 1.0, None, [1.0], [1.0], weights)
        if y is None:
            raise ValueError(f"y is missing; loss={loss.name!r} needs one target a row")
        if classes is None and not loss.margin:
            return _Problem("real", check_real_targets(y, data.n_rows), 1.0, None, [1.0], [1.0], weights)
        known = np.asarray(classes) if classes is not None else find_classes(np.asarray(y))
        if known.dtype.kind == "f" and not np.isfinite(known).all():
            raise ValueError("y contains NaN or infinity")
        if len(known) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(known)} class")
        labels = check_labels(y, data.n_rows, known)
        factors = np.ones(len(known)) if class_weight is None else np.asarray(class_weight, np.float64)
        if factors.shape != (len(known),) or not np.isfinite(factors).all() or (factors < 0).any():
            raise ValueError(f"class_weight={class_weight!r} must be {len(known)} finite numbers >= 0, one a class")
        if len(known) == 2:
            return _Problem(
                "binary", labels.values, labels.positive, known, [float(factors[1])], [float(factors[0])], weights
            )
        return _Problem("classes", labels.values, 1.0, known, [float(f) for f in factors], [1.0] * len(known), weights)

    def native(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "labels": self.labels,
            "positive": self.positive,
            "sample_weight": self.sample_weight,
            "positive_weight": self.positive_weight,
            "negative_weight": self.negative_weight,
        }


@dataclass(frozen=True)
class _Judge:
    """Scores of held-out and validation rows between passes."""

    held_out: npt.NDArray[np.bool_] | None
    held_out_data: Data | None
    held_out_targets: Array | None
    held_out_weight: Array | None
    eval_data: Data | None
    eval_targets: Array | None
    positive: float
    target: str
    classes: Array | None
    threads: int

    @staticmethod
    def check(
        data: Data,
        y: Any,
        problem: _Problem,
        loss: Loss,
        early_stopping: EarlyStopping | None,
        eval_set: tuple[Any, Any] | None,
        threads: int,
    ) -> _Judge:
        mask = held_data = held_targets = held_weight = eval_data = eval_targets = None
        if early_stopping is not None:
            if problem.labels is None:
                raise ValueError(f"early_stopping needs targets to score, which loss={loss.name!r} does not use")
            mask = np.asarray(early_stopping.held_out, bool)
            if mask.shape != (data.n_rows,) or mask.all() or not mask.any():
                raise ValueError(f"early_stopping.held_out must mark some but not all of the {data.n_rows} rows")
            held_data = check_data(data.source[mask], threads)
            held_targets = problem.labels[mask]
            held_weight = None if problem.sample_weight is None else problem.sample_weight[mask]
        if eval_set is not None:
            eval_X, eval_y = _check_eval_set(eval_set)
            eval_data = check_data(eval_X, threads, "eval_set[0]")
            if eval_data.n_features != data.n_features:
                raise ValueError(f"eval_set[0] has {eval_data.n_features} features, but X has {data.n_features}")
            eval_targets = np.asarray(eval_y)
            if eval_targets.shape != (eval_data.n_rows,):
                raise ValueError(f"eval_set[1] has shape {eval_targets.shape}, expected ({eval_data.n_rows},)")
        return _Judge(
            mask, held_data, held_targets, held_weight, eval_data, eval_targets,
            problem.positive, problem.target, problem.classes, threads,
        )  # fmt: skip

    @property
    def stops(self) -> bool:
        return self.held_out_data is not None

    def held_out_bytes(self, n_rows: int) -> npt.NDArray[np.uint8]:
        assert self.held_out is not None
        return np.ascontiguousarray(self.held_out).view(np.uint8)

    def stop_scores(self, coef: Array, intercept: Array, active: list[int]) -> list[float]:
        """Accuracy of each one-vs-rest problem in ``active`` on the held-out rows, or R²."""
        assert self.held_out_data is not None
        assert self.held_out_targets is not None
        scores = _decide(self.held_out_data, coef[active], intercept[active], self.threads)
        if self.target == "real":
            return [_r2(self.held_out_targets, scores, self.held_out_weight)]
        if self.target == "binary":
            right = (scores > 0) == (self.held_out_targets == self.positive)
            return [float(np.average(right, weights=self.held_out_weight))]
        wanted = self.held_out_targets[:, None] == np.asarray(active)[None, :]
        right = (scores.reshape(wanted.shape) > 0) == wanted
        return [float(value) for value in np.average(right, axis=0, weights=self.held_out_weight)]

    def eval_score(self, coef: Array, intercept: Array) -> float | None:
        """Accuracy or R² of the whole model on ``eval_set``."""
        if self.eval_data is None:
            return None
        assert self.eval_targets is not None
        scores = _decide(self.eval_data, coef, intercept, self.threads)
        if self.classes is None:
            return _r2(self.eval_targets, scores, None)
        predicted = self.classes[scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(int)]
        return float(np.mean(predicted == self.eval_targets))


def _check_eval_set(eval_set: Any) -> tuple[Any, Any]:
    if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
        raise ValueError(f"eval_set must be a pair (X, y), not {type(eval_set).__name__}")
    return eval_set[0], eval_set[1]


def _r2(y: Array, predicted: Array, weights: Array | None) -> float:
    y = np.asarray(y, np.float64)
    spread = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    error = np.average((y - predicted) ** 2, weights=weights)
    return float(1 - error / spread) if spread > 0 else float(error == 0)


@dataclass
class _Run:
    """The native training and what Python keeps of it: the last two models stored, one of them finite."""

    native: _core.Training
    problem: _Problem
    rule: _Rule
    reason: str
    n_features: int
    dtype: np.dtype[Any]
    passes: list[PassRecord] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    converged: bool = False

    def __post_init__(self) -> None:
        n_models = self.problem.n_models
        self.active = list(range(n_models))
        self.coef = np.zeros((n_models, self.n_features), self.dtype)
        self.intercept = np.zeros(n_models)
        self._spare_coef = np.zeros_like(self.coef)
        self._spare_intercept = np.zeros(n_models)
        averaged = self.rule.average_from > 0
        self._average_coef = np.zeros_like(self.coef) if averaged else None
        self._average_intercept = np.zeros(n_models) if averaged else None

    def begin_from(self, init: Start | Result | None) -> None:
        if init is None:
            return
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
        finite = self.native.store(self._spare_coef, self._spare_intercept, self.active)
        if finite:
            self.coef, self._spare_coef = self._spare_coef, self.coef
            self.intercept, self._spare_intercept = self._spare_intercept, self.intercept
            if len(self.active) < self.problem.n_models:
                stopped = [c for c in range(self.problem.n_models) if c not in self.active]
                self.coef[stopped] = self._spare_coef[stopped]
                self.intercept[stopped] = self._spare_intercept[stopped]
        return finite

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
        self.active = going

    def _store_average(self) -> None:
        if self._average_coef is not None and self.native.averaged_steps >= 1:
            self.native.store_average(self._average_coef, self._average_intercept, self.active)

    def result(self, finite: bool = False) -> Result:
        self._store_average()
        begun = self._average_coef is not None and self.native.averaged_steps >= 1 and not finite
        return Result(
            coef=self.coef,
            intercept=self.intercept,
            passes=self.passes,
            strategy=self.reason,
            t=self.native.t,
            converged=self.converged,
            classes=self.problem.classes,
            average_coef=self._average_coef if begun else None,
            average_intercept=self._average_intercept if begun else None,
        )


def _shaped(argument: str, value: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value)
    if array.size != math.prod(shape):
        raise ValueError(f"{argument} has shape {array.shape}; expected {shape}")
    return array.reshape(shape)


def _order(shuffle: Any, n_rows: int) -> str:
    if shuffle is False or (isinstance(shuffle, np.bool_) and not shuffle):
        return "storage"
    if shuffle is True or isinstance(shuffle, np.bool_):
        return "window" if n_rows > WINDOW_ORDER_FROM else "full"
    if shuffle == "full":
        if n_rows >= 2**32:
            raise ValueError(f"shuffle='full' works for fewer than 2**32 rows, not for {n_rows}; use shuffle=True")
        return "full"
    raise ValueError(f"shuffle={shuffle!r} is not accepted; it must be True, False or 'full'")


def _check_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise ValueError(f"seed={seed!r} is not accepted; it must be an integer from 0 to 2**32 - 1")
    return int(seed)


def _check_count(argument: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{argument}={value!r} is not accepted; it must be an integer >= 1")
