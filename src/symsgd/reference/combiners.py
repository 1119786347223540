"""The combiners: what becomes of a block that started from the round's start if the round had come further, by d.

The blocks of a round all start from the same state and are merged as a chain, c_0 = start, d = c_{p−1} − start:

    exact        c_p = S_p + M_p d
    projected    c_p = S_p + D_p d + (M_p A − D_p A) Aᵀ d,   a fresh A (states × k) for each block, E[AAᵀ] = I
    sum          c_p = S_p + D_p d

with S_p the end of block p, M_p its derivative and D_p what it does to each feature on its own (see `tangents`; under
L2 D = Π (1 − α λ) for weights and 1 for the intercept, so that D = I without it: the paper's N = M − I). The sum of
iterates of block p moves likewise. The mean has no chain: c_P = Σ_p S_p / P; and under it what L1 is owed counts from
the round's start in every block, and is averaged too.

A block need only know the features that its rows have (see `observed`): M − D is 0 in the columns of all others. Their
rows of A are then taken as 0, as if never drawn: the estimate stays unbiased, and d elsewhere adds nothing to its
variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symsgd.reference.arrays import Mask, Matrix, Vector
from symsgd.reference.block import Block
from symsgd.reference.tangents import Pushed, push
from symsgd.reference.weights import Halves

Projection = Callable[[int, int, int, int], Matrix]
COMBINERS = ("exact", "projected", "sum", "mean", "adagrad-mean")


def sparse_projection(rng: np.random.Generator, n_states: int, k: int) -> Matrix:
    """A = D / √k with independent entries of D: +√3, −√3 and 0 with probability 1/6, 1/6 and 2/3 (Achlioptas 2003).

    E[D] = 0, E[D²] = 1 and E[D⁴] = 3; the paper prints ±1/3, for which E[AAᵀ] is not I (errata.md).
    """
    entries = rng.choice([np.sqrt(3.0), -np.sqrt(3.0), 0.0], size=(n_states, k), p=[1 / 6, 1 / 6, 2 / 3])
    return np.asarray(entries / np.sqrt(k))


def seeded_projections(seed: int) -> Projection:
    """A fresh A for each block of each pass."""

    def projection(pass_: int, block_number: int, n_states: int, k: int) -> Matrix:
        return sparse_projection(np.random.default_rng([seed, pass_, block_number]), n_states, k)

    return projection


def correction(combiner: Any, block: Block, d: Vector, seen: Mask, draw: Callable[[int], Matrix]) -> Pushed:
    """What a chained combiner adds to S_p, and to the block's sum of iterates, if the round had come further by d.

    `seen` are the states that the block knows, `draw(k)` its A.
    """
    column = d[:, None]
    if combiner.name == "exact":
        return push(block, column)
    alone = push(block, column, coupled=False)
    if combiner.name == "sum":
        return alone
    A = np.where(seen[:, None], draw(combiner.k), 0.0)
    return alone + (push(block, A) - push(block, A, coupled=False)) @ (A.T @ column)


def observed(block: Block) -> Mask:
    """The states that the rows of a block have: all parts of their features, and the intercept."""
    assert block.steps is not None
    seen = np.zeros(block.learner.n_features, dtype=np.bool_)
    for step in block.steps:
        seen |= step.x != 0.0
    return np.append(np.tile(seen, block.learner.rule.n_parts), True)


def settled(block: Block, before: Vector, merged: Vector, seen: Mask) -> Vector:
    """c_p after the Lasso has had its say: no half below zero, and those that the block does not know shrink from
    where they were, c_{p−1}, as in any training: they owe nothing to a linearisation. Other penalties change nothing.
    """
    if not isinstance(block.learner.rule, Halves):
        return merged
    shrunk = before
    for step in block.steps or ():
        shrunk = np.maximum(0.0, shrunk - step.shape.shrink)
    return np.append(np.maximum(0.0, np.where(seen, merged, shrunk))[:-1], merged[-1])
