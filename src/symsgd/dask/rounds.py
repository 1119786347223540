"""A training on a cluster, pass by pass: what :class:`symsgd._core.Training` is on one machine."""

from __future__ import annotations

import io
import json
import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.dask.cluster import Asked, Cluster, Outcome, Round
from symsgd.dask.control import HARM, START_SHARE, Control
from symsgd.dask.directions import Estimator, Sample
from symsgd.dask.held import Model
from symsgd.dask.lanes import Block, Journal, Lanes, flat_journal, journal_passes
from symsgd.dask.means import adagrad_mean_of, mean_of
from symsgd.dask.merging import Curvature, Movement, advanced
from symsgd.dask.packing import pack
from symsgd.dask.worker import Training
from symsgd.losses import Loss
from symsgd.runs import PassSums

Array = npt.NDArray[Any]

# rows, or a pass if less, after which H is estimated again; then at 4 times as many
ESTIMATE_FIRST, ESTIMATE_FIRST_JUMPS = 16_384, 512


# rounds that are asked for at a time: one that runs, one that follows, and one more, since a worker may begin the next
# block before it merges the last round for the client
AHEAD = 3


@dataclass
class Pending:
    """A round that was planned: where its lanes were before, the control right after it, and, if it was asked for, what
    will come of it."""

    round: Round
    alone: bool
    estimated: bool
    lanes_at: list[int]
    control: Control
    asked: Asked | None = None


@dataclass(frozen=True)
class RoundRecord:
    """What a round was: its blocks and rows, the error if it was checked, bytes of the model if it was sent to workers
    whole, and of the merged movement that came back, seconds that workers' cores were busy. ``estimated``: H was
    estimated anew before it, and sent."""

    blocks: int
    rows: int
    error: float | None
    undone: bool
    model_bytes: int
    movement_bytes: int
    busy: float
    estimated: bool = False


