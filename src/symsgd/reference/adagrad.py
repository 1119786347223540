"""AllReduce's own SGD (Agarwal et al. 2014): AdaGrad rates in the blocks, merged by a mean weighted by AdaGrad's sums.

With the derivatives c g x_i of the weights and c g of the intercept, and η AllReduce's own step size,

    G_i ← G_i + (c g x_i)²        w_i ← max(0, 1 − η λ) w_i − η c g x_i / √G_i       (no step where G_i = 0)
    G_b ← G_b + (c g)²            b ← b − κ η (c g / √G_b + ν)                       (ν for one-class, else 0)

Each worker p ends with its w_p and G_p; feature by feature (the intercept is one of them)

    w = Σ_p G_p w_p / Σ_p G_p     G = Σ_p G_p² / Σ_p G_p         (Σ_p G_p = 0: the plain mean of the w_p)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symsgd.reference.arrays import Order, Vector
from symsgd.reference.block import Block, Learner, State, moved_state
from symsgd.reference.losses import LARGEST_GRADIENT, evaluate
from symsgd.reference.weights import Decay


@dataclass(frozen=True)
class AdaGradBlock:
    """A block, and the sums of squares (of the weights, then of the intercept) that it ended with."""

    block: Block
    squares: Vector


def run_adagrad_block(
    learner: Learner, state: State, squares: Vector, rows: Sequence[int] | Order, step_size: float
) -> AdaGradBlock:
    """AdaGrad from `state` over `rows`; the schedule is not read."""
    if not isinstance(learner.rule, Decay) or learner.passive_aggressive:
        raise ValueError("AdaGrad rates go with no penalty or L2, and bring their own schedule")
    kept = max(0.0, 1.0 - step_size * learner.rule.alpha)
    v, G, t = state.vector, squares.copy(), state.t
    decay, factor = np.append(np.full(len(v) - 1, kept), 1.0), np.append(np.ones(len(v) - 1), learner.kappa)
    iterates = np.zeros(learner.n_features + 1)
    loss_sum = objective_sum = 0.0
    for i in rows:
        x, y, c = learner.X[i], float(learner.y[i]), float(learner.c[i])
        row_loss, g, _ = (float(part) for part in evaluate(learner.loss, float(x @ v[:-1]) + v[-1], y))
        loss_sum += row_loss
        objective_sum += row_loss + learner.rule.alpha * 0.5 * float(v[:-1] @ v[:-1]) + learner.nu * v[-1]
        cg = c * min(max(g, -LARGEST_GRADIENT), LARGEST_GRADIENT)
        slope = np.append(cg * x, cg)
        G += slope**2
        move = slope / np.sqrt(np.where(G > 0.0, G, 1.0))
        move[-1] += learner.nu
        v = decay * v - factor * step_size * move
        if 0 < learner.average <= t:
            iterates += v
        t += 1
    end = moved_state(learner, State(state.weights, state.intercept, t), v)
    return AdaGradBlock(Block(learner, end, iterates, loss_sum, objective_sum, None), G)


def weighted_mean(blocks: Sequence[AdaGradBlock]) -> tuple[Vector, Vector]:
    """The merged state and the merged sums of squares."""
    w, G = np.array([b.block.end.vector for b in blocks]), np.array([b.squares for b in blocks])
    total = G.sum(axis=0)
    divisor = np.where(total > 0.0, total, 1.0)
    merged = np.where(total > 0.0, (G * w).sum(axis=0) / divisor, w.mean(axis=0))
    return merged, (G**2).sum(axis=0) / divisor
