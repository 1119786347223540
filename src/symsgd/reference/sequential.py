"""Sequential SGD: a pass is one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from symsgd.reference.arrays import Order, Touched, Vector
from symsgd.reference.block import Average, Learner, State, make_learner, run_block, start_state

if TYPE_CHECKING:
    from symsgd.losses import Loss
    from symsgd.penalties import Penalty
    from symsgd.schedules import Schedule


@dataclass(frozen=True)
class SequentialRun:
    """What a training returns. Without averaging, or before it began, the averages are those given at the start."""

    coef: Vector
    intercept: float
    average_coef: Vector
    average_intercept: float
    t: float  # number of the next step
    losses: Vector  # per pass, mean over its rows
    objectives: Vector  # per pass, mean over its rows


def sequential(
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: Loss,
    penalty: Penalty,
    schedule: Schedule,
    orders: Sequence[Order],
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
    """SGD over X (n × f) and y, one pass per order in `orders`, in the steps of this package's head; no stopping rule.

    y is ±1 for margin losses and not read by the one-class loss. `class_weight` is (weight of y ≤ 0, weight of y > 0).
    Rows where `mask` is true are passed over, as if not in the order. `coef`, `intercept`, `t` and the averages
    continue an earlier run; what the L1 penalty remembers starts afresh in each call, as in scikit-learn.

    From step t = `average` on (0: never), the averages are the means of w and b over the steps since:
    w̄ ← w̄ + (w − w̄) / (t − average + 1).

    Losses and objectives are means over the rows of a pass, each row taken just before its step and, as in
    scikit-learn, without its weight c. The objective is ℓ + the penalty's cost (+ ν b for one-class); with a
    passive-aggressive schedule it is ℓ alone. PA-I passes over rows of zeros, t included, but counts their loss.
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
    state, mean = start_state(learner, coef, intercept, t), start_average(learner, average_coef, average_intercept)
    losses, objectives = [], []
    for rows in without_masked(orders, mask):
        block = run_block(learner, state, rows)
        mean = mean.after(learner, state, block.end, block.iterates)
        state = block.end
        losses.append(block.loss / len(rows))
        objectives.append(block.objective / len(rows))
    return finished_run(learner, state, mean, losses, objectives)


def start_average(learner: Learner, coef: ArrayLike | None, intercept: float) -> Average:
    """The averages that a run goes on from."""
    w = np.zeros(learner.n_features) if coef is None else np.asarray(coef, dtype=np.float64)
    return Average(np.append(w, intercept))


def without_masked(orders: Sequence[Order], mask: ArrayLike | None) -> list[Order]:
    """The orders without the rows where `mask` is true."""
    if mask is None:
        return [np.asarray(order, dtype=np.intp) for order in orders]
    skipped = np.asarray(mask, dtype=np.bool_)
    return [np.asarray([i for i in order if not skipped[i]], dtype=np.intp) for order in orders]


def finished_run(
    learner: Learner, state: State, mean: Average, losses: Sequence[float], objectives: Sequence[float]
) -> SequentialRun:
    """The result of a run that ended in `state`."""
    w = learner.rule.coef(state.weights.parts)
    w_mean, b_mean = mean.mean[:-1], float(mean.mean[-1])
    return SequentialRun(w, state.intercept, w_mean, b_mean, state.t, np.array(losses), np.array(objectives))