class DistributedTraining:
    """One or more models over the rows of a cluster. ``merges`` is "curvature", "sum", "mean" or "adagrad"."""

    def __init__(
        self,
        cluster: Cluster,
        training: Training,
        lanes: Lanes,
        control: Control,
        sample: Sample,
        probe: Sample,
        *,
        n_features: int,
        kappa: float,
        pull: float,
        merges: str,
        rank: int | None,
        track_norms: bool,
        t: float,
        journal: Journal,
    ) -> None:
        self.cluster, self.training, self.lanes, self.control, self.sample = cluster, training, lanes, control, sample
        self.kappa, self.pull, self.merges, self.track_norms, self.t = kappa, pull, merges, track_norms, t
        self.active = list(range(training.n_models))
        self.coef = np.zeros((training.n_models, n_features), training.dtype)
        self.intercept = np.zeros(training.n_models)
        self.gathered = np.zeros_like(self.coef) if merges == "adagrad" else None
        self.gathered_intercept = np.zeros_like(self.intercept)
        self.passes = 0
        self.done = 0  # rows of all passes
        self.journal = journal
        self.rounds: list[list[RoundRecord]] = []
        self._flat = Curvature.flat(training.n_models, math.sqrt(kappa))
        self._curvature = self._flat
        self._estimator = Estimator(sample, kappa, rank) if merges == "curvature" else None
        self._next_estimate = 0
        self._drift = np.zeros(training.n_models)
        self._probe = probe
        self._first_loss = self._last_loss = math.nan
        self._pending: deque[Pending] = deque()
        self._last: Asked | None = None  # the round that the model is of, if workers have that model too

    # --- as the core's ---------------------------------------------------------------------------------------------

    def run_pass(self) -> PassSums:
        self.lanes.begin_pass(self.passes)
        self.control.begin_pass()
        self.journal.passes.append([])
        self.rounds.append([])
        sums = PassSums(0, [], [])
        lost = np.zeros(self.training.n_models)
        while (self.lanes.left or self._pending) and np.isfinite(lost).all():
            lost += self._mean_round(sums) if self.merges in ("mean", "adagrad") else self._round(sums)
        rows = max(1, sums.rows)
        sums.loss = [float(lost[c]) / rows for c in self.active]
        sums.objective = list(sums.loss)
        if self.track_norms:
            norms = (self.coef.astype(np.float64) ** 2).sum(axis=1)
            sums.objective = [
                loss + 0.5 * self.training.steps.l2 * float(norms[c]) + float(self.intercept[c]) * self.pull
                for loss, c in zip(sums.loss, self.active, strict=True)
            ]
        if self.control.checks:
            sums.error = self.control.errors / self.control.checks
        sums.caught, sums.rank = self.control.caught, self._curvature.rank
        self.passes += 1
        return sums

    def keep_classes(self, classes: list[int]) -> None:
        self.active = [self.active[c] for c in classes]

    def step_size(self, c: int) -> float:
        return self.training.steps.first

    def set_step_size(self, c: int, step_size: float) -> None:
        schedule = replace(self.training.schedule, step_size=step_size)  # type: ignore[call-arg]
        steps = replace(self.training.steps, first=step_size)
        self.training = self.cluster.training = replace(self.training, schedule=schedule, steps=steps)

    def store(self, coef: Array, intercept: Array) -> bool:
        if not (np.isfinite(self.coef).all() and np.isfinite(self.intercept).all()):
            return False
        coef[self.active], intercept[self.active] = self.coef[self.active], self.intercept[self.active]
        return True

    def load(self, coef: Array, intercept: Array) -> None:
        self.coef[...], self.intercept[...] = coef, intercept

    @property
    def averaged_steps(self) -> float:
        return 0.0

    def store_average(self, coef: Array, intercept: Array) -> None:
        raise AssertionError("there are no averages on a cluster")

    def load_average(self, coef: Array, intercept: Array) -> None:
        raise AssertionError("there are no averages on a cluster")

    def store_gathered(self, coef: Array, intercept: Array) -> None:
        assert self.gathered is not None
        coef[...], intercept[...] = self.gathered, self.gathered_intercept

    def load_gathered(self, coef: Array, intercept: Array) -> None:
        assert self.gathered is not None
        self.gathered[...], self.gathered_intercept[...] = coef, intercept

    def save(self) -> bytes:
        numbers = {
            "active": self.active, "t": self.t, "passes": self.passes, "done": self.done,
            "control": self.control.plain(),
            "next_estimate": self._next_estimate, "first_loss": self._first_loss, "last_loss": self._last_loss,
            "step_size": self.training.steps.first,
        }  # fmt: skip
        arrays = {
            "coef": self.coef, "intercept": self.intercept, "drift": self._drift, "journal": flat_journal(self.journal),
            "gathered": np.zeros(0) if self.gathered is None else self.gathered,
            "gathered_intercept": self.gathered_intercept, "Q": self._curvature.Q, "places": self._curvature.places,
            "sharpness": self._curvature.sharpness, "known": self._curvature.known, "rest": self._curvature.rest,
        }  # fmt: skip
        if self._estimator is not None and self._estimator.Q is not None:
            arrays["directions"] = self._estimator.Q
        file = io.BytesIO()
        np.savez(file, numbers=np.frombuffer(json.dumps(numbers).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    def resume(self, state: bytes) -> None:
        with np.load(io.BytesIO(state)) as kept:
            numbers = json.loads(kept["numbers"].tobytes())
            self.active, self.t = [int(c) for c in numbers["active"]], float(numbers["t"])
            self.passes, self.done = int(numbers["passes"]), int(numbers["done"])
            for name, value in numbers["control"].items():
                setattr(self.control, name, value)
            self._next_estimate = int(numbers["next_estimate"])
            self._first_loss, self._last_loss = float(numbers["first_loss"]), float(numbers["last_loss"])
            if numbers["step_size"] != self.training.steps.first:
                self.set_step_size(0, float(numbers["step_size"]))
            self.coef[...], self.intercept[...], self._drift = kept["coef"], kept["intercept"], kept["drift"]
            self.journal.passes[:] = journal_passes(kept["journal"], self.passes)
            self.rounds = [[] for _ in range(self.passes)]
            if self.gathered is not None:
                self.gathered[...], self.gathered_intercept[...] = kept["gathered"], kept["gathered_intercept"]
            self._curvature = Curvature(
                kept["places"], kept["Q"], kept["sharpness"], kept["known"], kept["rest"], self._flat.root
            )
            if self._estimator is not None and "directions" in kept:
                self._estimator.Q = kept["directions"]

    # --- a round ---------------------------------------------------------------------------------------------------

    def _round(self, sums: PassSums) -> Array:
        """The oldest that is under way, when it has ended; the sum of its losses, 0 if it was undone."""
        outcome, own = self._outcome()
        whole, alone = outcome.whole, own.alone
        if whole.diverged and (alone or self.merges != "curvature"):
            self._discard()
            return np.full(len(self.intercept), np.inf)
        coef, intercept = advanced(self.coef, self.intercept, whole, own.round.active)
        error, undone = None, False
        if not alone and self.merges == "curvature":
            predictions = self._probe.predictions(coef, intercept)
            before = self._probe.predictions(self.coef, self.intercept)
            if own.round.check:
                error = self._error(outcome, predictions, len(own.round.blocks))
                undone = not self.control.checked(error)
            if not undone and self._harms(whole, predictions, before):
                if not own.round.check:
                    self.control = replace(own.control)  # as it was before later rounds were asked for
                self.control.harmed()
                undone = True
            if not undone:
                self._drift = np.sqrt(np.mean((predictions - before) ** 2, axis=1)) / 2
        assert own.asked is not None
        self.rounds[-1].append(
            RoundRecord(
                len(own.round.blocks), whole.rows, error, undone, own.asked.sent, whole.nbytes, whole.seconds,
                own.estimated,
            )
        )  # fmt: skip
        if undone:
            self._discard()
            self.lanes.at = own.lanes_at
            return np.zeros_like(self.intercept)
        self._last = own.asked
        self._accept(coef, intercept, list(own.round.blocks))
        sums.rows += whole.rows
        if alone:
            sums.alone += whole.rows
        else:
            sums.merges += len(own.round.blocks)
        return whole.lost

    def _outcome(self) -> tuple[Outcome, Pending]:
        """Of the oldest round, while the next one runs."""

        def attempt() -> Outcome:
            self._ask_ahead()
            asked = self._pending[0].asked
            assert asked is not None
            return self.cluster.take(asked)

        def failed() -> None:
            self._last = None
            for own in reversed(self._pending):
                self.cluster.drop(own.asked)
                own.asked = None

        outcome = self.cluster.persist(attempt, failed)
        return outcome, self._pending.popleft()

    def _ask_ahead(self) -> None:
        """Asks for what has to be, and can be, under way: the oldest round, and the next if it does not depend on what
        is found out about the one before it."""
        while len(self._pending) < AHEAD and self.lanes.left:
            if self._pending and (self._pending[-1].round.check or self._estimates_next()):
                break
            self._pending.append(self._planned())
        for i, own in enumerate(self._pending):
            if own.asked is None:
                after = self._pending[i - 1].asked if i else self._last
                own.asked = self.cluster.ask(own.round, after, None if i else self._model)
                if own.asked is None:  # some worker needs the model, which the round before has to bring first
                    break

    def _estimates_next(self) -> bool:
        """Whether the round after those under way needs an estimate of H, and with it their outcome."""
        return self.control.alone == 0 and self.lanes.count > 1 and self._estimate_due(self._under_way())

    def _under_way(self) -> int:
        return sum(block.rows for own in self._pending for block in own.round.blocks)

    def _planned(self) -> Pending:
        """The next round. Its rows are taken, and the control goes on as if it did no harm."""
        control, at, t = self.control, list(self.lanes.at), self.t + self._under_way()
        alone = control.alone > 0 or self.lanes.count == 1
        blocks = self.lanes.take_alone(control.alone or control.rows, t) if alone else self.lanes.take(control.rows, t)
        alone = alone or len(blocks) == 1
        estimated = not alone and self._estimate_if_due()
        check = not alone and self.merges == "curvature" and control.due
        if alone:
            control.alone = max(0, control.alone - blocks[0].rows)
        elif self.merges == "curvature" and not check:
            control.unchecked()
        # blocks begin with the penalty's decay of those before them, which is known before they have run
        steps, kept = self.training.steps, [0.0]
        for block in blocks:
            kept.append(kept[-1] + (steps.sums(block.t, block.rows)[1] if self.training.known_steps else 0.0))
        own = Round(blocks, kept[:-1], self._curvature, check, tuple(self.active))
        return Pending(own, alone, estimated, at, replace(control))

    def _model(self) -> Model:
        return Model(pack(self.coef, dtype=self.coef.dtype), self.intercept.copy())

    def _discard(self) -> None:
        """What was asked for too soon. Workers may have moved on, so that the next round brings the model."""
        self._last = None
        for own in reversed(self._pending):
            self.cluster.drop(own.asked)
        self._pending.clear()

    def _accept(self, coef: Array, intercept: Array, blocks: list[Block]) -> None:
        rows = sum(block.rows for block in blocks)
        self.coef, self.intercept = coef, intercept
        self.t += rows
        self.done += rows
        self.journal.passes[-1].append(blocks)

    def _mean_round(self, sums: PassSums) -> Array:
        """Every lane to its end, or blocks of a given size; then the mean."""
        blocks = self.lanes.take(self.control.rows, self.t)
        gathered = None if self.gathered is None else pack(self.gathered)
        own = None if self.gathered is None else self.gathered_intercept.copy()
        model = Model(pack(self.coef), self.intercept.copy(), gathered, own)
        whole = self.cluster.sums(model, blocks)
        if whole.diverged:
            return np.full(len(self.intercept), np.inf)
        if self.gathered is None:
            coef, intercept = mean_of(self.coef, self.intercept, whole)
        else:
            coef, intercept, squares, self.gathered_intercept = adagrad_mean_of(self.coef, self.intercept, whole)
            self.gathered = squares.astype(self.coef.dtype)
        stopped = [c for c in range(len(coef)) if c not in self.active]
        coef[stopped], intercept[stopped] = self.coef[stopped], self.intercept[stopped]
        self.rounds[-1].append(
            RoundRecord(len(blocks), whole.rows, None, False, model.weights.nbytes, whole.nbytes, whole.seconds)
        )
        self._accept(coef, intercept, blocks)
        sums.rows += whole.rows
        sums.merges += len(blocks)
        return whole.lost

    # --- how good it is --------------------------------------------------------------------------------------------

    def _estimate_due(self, under_way: int = 0) -> bool:
        return self._estimator is not None and self.done + under_way >= self._next_estimate

    def _estimate_if_due(self) -> bool:
        if self._estimator is None or not self._estimate_due():
            return False
        loss: Loss = self.training.loss
        first = min(ESTIMATE_FIRST if loss.smooth else ESTIMATE_FIRST_JUMPS, self.lanes.total)
        self._next_estimate = max(first, 4 * self.done)
        predictions = self.sample.predictions(self.coef, self.intercept)
        step = float(self.training.steps.size(self.t))
        slopes = self.sample.slopes(loss, predictions, step, self._drift, self.kappa)
        self._curvature = self._estimator.estimate(slopes)
        return True

    def _error(self, outcome: Outcome, predictions: Array, blocks: int) -> float:
        """How far the merged model is from one that ran the last block after the others, as a share of the spread."""
        again = outcome.again
        if (
            again is None
            or outcome.whole.diverged
            or not np.isfinite(again).all()
            or not np.isfinite(predictions).all()
        ):
            return 1.0
        off = float(((again - predictions)[self.active] ** 2).sum())
        own = predictions[self.active]
        spread = float(((own - own.mean(axis=1, keepdims=True)) ** 2).sum())
        return math.sqrt(blocks / 2 * off / spread) if spread > 0 else float(off > 0)

    def _harms(self, whole: Movement, predictions: Array, before: Array) -> bool:
        """Whether the merge has made the loss of the probe's rows far worse."""
        if whole.diverged or not np.isfinite(predictions).all():
            return True
        loss = float(self._probe.loss(self.training.loss, predictions).mean())
        if math.isnan(self._first_loss):
            self._first_loss = self._last_loss = float(self._probe.loss(self.training.loss, before).mean())
        if loss > HARM * self._last_loss + START_SHARE * self._first_loss:
            return True
        self._last_loss = loss
        return False
