"""The curvature combiner: every block of a round is taken to have the derivative of any other, that of the mean row.

A step's derivative is (1 − η λ) I − η c h x̃ x̃ᵀ. Over a block of rows that are drawn alike, their product is near

    M = keep exp(−a H),   H = E[c h x̃ x̃ᵀ],   a = Σ η,   keep = e^{−a λ}

x̃ = (x, √κ) and the intercept counted as b / √κ, so that H is symmetric. A round begins at w_g. Its blocks start there,
end at S_p, and are chained; then a sweep of refinement runs each block again, from where the chain says that its
predecessor ended, start°_p = w_g + d_p−1, and chains them again:

    d_p = (S_p − w_g) + M (d_{p−1} − d°_{p−1}),   d_0 = 0,   d° the d that the block started from: 0 at first

Block p is right once its predecessor is, and the first is right from the outset: P − 1 sweeps are sequential SGD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symsgd.reference.arrays import Matrix, Order, Vector
from symsgd.reference.block import Block, Learner, State, moved_state, passed_over, run_block
from symsgd.reference.losses import evaluate
from symsgd.reference.steps import slope_of_step, step_size
from symsgd.reference.weights import Decay


def mean_curvature(learner: Learner, state: State, rows: Sequence[int] | Order, drift: float = 0.0) -> Matrix:
    """H, (f + 1)², of the model `state` over the mean of `rows`.

    Losses made of straight pieces take the soft curvature that a step from here would have (see `slope_of_step`), which
    depends on its size.
    """
    loss, eta = learner.loss, step_size(learner.schedule, learner.loss, state.t)
    H = np.zeros((learner.n_features + 1, learner.n_features + 1))
    for i in rows:
        x, y, c = np.append(learner.X[i], np.sqrt(learner.kappa)), float(learner.y[i]), float(learner.c[i])
        p = float(learner.X[i] @ learner.rule.coef(state.weights.parts)) + state.intercept
        h = float(evaluate(loss, p, y)[2])
        slope = slope_of_step(loss, y, p, h, eta=eta, c=c, length=float(x @ x), drift=drift)
        H -= slope / eta * np.outer(x, x)
    return H / len(rows)


def mean_derivative(H: Matrix, a: float, keep: float, kappa: float) -> Matrix:
    """M = keep exp(−a H) for changes of (w, b)."""
    values, Q = np.linalg.eigh(H)
    unit = np.append(np.ones(len(H) - 1), np.sqrt(kappa) if kappa else 1.0)  # b is counted as b / √κ in H
    return np.asarray(keep * unit[:, None] * (Q * np.exp(-a * values)) @ Q.T / unit)


def spectrum_derivative(Q: Matrix, values: Vector, rest: Vector, a: float, keep: float) -> Matrix:
    """keep (Q e^{−aΛ} Qᵀ + diag(e^{−ac}) (I − QQᵀ)): what the core keeps of keep exp(−a H), for changes of (w, b / √κ).

    Outside of Q, L2 does not act on the intercept. Where Q has every direction nothing is outside.
    """
    flat = np.exp(-a * rest) * np.append(np.full(len(Q) - 1, keep), 1.0)
    return np.asarray(keep * (Q * np.exp(-a * values)) @ Q.T + flat[:, None] * (np.eye(len(Q)) - Q @ Q.T))


def merge_ended(start: Vector, end: Vector, now: Vector, M: Matrix) -> Vector:
    """The model after a merge without rounds: a block went from `start` to `end`, others have moved the model to `now`
    meanwhile, and M is what the block would have made of that."""
    return end + M @ (now - start)


def steps_of(learner: Learner, t: float, count: int) -> tuple[float, float]:
    """a and keep of `count` steps from number t on; a by Simpson's rule, a sum where step sizes do not change."""
    assert isinstance(learner.rule, Decay)
    first, middle, last = (
        step_size(learner.schedule, learner.loss, t + share * (count - 1)) for share in (0.0, 0.5, 1.0)
    )
    a = count * (first + 4.0 * middle + last) / 6.0
    return a, float(np.exp(-a * learner.rule.alpha))


def chain(moved: Sequence[Vector], began: Sequence[Vector], M: Sequence[Matrix]) -> list[Vector]:
    """d_0 = 0, d_1, …, d_P from s_p = S_p − w_g and the d° that each block started from."""
    d = [np.zeros_like(moved[0])]
    for s, start, derivative in zip(moved, began, M, strict=True):
        d.append(s + derivative @ (d[-1] - start))
    return d


@dataclass(frozen=True)
class CurvatureRound:
    """What `curvature_round` returns: the blocks as they were run last, the merged state, and the merged vectors (w, b)
    after the first chain and after each sweep, whose differences are the errors measured."""

    blocks: list[Block]
    end: State
    merged: list[Vector]


def curvature_round(
    learner: Learner, start: State, rows: Sequence[Order], H: Matrix, *, sweeps: int = 0
) -> CurvatureRound:
    """A round from `start` of one block for each of `rows`, with up to P − 1 sweeps of refinement.

    a is the mean over all blocks but the first, whose derivative is not needed.
    """
    states = [start]
    for part in rows[:-1]:
        states.append(passed_over(learner, states[-1], part))
    numbers = [steps_of(learner, state.t, len(part)) for state, part in zip(states, rows, strict=True)]
    a = float(np.mean([steps for steps, _ in numbers[1:]])) if len(rows) > 1 else 0.0
    M = [mean_derivative(H, a, keep, learner.kappa) for _, keep in numbers]

    w = start.vector
    began = [np.zeros_like(w) for _ in rows]
    blocks = [run_block(learner, state, part) for state, part in zip(states, rows, strict=True)]
    d = chain([block.end.vector - w for block in blocks], began, M)
    merged = [w + d[-1]]
    for _ in range(min(sweeps, len(rows) - 1)):
        began = d[:-1]
        again = [moved_state(learner, state, w + begin) for state, begin in zip(states, began, strict=True)]
        blocks[1:] = [run_block(learner, state, part) for state, part in zip(again[1:], rows[1:], strict=True)]
        d = chain([block.end.vector - w for block in blocks], began, M)
        merged.append(w + d[-1])
    return CurvatureRound(blocks, moved_state(learner, blocks[-1].end, merged[-1]), merged)
