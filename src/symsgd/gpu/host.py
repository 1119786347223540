"""The kernels in NumPy: what kernels/*.cu compute, row by row where they do, block by block where they do.

They are the oracle of the CUDA kernels and a machine to test everything else on. Sums are in another order than on a
GPU, so that results agree to rounding, not to the bit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from symsgd import losses
from symsgd.gpu.machine import Array, Control, Directions, Model, Step, Stretch, Targets
from symsgd.reference import losses as reference

MOST_SWEEPS = 6
PROBE = 0.25
BETWEEN_RATIOS = 32
MOST_STUCK = 4
FEWEST_BETWEEN, MOST_BETWEEN = 4, 64


@dataclass
class Host:
    """A machine of ``blocks`` blocks of rows at once."""

    blocks: int = 8
    rows_at_most: int = 32
    block: int = 8  # of the exact recurrence
    memory: int = 1 << 33
    xp: Any = field(default=np, repr=False)
    name: str = "NumPy"

    def asarray(self, array: Any, dtype: np.dtype[Any] | None = None) -> Array:
        return np.ascontiguousarray(array, dtype)

    def upload(self, array: Any) -> Array:
        return array

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return np.empty(shape, dtype)

    def to_host(self, array: Array) -> Array:
        return np.asarray(array)

    def free_bytes(self) -> int:
        return self.memory

    def padded(self, n_features: int) -> int:
        return n_features

    def most_rows(self, n_features: int, n_models: int, rank: int, dtype: np.dtype[Any]) -> int:
        return self.rows_at_most

    def beside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def wait_for_beside(self) -> None:
        pass

    def sparse_rows(self, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
        return sp.csr_array((data, indices, indptr), shape=shape)

    def project(self, X: Any, V: Array, place_of: Array) -> Array:
        here = np.flatnonzero(place_of >= 0)
        return np.asarray(X[:, here] @ V[place_of[here]])

    def gram_block(self, n_features: int, n_models: int, dtype: np.dtype[Any]) -> int:
        return self.block

    def exact(self, stretch: Stretch, gram: Array, step: Step, model: Model) -> Array:
        """Block by block: what workers predict lacks the steps of the block before, which the chain adds."""
        n, models = self.block, len(model.w)
        X, found = stretch.X[stretch.rows], np.zeros((models, stretch.count))
        for m in range(models):
            v, before = model.w[m].astype(np.float64), np.zeros(0)
            rule = _Rows(stretch, step, m, 0)
            b = float(model.intercept[m])
            older = v.copy()  # the weights that a block is predicted with: without the block before
            for k, begin in enumerate(range(0, stretch.count, n)):
                rows = slice(begin, min(begin + n, stretch.count))
                count = rows.stop - rows.start
                q = X[rows] @ older
                if k:
                    q -= gram[k - 1][:, n : n + count].T @ before
                    older -= X[begin - n : begin].T @ before
                e = np.zeros(count)
                for i in range(count):
                    at = begin + i
                    z = rule.decay[at] * q[i] + b
                    found[m, at] = rule.value(at, z)
                    c = rule.step(at, z, gram[k][i, i])
                    e[i] = c / rule.decay[at + 1]
                    b -= step.kappa * (c + step.pull * rule.size[at])
                    q[i + 1 :] -= gram[k][i, i + 1 : count] * e[i]
                before = e
            older -= X[stretch.count - len(before) :].T @ before
            model.w[m] = older * rule.decay[-1]
            model.intercept[m] = b
        return found.sum(axis=1)

    def rounds(self, stretch: Stretch, directions: Directions, control: Control, step: Step, model: Model) -> Array:
        models, found = len(model.w), np.zeros((len(model.w), stretch.count))
        control.errors, control.checks, control.rounds, control.sweeps_made = 0.0, 0, 0, 0
        at, size, expected = 0, control.rows, None
        checked_rows = ratio_size = 0
        while at < stretch.count and control.stuck < MOST_STUCK:
            rows = slice(at, min(at + self.blocks * size, stretch.count))
            parts = [_Round(stretch, rows, size, directions, step, model, m) for m in range(models)]
            sweeps, unsettled = _settle(parts, control, self.blocks, size == ratio_size)
            if sweeps > 2:
                ratio_size = size
            control.rounds += 1
            control.sweeps_made += sweeps
            if expected is not None:
                drifts = [part.products - own[: len(part.products)] for part, own in zip(parts, expected, strict=True)]
                _steer(control, parts, drifts, checked_rows, directions, unsettled)
                expected = None
            elif control.adapts and unsettled > 2 * control.tolerance:
                steer(control, min(1.0, 0.5 * unsettled))
            following = slice(rows.stop, min(rows.stop + self.blocks * control.rows, stretch.count))
            check = control.adapts and control.since >= control.between and size == control.rows
            control.since += 1
            if check and rows.stop < stretch.count:
                control.since, checked_rows = 0, rows.stop - rows.start
                expected = [part.expect(following) for part in parts]
            for m, part in enumerate(parts):
                found[m, rows] = part.losses()
                part.end()
            at, size = rows.stop, control.rows
        control.done = at
        return found.sum(axis=1)


class _Rows:
    """What a model's steps need to know of the rows of a stretch, from position ``begin`` on."""

    def __init__(self, stretch: Stretch, step: Step, m: int, begin: int) -> None:
        own = m if len(stretch.step) > 1 else 0
        self.size = np.asarray(stretch.step[own], np.float64)
        self.decay = np.exp(stretch.decay[own] - stretch.decay[own][begin])
        self.target, self.weight = targets_of(stretch.targets, m)
        self.rule = step
        kind: Any = losses.LOSSES[step.loss]
        self.loss = kind(epsilon=step.epsilon) if hasattr(kind, "epsilon") else kind()

    def value(self, at: Any, z: Any) -> Any:
        return reference.value(self.loss, z, self.target[at])

    def gradient(self, at: Any, z: Any) -> Any:
        return reference.gradient(self.loss, z, self.target[at])

    def step(self, at: Any, z: Any, norm: Any = 1.0) -> Any:
        g = self.gradient(at, z) * self.weight[at]
        if self.rule.passive_aggressive == 0:
            return self.size[at] * g
        value = self.value(at, z)
        if self.rule.passive_aggressive == 1:
            return g * min(self.size[at], value / norm) if norm > 0 else 0.0
        return g * value / (norm + 0.5 / self.size[at])


