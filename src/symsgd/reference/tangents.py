"""The derivative of a block: what a small change of the state it starts from does to the state it ends in.

A step is p = x·w + b, u = u(p), and what the penalty does to each feature on its own. So a change d of the state
before the step is carried on by

    dp = x·dw + db,     dw′ = dw + x (∂u/∂p) dp, then the rule's tangent (see `weights`),     db′ = db + κ (∂u/∂p) dp

and M, the derivative of a block, is that walk over its steps, from d = I. Without the coupling through predictions,
∂u/∂p = 0, the walk is D, what the block does to each feature on its own; it is cheap (diagonal, or 2 × 2 a feature),
and M − D is 0 but for the features that the block's rows have, of rank at most their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from symsgd.reference.arrays import Matrix
from symsgd.reference.block import Block


@dataclass(frozen=True)
class Pushed:
    """Directions (states × k) carried through a block: to its end, and to its sum of iterates ((f + 1) × k)."""

    end: Matrix
    iterates: Matrix

    def __sub__(self, other: Pushed) -> Pushed:
        return Pushed(self.end - other.end, self.iterates - other.iterates)

    def __add__(self, other: Pushed) -> Pushed:
        return Pushed(self.end + other.end, self.iterates + other.iterates)

    def __matmul__(self, combination: Matrix) -> Pushed:
        """Combinations of the directions."""
        return Pushed(self.end @ combination, self.iterates @ combination)


def push(block: Block, directions: Matrix, *, coupled: bool = True) -> Pushed:
    """M times the columns of `directions` by a linearised walk over the block (D times them if not `coupled`).

    The block must have been run with a trace. Without an intercept (κ = 0) b is a constant: its change is carried
    along and changes nothing.
    """
    learner, k = block.learner, directions.shape[1]
    if block.steps is None:
        raise ValueError("the block was run without a trace; run it with trace=True to differentiate it")
    parts = directions[:-1].reshape(learner.rule.n_parts, learner.n_features, k)
    db, iterates = directions[-1], np.zeros((learner.n_features + 1, k))
    for step in block.steps:
        dp = step.x @ learner.rule.coef(parts) + (db if learner.kappa else 0.0)
        du = step.slope * dp if coupled else np.zeros(k)
        parts, db = learner.rule.tangent(parts, step.x, du, step.shape), db + learner.kappa * du
        if step.counted:
            iterates[:-1] += learner.rule.coef(parts)
            iterates[-1] += db
    return Pushed(np.vstack([parts.reshape(-1, k), db]), iterates)


def derivative(block: Block) -> Matrix:
    """M, states × states: the derivative of the end of a block by its start."""
    return push(block, np.eye(block.learner.n_states)).end


def derivative_of_iterates(block: Block) -> Matrix:
    """(f + 1) × states: the derivative of the sum of the iterates (w, b) that averaging counts."""
    return push(block, np.eye(block.learner.n_states)).iterates


def uncoupled_derivative(block: Block) -> Matrix:
    """D, states × states: what the block does to each feature on its own."""
    return push(block, np.eye(block.learner.n_states), coupled=False).end
