"""The curvature combiner: every block of a round is taken to have the derivative of any other, that of the mean row.

A step's derivative is (1 − η λ) I − η c h x̃ x̃ᵀ. Over a block of rows that are drawn alike, their product is near

    M = keep exp(−a H),   H = E[c h x̃ x̃ᵀ],   a = Σ η,   keep = e^{−a λ}

x̃ = (x, √κ) and the intercept counted as b / √κ, so that H is symmetric. A round begins at w_g. With K_p w_g for w_g
with its weights decayed by the penalty of the blocks before, K_p = Π_{q<p} keep_q, block p starts from about K_p w_g
(the decay it expects, e^{−aλ} for each block), ends at S_p, and is chained:

    d_p = s_p + M d_{p−1},   d_0 = 0,   s_p = S_p − what the penalty alone would have made of the block's start

Then a sweep of refinement runs each block again, from where the chain says that its predecessor ended, K_p w_g +
d°_{p−1}, and chains them again:

    d_p = s_p + M (d_{p−1} − d°_{p−1}),   s_p = S_p − K_{p+1} w_g

The merged model is K_P w_g + d_P. Block p is right once its predecessor is, and the first is right from the outset:
P − 1 sweeps are sequential SGD.
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


def steps_of(learner: Learner, t: float, count: int) -> float:
    """a of `count` steps from number t on, by Simpson's rule: a sum where step sizes do not change."""
    first, middle, last = (
        step_size(learner.schedule, learner.loss, t + share * (count - 1)) for share in (0.0, 0.5, 1.0)
    )
    return count * (first + 4.0 * middle + last) / 6.0


def kept(learner: Learner, t: float, count: int) -> float:
    """What the penalty of `count` steps from number t on leaves of a weight."""
    assert isinstance(learner.rule, Decay)
    sizes = [step_size(learner.schedule, learner.loss, t + k) for k in range(count)]
    return float(np.prod([max(0.0, 1.0 - size * learner.rule.alpha) for size in sizes]))


def chain(moved: Sequence[Vector], began: Sequence[Vector], M: Sequence[Matrix]) -> list[Vector]:
    """d_0 = 0, d_1, …, d_P from s_p and the d° that each block started from."""
    d = [np.zeros_like(moved[0])]
    for s, start, derivative in zip(moved, began, M, strict=True):
        d.append(s + derivative @ (d[-1] - start))
    return d


def decayed(w: Vector, decay: float) -> Vector:
    """(w, b) with its weights decayed."""
    return np.append(w[:-1] * decay, w[-1])


def stale_loss(
    H: Matrix, a: float, rows: float, moved: Sequence[Vector], missed: Sequence[Vector], kappa: float
) -> float:
    """What the losses of blocks of so many rows would sum up to more, had each of them seen what it has `missed`.

    In a direction of curvature λ a block has moved by s and missed d. The mean gradient of its rows and d fade alike,
    to e^{−ζ} of what they were, ζ = a λ. So the gradient was G = −s ζ / (a (1 − e^{−ζ})) at its start. There the loss
    of a row changes by G d + λ d² / 2, at its end by e^{−2ζ} of that.
    """
    values, Q = np.linalg.eigh(H)
    unit = np.append(np.ones(len(H) - 1), np.sqrt(kappa) if kappa else 1.0)
    left = np.exp(-a * values)
    total = 0.0
    for s, d in zip(moved, missed, strict=True):
        own, unseen = Q.T @ (s / unit), Q.T @ (d / unit)
        total -= float(np.sum(0.5 * (1.0 + left) * own * unseen - 0.25 * (1.0 - left**2) * unseen**2))
    return total * rows / a if a > 0.0 else 0.0


@dataclass(frozen=True)
class CurvatureRound:
    """What `curvature_round` returns: the blocks as they were run last, the merged state, the merged vectors (w, b)
    after the first chain and after each sweep, whose differences are the errors measured, and the `stale_loss` of
    rounds without sweeps."""

    blocks: list[Block]
    end: State
    merged: list[Vector]
    stale: float


def curvature_round(
    learner: Learner, start: State, rows: Sequence[Order], H: Matrix, *, sweeps: int = 0
) -> CurvatureRound:
    """A round from `start` of one block for each of `rows`, with up to P − 1 sweeps of refinement.

    a is the mean over all blocks but the first, whose derivative is not needed.
    """
    states = [start]
    for part in rows[:-1]:
        states.append(passed_over(learner, states[-1], part))
    assert isinstance(learner.rule, Decay)
    steps = [steps_of(learner, state.t, len(part)) for state, part in zip(states, rows, strict=True)]
    keep = [kept(learner, state.t, len(part)) for state, part in zip(states, rows, strict=True)]
    planned = np.cumprod([1.0, *np.exp(-learner.rule.alpha * np.array(steps))])
    K = np.cumprod([1.0, *keep])
    a = float(np.mean(steps[1:])) if len(rows) > 1 else 0.0
    M = [mean_derivative(H, a, left, learner.kappa) for left in keep]

    w = start.vector
    starts = [moved_state(learner, state, decayed(w, d)) for state, d in zip(states, planned[:-1], strict=True)]
    blocks = [run_block(learner, state, part) for state, part in zip(starts, rows, strict=True)]
    rested = [decayed(w, expected * left) for expected, left in zip(planned[:-1], keep, strict=True)]
    began = [np.zeros_like(w) for _ in rows]
    moved = [block.end.vector - rest for block, rest in zip(blocks, rested, strict=True)]
    d = chain(moved, began, M)
    merged = [decayed(w, K[-1]) + d[-1]]
    later = float(np.mean([len(part) for part in rows[1:]])) if len(rows) > 1 else 0.0
    stale = stale_loss(H, a, later, moved, d[:-1], learner.kappa) if sweeps == 0 else 0.0
    for _ in range(min(sweeps, len(rows) - 1)):
        began = d[:-1]
        again = [
            moved_state(learner, state, decayed(w, decay) + begin)
            for state, decay, begin in zip(states, K[:-1], began, strict=True)
        ]
        blocks[1:] = [run_block(learner, state, part) for state, part in zip(again[1:], rows[1:], strict=True)]
        d = chain([block.end.vector - decayed(w, decay) for block, decay in zip(blocks, K[1:], strict=True)], began, M)
        merged.append(decayed(w, K[-1]) + d[-1])
    return CurvatureRound(blocks, moved_state(learner, blocks[-1].end, merged[-1]), merged, stale)
