"""A training under way: the core runs the passes, and between them it is decided whether to go on.

Callbacks, tolerance, early stopping, divergence, checkpoints: all of it happens here. What happens within a pass is the
core's.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from symsgd.callbacks import Callback, PassRecord
from symsgd.checkpoints import Checkpoint, Checkpoints
from symsgd.errors import CheckpointError, DivergenceError, TrainingInterrupted
from symsgd.inputs import Array, on_host
from symsgd.judging import Scoring
from symsgd.problem import Problem, Rule
from symsgd.results import Result, Start
from symsgd.schedules import Adaptive
from symsgd.stopping import Patience

logger = logging.getLogger("symsgd")

SMALLEST_ADAPTIVE_STEP = 1e-6


def pass_by_pass(
    run: Run,
    judge: Scoring,
    listeners: list[Callback],
    n_passes: int,
    n_rows: int,
    tol: float | None,
    patience: int,
    keeper: Checkpoints | None,
) -> Result:
    """Runs the passes, from the last checkpoint if there is one."""
    followed = {c: Patience(tol, patience, rising=judge.stops) for c in range(run.problem.n_models)}
    if keeper is not None and (kept := keeper.load()) is not None:
        try:
            run.resume(kept)
        except (KeyError, ValueError) as error:
            raise CheckpointError(keeper.path, f"is not made as a symsgd checkpoint is: {error}") from error
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
            run.losses = tuple(loss)
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
class PassSums:
    """What a pass comes to, as the core says it (``_core.PassSums``), where something else runs the passes."""

    rows: int
    loss: list[float]
    objective: list[float]
    merges: int = 0
    rank: int = 0
    sweeps: int = 0
    error: float = -1.0
    alone: int = 0
    caught: int = 0
    checks: int = 0  # of the error


class NativeTraining(Protocol):
    """What runs the passes: the core, a GPU (:class:`symsgd.gpu.training.Training`), or a cluster
    (:class:`symsgd.dask.rounds.DistributedTraining`)."""

    @property
    def active(self) -> list[int]: ...
    @property
    def t(self) -> float: ...
    @property
    def averaged_steps(self) -> float: ...
    def run_pass(self) -> Any: ...
    def keep_classes(self, classes: Any) -> None: ...
    def step_size(self, c: int) -> float: ...
    def set_step_size(self, c: int, step_size: float) -> None: ...
    def store(self, coef: Array, intercept: Array) -> bool: ...
    def load(self, coef: Array, intercept: Array) -> None: ...
    def store_average(self, coef: Array, intercept: Array) -> None: ...
    def load_average(self, coef: Array, intercept: Array) -> None: ...
    def store_gathered(self, coef: Array, intercept: Array) -> None: ...
    def load_gathered(self, coef: Array, intercept: Array) -> None: ...
    def save(self) -> bytes: ...
    def resume(self, state: bytes) -> None: ...


@dataclass
class Run:
    """The native training and what Python keeps of it: the last two models stored, one of them finite."""

    native: NativeTraining
    problem: Problem
    rule: Rule
    reason: str
    n_features: int
    dtype: np.dtype[Any]
    passes: list[PassRecord] = field(default_factory=list)
    converged: bool = False
    placed: Callable[[Array], Array] | None = None  # puts the model of the result where the rows are
    gathers: bool = False  # AdaGrad's sums of squared gradients are part of the result
    losses: tuple[float, ...] = ()  # of the last pass, by model in training

    def __post_init__(self) -> None:
        n_models = self.problem.n_models
        self.coef = np.zeros((n_models, self.n_features), self.dtype)
        self.intercept = np.zeros(n_models)
        self.t = self.native.t  # of the model stored last
        self._spare_coef = np.zeros(self.coef.shape, self.dtype)
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
        if self.gathers and isinstance(init, Start) and init.gathered_coef is not None:
            gathered = _shaped("init.gathered_coef", init.gathered_coef, self.coef.shape).astype(self.dtype)
            own = _shaped("init.gathered_intercept", init.gathered_intercept, self.intercept.shape)
            self.native.load_gathered(gathered, own.astype(np.float64))
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
        return Checkpoint(self.native.save(), self._arrays(), self.passes, patience, self.converged, self.losses)

    def _arrays(self) -> dict[str, Array]:
        arrays = {"coef": self.coef, "intercept": self.intercept}
        if self._average_coef is not None and self._average_intercept is not None:
            arrays |= {"average_coef": self._average_coef, "average_intercept": self._average_intercept}
        return arrays

    def resume(self, kept: Checkpoint) -> None:
        self.native.resume(kept.state)
        for name, own in self._arrays().items():
            array = kept.arrays[name]
            if (array.shape, array.dtype) != (own.shape, own.dtype):
                raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
            own[...] = array
        self.passes, self.converged, self.losses = kept.passes, kept.converged, kept.losses
        self.t = self.native.t

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
        placed = self.placed or (lambda array: array)
        gathered = (np.zeros_like(self.coef), np.zeros_like(self.intercept)) if self.gathers else None
        if gathered is not None:
            self.native.store_gathered(*gathered)
        return Result(
            coef=placed(self.coef),
            intercept=placed(self.intercept),
            passes=self.passes,
            strategy=self.reason,
            t=self.t,
            converged=self.converged,
            classes=self.problem.classes,
            average_coef=self._average_coef if begun else None,
            average_intercept=self._average_intercept if begun else None,
            losses=self.losses,
            gathered_coef=None if gathered is None else gathered[0],
            gathered_intercept=None if gathered is None else gathered[1],
        )


def _shaped(argument: str, value: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(on_host(value))
    if array.size != math.prod(shape):
        raise ValueError(f"{argument} has shape {array.shape}; expected {shape}")
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError(f"{argument} is not made of finite numbers")
    return array.reshape(shape)
