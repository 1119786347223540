"""A training on a GPU: what :class:`symsgd._core.Training` is on the CPU, pass by pass.

*exact* goes row by row (kernels/exact.cu); *rounds* merges blocks by the curvature combiner (kernels/rounds.cu).
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from symsgd import _core
from symsgd.gpu import directions
from symsgd.gpu.machine import Array, Control, Directions, Machine, Model, Step, Stretch, Targets
from symsgd.gpu.planning import stretches
from symsgd.gpu.schedule import PassSteps
from symsgd.gpu.source import OnMachine, Piece, Source, SparseOnMachine
from symsgd.runs import PassSums

MOST_DECAY = 40.0  # exp(−40) of a weight and its inverse are numbers that float32 has
AHEAD = 2  # passes whose order is written before they begin
MOST_SPARSE_DECAY = 8.0  # of weights that are kept as integers
GRAM_SHARE = 0.4  # of the free memory, for products of rows that are kept from pass to pass
GRAM_ROWS = 1 << 15  # whose products are made at a time where they are not kept
FIRST_ROWS = 1  # of a block in the first round
NEVER_STUCK = -(1 << 30)  # sparse rows have no exact mode to fall back on
LEAST_ALONE = 4096  # rows that are trained exactly where rounds get stuck; four times as many each time in a row
MOST_ALONE = 16_384  # rows that are trained exactly before the first round, while predictions change fast


@dataclass(frozen=True)
class Rounds:
    """Blocks of ``block_size`` rows, or of as many as their error allows (0); sweeps of every round, or 0."""

    tolerance: float
    rank: int
    block_size: int
    sweeps: int


class Orders:
    """The rows of each pass on the machine, written and copied there while the pass before is trained."""

    def __init__(self, machine: Machine, kind: str, n_rows: int, seed: int, held_out: Any) -> None:
        self.machine, self.kind = machine, kind
        self._choice = kind, n_rows, seed, held_out
        self._full = _core.Order(*self._choice) if kind == "full" else None  # permutes what the pass before has left
        self._written = 0  # passes of it
        ahead = 1 if kind == "full" else AHEAD
        self._writers = ThreadPoolExecutor(ahead, thread_name_prefix="symsgd-order")
        self._asked: dict[int, Future[Array]] = {}
        self._ahead = 0 if kind == "storage" else ahead

    def of_pass(self, number: int) -> Array:
        number = 0 if self.kind == "storage" else number  # all alike
        for asked in range(number, number + 1 + self._ahead):
            if asked not in self._asked:
                self._asked[asked] = self._writers.submit(self._write, asked)
        rows = self._asked[number].result()
        for done in [asked for asked in self._asked if asked < number]:
            del self._asked[done]
        return rows

    def _write(self, number: int) -> Array:
        if self._full is None:
            return self.machine.upload(_core.Order(*self._choice).write(number))
        for earlier in range(self._written, number):
            self._full.write(earlier)
        self._written = number + 1
        return self.machine.upload(self._full.write(number))


class Training:
    """One or more models over dense rows on a machine."""

    def __init__(
        self,
        machine: Machine,
        *,
        source: Source,
        n_features: int,
        labels: Any,
        sample_weight: Any,
        positive_weight: list[float],
        negative_weight: list[float],
        several: bool,
        step: Step,
        steps: PassSteps,
        track_norms: bool,
        mode: Literal["exact", "rounds"],
        rounds: Rounds,
        orders: Orders,
        t: float,
    ) -> None:
        self.machine, self.orders, self.mode = machine, orders, mode
        self.step, self.steps, self.track_norms = step, steps, track_norms
        xp = machine.xp
        self.n_features = n_features
        self.source = source
        self.sparse = isinstance(source, SparseOnMachine)
        self.dtype = source.dtype
        count = len(positive_weight)
        self.active = list(range(count))
        self.several = several
        self._labels = machine.asarray(labels, self.dtype)
        self._weight = None if sample_weight is None else machine.asarray(sample_weight, self.dtype)
        self._class_weights = np.array([positive_weight, negative_weight])
        self._sizes = np.full(count, steps.sizes.first)
        self.t = t
        self.passes = 0
        w = xp.zeros((count, source.shape[1]), self.dtype)
        self.model = Model(w, xp.zeros(count), xp.full(count, steps.most_curvature, self.dtype))
        self._gram: dict[tuple[int, int], Array] = {}  # of all rows in storage order
        self._kept_targets: tuple[Any, Targets] | None = None  # of all rows in storage order
        self._control: Control | None = None
        self._directions: Directions | None = None
        self._rounds = rounds
        self._alone = 0  # rows to go exactly before the next round
        self._stretch = 0  # how many those were when rounds got stuck last

    # as the core's

    def run_pass(self) -> PassSums:
        rows = self.orders.of_pass(self.passes)
        sizes, decay = self.steps.of(self._sizes, self.t, len(rows))
        sums = PassSums(len(rows), [], [])
        losses = self.machine.xp.zeros(len(self.active))
        run = self._exact if self.mode == "exact" else self._in_rounds
        for piece in self.source.pieces(rows):
            losses += run(piece, *_cut(sizes, decay, piece.begin, piece.end), sums)
            if not self.source.whole:
                self.machine.to_host(losses)  # waits: the memory of this piece is soon that of another
        if sums.checks:
            sums.error /= sums.checks
        sums.loss = [float(value) / len(rows) for value in self.machine.to_host(losses)]
        sums.objective = list(sums.loss)
        if self.track_norms and not self.step.passive_aggressive:
            norms = self.machine.to_host((self.model.w.astype(np.float64) ** 2).sum(axis=1))
            pulls = self.machine.to_host(self.model.intercept) * self.step.pull
            sums.objective = [
                loss + 0.5 * self.steps.sizes.l2 * float(norm) + float(pull)
                for loss, norm, pull in zip(sums.loss, norms, pulls, strict=True)
            ]
        self.t += len(rows)
        self.passes += 1
        return sums

    def keep_classes(self, classes: list[int]) -> None:
        self.model = Model(*(self.machine.xp.ascontiguousarray(part[classes]) for part in self._parts()))
        self._class_weights = self._class_weights[:, classes]
        self._sizes = self._sizes[classes]
        self.active = [self.active[c] for c in classes]

    def step_size(self, c: int) -> float:
        return float(self._sizes[c])

    def set_step_size(self, c: int, step_size: float) -> None:
        self._sizes[c] = step_size

    def store(self, coef: Any, intercept: Any) -> bool:
        """Into arrays with a line for every class there was; False if the weights are not finite."""
        w = self.machine.to_host(self.model.w[:, : self.n_features])
        b = self.machine.to_host(self.model.intercept)
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
            return False
        coef[self.active], intercept[self.active] = w, b
        return True

    def load(self, coef: Any, intercept: Any) -> None:
        self.model.w[:, : self.n_features] = self.machine.asarray(coef[self.active], self.dtype)
        self.model.intercept[:] = self.machine.asarray(intercept[self.active])

    @property
    def averaged_steps(self) -> float:
        return 0.0

    def store_average(self, coef: Any, intercept: Any) -> None:
        raise AssertionError("there are no averages on a GPU")

    def load_average(self, coef: Any, intercept: Any) -> None:
        raise AssertionError("there are no averages on a GPU")

    def store_gathered(self, coef: Any, intercept: Any) -> None:
        raise AssertionError("there is no AdaGrad on a GPU")

    def load_gathered(self, coef: Any, intercept: Any) -> None:
        raise AssertionError("there is no AdaGrad on a GPU")

    def save(self) -> bytes:
        control = [] if self._control is None else [list(vars(self._control).values())]
        w, intercept, slope = map(self.machine.to_host, self._parts())
        bytes_ = io.BytesIO()
        np.savez(
            bytes_, w=w, intercept=intercept, slope=slope, active=self.active, sizes=self._sizes, t=self.t,
            passes=self.passes, class_weights=self._class_weights, control=np.array(control),
            alone=[self._alone, self._stretch],
        )  # fmt: skip
        return bytes_.getvalue()

    def resume(self, state: bytes) -> None:
        with np.load(io.BytesIO(state)) as kept:
            self.model = Model(*(self.machine.asarray(kept[name]) for name in ("w", "intercept", "slope")))
            self.active = [int(c) for c in kept["active"]]
            self._sizes, self._class_weights = kept["sizes"], kept["class_weights"]
            self.t, self.passes = float(kept["t"]), int(kept["passes"])
            self._alone, self._stretch = (int(rows) for rows in kept["alone"])
            if len(kept["control"]):
                control = self._first_control()
                for name, value in zip(vars(control), kept["control"][0], strict=True):
                    setattr(control, name, type(getattr(control, name))(value))
                self._control = control

    def _parts(self) -> tuple[Array, Array, Array]:
        return self.model.w, self.model.intercept, self.model.slope

    # what a pass is made of

    def _targets(self, rows: Array) -> Targets:
        key = (len(rows), tuple(self.active)) if self.orders.kind == "storage" and self.source.whole else None
        if key is not None and self._kept_targets is not None and self._kept_targets[0] == key:
            return self._kept_targets[1]
        positive, negative = (self.machine.asarray(line, self.dtype) for line in self._class_weights)
        ids = self.machine.asarray(np.array(self.active), self.dtype) if self.several else None
        weight = None if self._weight is None else self._weight[rows]
        targets = Targets(self._labels[rows], weight, positive, negative, ids)
        if len(rows) == self.source.shape[0]:
            self._kept_targets = key, targets
        return targets

    def _stretches(self, decay: Array, most_rows: int, first: int = 0) -> list[tuple[int, int]]:
        """Where the rows from ``first`` on are cut, so that weights do not decay by too much in a launch."""
        rows, most_decay = decay.shape[1] - 1 - first, MOST_SPARSE_DECAY if self.sparse else MOST_DECAY
        if rows <= most_rows and self.steps.fallen(decay, first) <= most_decay:
            return [(first, first + rows)]
        cuts = stretches(self.machine.to_host(decay[:, first:]), most_rows, most_decay)
        return [(first + begin, first + end) for begin, end in itertools.pairwise(cuts)]

    def _exact(self, piece: Piece, sizes: Array, decay: Array, sums: PassSums) -> Array:
        """The sum of losses, by model. Products of rows are kept where the order stays and they fit."""
        machine, xp, n = (
            self.machine,
            self.machine.xp,
            self.machine.gram_block(self.source.shape[1], len(self.active), self.dtype),
        )
        count = len(piece.rows)
        keeps = (
            self.mode == "exact"
            and self.orders.kind == "storage"
            and self.source.whole
            and (bool(self._gram) or count * 2 * n * self.dtype.itemsize < GRAM_SHARE * machine.free_bytes())
        )
        losses = xp.zeros(len(self.active))
        parts = self._stretches(decay, count if keeps else -(-GRAM_ROWS // n) * n)
        keeps = keeps and len(parts) == 1  # others may be cut elsewhere in the next pass
        grams = self._products_ahead(piece, parts, n, keeps)
        for (begin, end), gram in zip(parts, grams, strict=True):
            stretch = self._stretch_of(piece, sizes, decay, begin, end)
            losses += machine.exact(stretch, gram, self.step, self.model)
        return losses

    def _stretch_of(self, piece: Piece, sizes: Array, decay: Array, begin: int, end: int) -> Stretch:
        part = slice(begin, end)
        targets = self._targets(piece.originals[part])
        return Stretch(piece.X, piece.rows[part], targets, *_cut(sizes, decay, begin, end))

    def _products_ahead(self, piece: Piece, parts: list[tuple[int, int]], n: int, keeps: bool) -> Iterator[Array]:
        """Those of every part; of the next one while a part is trained."""
        following = self._products(piece, *parts[0], n, keeps)
        for number in range(len(parts)):
            current = following
            if number + 1 < len(parts):
                with self.machine.beside():
                    following = self._products(piece, *parts[number + 1], n, keeps)
            yield current
            self.machine.wait_for_beside()

    def _products(self, piece: Piece, begin: int, end: int, n: int, keeps: bool) -> Array:
        """The products of every row with the rows of its own block and of the next: blocks × n × 2n."""
        if keeps and (begin, end) in self._gram:
            return self._gram[begin, end]
        xp, rows = self.machine.xp, piece.rows[begin:end]
        blocks = -(-len(rows) // n)
        gram = xp.empty((blocks, n, 2 * n), self.dtype)
        at_once = max(1, GRAM_ROWS // n)
        for first in range(0, blocks, at_once):
            last = min(blocks, first + at_once)
            taken = rows[first * n : (last + 1) * n]
            gathered = xp.zeros(((last - first + 1) * n, piece.X.shape[1]), self.dtype)
            gathered[: len(taken)] = piece.X[taken]
            cut = gathered.reshape(last - first + 1, n, -1)
            gram[first:last, :, :n] = cut[:-1] @ cut[:-1].transpose(0, 2, 1)
            gram[first:last, :, n:] = cut[:-1] @ cut[1:].transpose(0, 2, 1)
        if keeps:
            self._gram = {(begin, end): gram}
        return gram

    def _in_rounds(self, piece: Piece, sizes: Array, decay: Array, sums: PassSums) -> Array:
        """The sum of losses, by model. Rows that are too much for rounds are trained exactly."""
        machine, xp, count = self.machine, self.machine.xp, len(piece.rows)
        if self._directions is None:
            self._directions = self._find_directions()
        found = self._directions
        if not self.source.whole:
            found = replace(found, along=piece.X @ found.V + found.turn)
        if self._control is None:
            self._control = self._first_control()
            self._alone = 0 if self.sparse else min(sums.rows // 16, MOST_ALONE)
        control, losses = self._control, xp.zeros(len(self.active))
        sums.rank = found.rank - 1  # without the intercept's
        begin = 0
        while begin < count:
            if self._alone:
                end = min(count, begin + self._alone)
                part = slice(begin, end)
                own = replace(piece, rows=piece.rows[part], originals=piece.originals[part])
                losses += self._exact(own, *_cut(sizes, decay, begin, end), sums)
                self._alone -= end - begin
                sums.alone += end - begin
                begin = end
                continue
            end = self._stretches(decay, count, begin)[0][1]
            stretch = self._stretch_of(piece, sizes, decay, begin, end)
            losses += machine.rounds(stretch, found, control, self.step, self.model)
            if control.checks:
                sums.error = max(0.0, sums.error) + control.errors
            sums.checks += control.checks
            sums.merges += control.rounds * machine.blocks
            sums.sweeps += control.sweeps_made - control.rounds
            begin += control.done
            if control.done < stretch.count:
                self._stretch = min(max(4 * self._stretch, LEAST_ALONE), 8 * sums.rows)
                self._alone, control.stuck = self._stretch, 0
            else:
                self._stretch = 0
        return losses

    def _find_directions(self) -> Directions:
        n_rows, kappa = self.source.shape[0], self.step.kappa
        chosen = np.unique(np.linspace(0, n_rows - 1, min(n_rows, directions.SAMPLE)).astype(np.int64))
        if isinstance(self.source, SparseOnMachine):
            found, place_of = directions.find_sparse(self.machine, self.source.host[chosen], self._rounds.rank, kappa)
            return replace(found, along=self.machine.project(self.source.X, found.V, place_of) + found.turn)
        sample = self.source.take(self.machine.asarray(chosen))
        found = directions.find(self.machine, sample, self._rounds.rank, kappa, self.n_features)
        if isinstance(self.source, OnMachine):
            return replace(found, along=self.source.X @ found.V + found.turn)
        return found

    def _first_control(self) -> Control:
        features = 0 if self.sparse else self.source.shape[1]
        rank = 1 + min(self._rounds.rank, self.n_features)  # the intercept's among them
        most = self.machine.most_rows(features, len(self.active), rank, self.dtype)
        fixed = self._rounds.block_size
        return Control(
            rows=min(fixed, most) if fixed else FIRST_ROWS,
            adapts=not fixed,
            most=most,
            tolerance=self._rounds.tolerance,
            sweeps=self._rounds.sweeps,
            stuck=NEVER_STUCK if self.sparse else 0,
        )


def _cut(sizes: Array, decay: Array, begin: int, end: int) -> tuple[Array, Array]:
    """Of a part of the pass; all of them as they are if that is the whole."""
    if end - begin == sizes.shape[1]:
        return sizes, decay
    return sizes[:, begin:end].copy(), decay[:, begin : end + 1].copy()