def targets_of(targets: Targets, m: int) -> tuple[Array, Array]:
    """Target and weight of each row for a model."""
    y = np.asarray(targets.label, np.float64)
    if targets.class_id is not None:
        y = np.where(y == targets.class_id[m], 1.0, -1.0)
    weight = np.where(y > 0, targets.positive_weight[m], targets.negative_weight[m]).astype(np.float64)
    return y, weight if targets.weight is None else weight * targets.weight


class _Round:
    """The rows of a round for one model: block p has those from p × ``size`` on."""

    def __init__(
        self, stretch: Stretch, rows: slice, size: int, directions: Directions, step: Step, model: Model, m: int
    ) -> None:
        self.stretch, self.size, self.directions, self.model, self.m = stretch, size, directions, model, m
        self.begin, self.count = rows.start, rows.stop - rows.start
        self.rule = _Rows(stretch, step, m, self.begin)
        self.X = stretch.X[stretch.rows[rows]]
        self.q = np.asarray(directions.along[stretch.rows[rows]], np.float64)
        self.w = np.asarray(model.w[m], np.float64)
        self.products = self.X @ self.w
        self.blocks = [slice(p, min(p + size, self.count)) for p in range(0, self.count, size)]
        self.start = np.zeros((len(self.blocks), directions.rank))
        self.z = np.zeros(self.count)
        self.e = np.zeros(self.count)
        self.h = float(model.slope[m])
        self.next_h = self.h
        a = self.size * self.rule.size[self.begin + self.count // 2]
        self.rate = a * self.h * np.asarray(directions.sharpness, np.float64)
        self.turn = np.asarray(directions.turn, np.float64)

    def sweep(self, again: bool) -> tuple[float, float]:
        """How far predictions have moved since the last sweep, and their spread."""
        rule, keep, old = self.rule, np.exp(-self.rate), self.z.copy()
        chained, end = np.zeros_like(self.start), np.zeros(self.start.shape[1])
        for p, block in enumerate(self.blocks):
            chained[p] = end
            q, start = self.q[block], self.start[p]
            decay, kappa = rule.decay[self.begin + block.start : self.begin + block.stop + 1], rule.rule.kappa
            margin = decay[:-1] * (self.products[block] + q @ start) + (1 - decay[:-1]) * (self.turn @ start)
            margin += float(self.model.intercept[self.m])
            gram, moved, lean = q @ q.T - kappa, np.zeros_like(start), 0.0
            for i in range(len(margin)):
                at = self.begin + block.start + i
                c = float(rule.step(at, margin[i]))
                e, move = c / decay[i + 1], kappa * (c + rule.rule.pull * rule.size[at])
                self.z[block.start + i], self.e[block.start + i] = margin[i], e
                margin -= decay[:-1] * gram[i] * e + move
                moved -= e * q[i]
                lean += kappa * e - move
            if kappa:
                moved += self.turn * lean / kappa
            end = start + moved + keep * (end - start)
        self.start, self.last = chained, end
        changed = self.z - old
        at = slice(self.begin, self.begin + self.count)
        change = (
            changed if again and self.rule.loss.name not in reference.PIECEWISE_LINEAR else np.full_like(old, PROBE)
        )
        if np.abs(change).sum() > 0:
            steps = rule.weight[at] * np.abs(rule.gradient(at, self.z) - rule.gradient(at, self.z - change))
            self.next_h = float(steps.sum() / np.abs(change).sum())
        return float(np.sqrt(np.mean(changed**2))), self.spread

    @property
    def spread(self) -> float:
        square = np.mean(self.z**2)
        return float(np.sqrt(max(square - self.z.mean() ** 2, 1e-4 * square)))

    @property
    def kept(self) -> float:
        return float(self.rule.decay[self.begin + self.count])

    def expect(self, following: slice) -> Array:
        """What this round says of the products of the next rows."""
        rows = self.stretch.rows[following]
        along = (self.directions.along[rows] - self.turn) @ self.last
        return self.kept * (self.stretch.X[rows] @ self.w + along)

    def losses(self) -> Array:
        return self.rule.value(slice(self.begin, self.begin + self.count), self.z)

    def end(self) -> None:
        left = self.count - 1 - np.arange(self.count)
        sizes = self.rule.size[self.begin : self.begin + self.count]
        faded = self.e * np.exp(-self.directions.tail * self.h * sizes * left)
        back = self.last + self.q.T @ faded
        moved = -(self.X.T @ faded)
        moved[slice(None) if self.directions.places is None else self.directions.places] += self.directions.V @ back
        self.model.w[self.m] = self.kept * (self.w + moved)
        self.model.intercept[self.m] += float(self.turn @ self.last)
        self.model.slope[self.m] = self.next_h


def _settle(parts: list[_Round], control: Control, blocks: int, known_here: bool) -> tuple[int, float]:
    """Sweeps until another would change too little to be worth it; how many, and how much that is. ``known_here``: how
    quickly changes get smaller was measured for blocks of this size."""
    most, before = control.sweeps or MOST_SWEEPS, 0.0
    jumps = parts[0].rule.loss.name in reference.PIECEWISE_LINEAR
    least_ratio, not_chained = (1.0, 1.0) if jumps else (0.05, 0.5)
    for sweep in range(1, most + 1):
        moved = [part.sweep(sweep > 1) for part in parts]
        worst = max(change / spread if spread > 0 else float(change > 0) for change, spread in moved)
        if before > 0:
            control.ratio = max(min(1.0, worst / before), least_ratio, 0.7 * control.ratio)
        unsettled = not_chained * worst * control.ratio if sweep > 1 else 0.0
        known = sweep > 2 or (known_here and control.rounds % BETWEEN_RATIOS != 0)
        settled = sweep > 1 and known and not unsettled > control.tolerance
        before = worst if sweep > 1 else 0.0
        if sweep == most or blocks == 1 or (control.sweeps == 0 and settled):
            break
    return sweep, unsettled


def _steer(
    control: Control, parts: list[_Round], drifts: list[Array], rows_checked: int, directions: Directions,
    unsettled: float,
) -> None:  # fmt: skip
    error = spreads = 0.0
    for part, drift in zip(parts, drifts, strict=True):
        pace, sharpness = part.rule.size[part.begin] * part.h, np.asarray(directions.sharpness, np.float64)
        spreading = directions.squares**2 / 3 + float(sharpness**2 @ part_left(2 * pace * rows_checked * sharpness))
        error += pace**2 * float(np.mean(drift**2)) * rows_checked * spreading
        spreads += part.spread**2
    error = max(float(np.sqrt(error / spreads)), 0.5 * unsettled) if spreads > 0 else 1.0
    steer(control, error if error <= 1.0 else 1.0)


def part_left(x: Array) -> Array:
    """∫ t² e^{−x (1 − t)} dt from 0 to 1: what is left at the end of a round of the squares of errors that grow with
    the rows before them and fade with those after."""
    small, large = np.minimum(x, 0.5), np.maximum(x, 0.5)
    series = 1 / 3 - small * (1 / 12 - small * (1 / 60 - small / 360))
    return np.where(x < 0.5, series, (1 - 2 / large * (1 - (1 - np.exp(-large)) / large)) / large)


def steer(control: Control, error: float) -> None:
    """Blocks double while the error is below half of the tolerance, and halve above it."""
    control.errors += error
    control.checks += 1
    if error <= control.tolerance:
        control.strikes, control.between = 0, min(2 * control.between, MOST_BETWEEN)
        control.stuck = min(control.stuck, 0)
        if control.rows >= control.too_large:
            control.too_large = 1 << 30
        share = 0.5 if 2 * control.rows < control.too_large else 0.25
        if error < share * control.tolerance and control.rows < control.most:
            control.rows = min(2 * control.rows, control.most)
            control.since = control.between = 1
        return
    control.between = 1
    if control.rows == 1:
        control.stuck += 1
        control.between = FEWEST_BETWEEN
        return
    control.strikes += 1
    if control.strikes < 2 and error <= 2 * control.tolerance:
        return
    control.strikes, control.too_large, control.since = 0, control.rows, 1
    while error > control.tolerance and control.rows > 1:
        control.rows //= 2
        error *= 0.5
