"""Strategies in rounds: the blocks of a round start from one state, as if on P processors, and are then merged.

A pass's order is cut into blocks of `block_size` rows, and those into rounds of `n_blocks`; the last block and the
last round take what is left. Block p runs ordinary SGD from the round's start, its steps numbered by its own place in
the order (and what L1 is owed reckoned to that place). The merged state is where the next round starts, so that every
combiner aims at the same sequential run: that of the same orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from symsgd.reference.adagrad import run_adagrad_block, weighted_mean
from symsgd.reference.arrays import Order, Touched, Vector
from symsgd.reference.block import Block, Learner, State, make_learner, moved_state, passed_over, run_block, start_state
from symsgd.reference.combiners import COMBINERS, Projection, correction, observed, seeded_projections, settled
from symsgd.reference.sequential import SequentialRun, finished_run, start_average, without_masked

if TYPE_CHECKING:
    from symsgd.losses import Loss
    from symsgd.penalties import Penalty
    from symsgd.schedules import Schedule

DRIFT_SAMPLE = 32


def rounds(
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: Loss,
    penalty: Penalty,
    schedule: Schedule,
    orders: Sequence[Order],
    n_blocks: int,
    block_size: int,
    combiner: Any,
    projection: Projection | None = None,
    whole: bool | None = None,
    sample_weight: ArrayLike | None = None,
    class_weight: tuple[float, float] = (1.0, 1.0),
    fit_intercept: bool = True,
    intercept_decay: float = 1.0,
    average: int = 0,
    coef: ArrayLike | None = None,
    intercept: float = 0.0,
    t: float = 1.0,
    average_coef: ArrayLike | None = None,
    average_intercept: float = 0.0,
    mask: ArrayLike | None = None,
    touched: Touched = "all",
) -> SequentialRun:
    """SGD in rounds of `n_blocks` blocks of `block_size` rows; the other arguments, and the result, are `sequential`'s.

    `combiner` has a name, "exact", "projected" (and k), "sum", "mean" or "adagrad-mean" (and step_size), and the first
    two may have `soft_curvature`, True if they do not. `projection(pass, block, n_states, k)` gives A for block 0, 1, …
    of a pass, n_states being the parts of the weights (w; w, q; or w₊, w₋), each over all features, and the intercept.
    `whole` says whether a block knows all features or its own rows' alone, which is where A counts (see `combiners`);
    None means all if `touched` is "all" (dense rows). AdaGrad's sums of squares live as long as the run.

    Rows of zeros, which PA-I passes over, are left out before the order is cut into blocks, their losses too.
    Losses and objectives are those that the blocks saw. Under the two means a sum of iterates is that of the blocks'
    own. A round of one block is a piece of the sequential run, whatever the combiner.
    """
    learner = make_learner(
        X,
        y,
        loss=loss,
        penalty=penalty,
        schedule=schedule,
        sample_weight=sample_weight,
        class_weight=class_weight,
        fit_intercept=fit_intercept,
        intercept_decay=intercept_decay,
        average=average,
        touched=touched,
    )
    _check(combiner, n_blocks, block_size)
    team = _Team(
        learner, combiner, projection or seeded_projections(0), learner.touched == "all" if whole is None else whole
    )
    state, mean = start_state(learner, coef, intercept, t), start_average(learner, average_coef, average_intercept)
    losses, objectives = [], []
    left_out = np.zeros(len(learner.X), dtype=np.bool_) if mask is None else np.asarray(mask, dtype=np.bool_)
    if schedule.name == "pa1":
        left_out = left_out | ~learner.X.any(axis=1)
    for pass_, rows in enumerate(without_masked(orders, left_out)):
        loss_sum = objective_sum = 0.0
        for number, blocks_of_rows in enumerate(split(rows, n_blocks, block_size)):
            blocks, end, iterates = team.round(state, blocks_of_rows, pass_, number * n_blocks)
            mean = mean.after(learner, state, end, iterates)
            state = end
            loss_sum += sum(block.loss for block in blocks)
            objective_sum += sum(block.objective for block in blocks)
        losses.append(loss_sum / len(rows))
        objectives.append(objective_sum / len(rows))
    return finished_run(learner, state, mean, losses, objectives)


def split(rows: Order, n_blocks: int, block_size: int) -> list[list[Order]]:
    """The rounds of a pass, each a list of blocks; nothing is dropped."""
    blocks = [rows[begin : begin + block_size] for begin in range(0, len(rows), block_size)]
    return [blocks[begin : begin + n_blocks] for begin in range(0, len(blocks), n_blocks)]


class _Team:
    """What goes on from round to round beside the state: the drift of the margins, and AdaGrad's sums of squares."""

    def __init__(self, learner: Learner, combiner: Any, projection: Projection, whole: bool) -> None:
        self.learner, self.combiner, self.projection, self.whole = learner, combiner, projection, whole
        self.drift = 0.0
        self.squares = np.zeros(learner.n_features + 1)

    def round(
        self, start: State, rows: list[Order], pass_: int, first_number: int
    ) -> tuple[Sequence[Block], State, Vector]:
        """The blocks, the merged state and the sum of iterates."""
        starts = [start]
        for part in rows[:-1]:
            starts.append(passed_over(self.learner, starts[-1], part))
        if self.combiner.name == "adagrad-mean":
            return self._adagrad(starts, rows)
        if self.combiner.name == "mean":
            return self._mean(starts, rows)
        soft = getattr(self.combiner, "soft_curvature", True)
        blocks = [
            run_block(self.learner, begin, part, trace=p > 0, drift=self.drift if soft else None)
            for p, (begin, part) in enumerate(zip(starts, rows, strict=True))
        ]
        if len(blocks) == 1:
            return blocks, blocks[0].end, blocks[0].iterates
        return self._chain(start.vector, blocks, rows, pass_, first_number)

    def _chain(
        self, start: Vector, blocks: list[Block], rows: list[Order], pass_: int, first_number: int
    ) -> tuple[Sequence[Block], State, Vector]:
        c, iterates, moves = blocks[0].end.vector, blocks[0].iterates, []
        for p, (block, part) in enumerate(zip(blocks[1:], rows[1:], strict=True), start=1):
            d, seen = c - start, np.ones(len(c), dtype=np.bool_) if self.whole else observed(block)
            moves.append(self._moves_of_margins(d, part))
            draw = partial(self.projection, pass_, first_number + p, self.learner.n_states)
            added = correction(self.combiner, block, d, seen, draw)
            c = settled(block, c, block.end.vector + added.end[:, 0], seen)
            iterates = iterates + block.iterates + added.iterates[:, 0]
        self.drift = float(np.sqrt(np.mean(np.concatenate(moves) ** 2)))
        return blocks, moved_state(self.learner, blocks[-1].end, c), iterates

    def _moves_of_margins(self, d: Vector, rows: Order) -> Vector:
        """x·d + d_b of at most 32 rows of a block, evenly spaced."""
        learner, sample = self.learner, rows[:: -(-len(rows) // DRIFT_SAMPLE)]
        parts = d[:-1].reshape(learner.rule.n_parts, learner.n_features)
        return np.asarray(learner.X[sample] @ learner.rule.coef(parts) + d[-1])

    def _mean(self, starts: list[State], rows: list[Order]) -> tuple[Sequence[Block], State, Vector]:
        own = [replace(begin, weights=begin.weights._replace(owed=starts[0].weights.owed)) for begin in starts]
        blocks = [run_block(self.learner, begin, part) for begin, part in zip(own, rows, strict=True)]
        if len(blocks) == 1:
            return blocks, blocks[0].end, blocks[0].iterates
        end = moved_state(self.learner, blocks[-1].end, np.mean([block.end.vector for block in blocks], axis=0))
        owed = float(np.mean([block.end.weights.owed for block in blocks]))
        iterates = np.sum([block.iterates for block in blocks], axis=0)
        return blocks, replace(end, weights=end.weights._replace(owed=owed)), iterates

    def _adagrad(self, starts: list[State], rows: list[Order]) -> tuple[Sequence[Block], State, Vector]:
        runs = [
            run_adagrad_block(self.learner, begin, self.squares, part, self.combiner.step_size)
            for begin, part in zip(starts, rows, strict=True)
        ]
        merged, self.squares = weighted_mean(runs)
        blocks = [run.block for run in runs]
        iterates = np.sum([block.iterates for block in blocks], axis=0)
        return blocks, moved_state(self.learner, blocks[-1].end, merged), iterates


def _check(combiner: Any, n_blocks: int, block_size: int) -> None:
    if combiner.name not in COMBINERS:
        raise ValueError(f"the reference has no combiner {combiner.name!r}; it has {', '.join(COMBINERS)}")
    if n_blocks < 1 or block_size < 1:
        raise ValueError(f"n_blocks={n_blocks} and block_size={block_size} must be at least 1")
