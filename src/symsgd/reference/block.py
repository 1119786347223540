"""One block of SGD, from a state to a state: the only loop over rows (but for AdaGrad's, see `adagrad`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from symsgd.reference.arrays import Matrix, Order, Touched, Vector
from symsgd.reference.losses import LARGEST_GRADIENT, evaluate
from symsgd.reference.steps import (
    passive_aggressive_step,
    slope_of_passive_aggressive_step,
    slope_of_step,
    step_size,
)
from symsgd.reference.weights import Rule, Shape, Weights, rule_of

if TYPE_CHECKING:
    from symsgd.losses import Loss
    from symsgd.penalties import Penalty
    from symsgd.schedules import Schedule


@dataclass(frozen=True)
class Learner:
    """What does not change from step to step: the rows, y, their weights c, and the choices."""

    X: Matrix
    y: Vector
    c: Vector
    loss: Loss
    rule: Rule
    schedule: Schedule
    kappa: float  # of the intercept's steps; 0 without an intercept, which then is a constant
    nu: float  # pull on the intercept, of one-class
    average: int
    touched: Touched

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_states(self) -> int:
        """How many numbers `State.vector` has: the parts of the weights, one after the other, then the intercept."""
        return self.rule.n_parts * self.n_features + 1

    @property
    def passive_aggressive(self) -> bool:
        return self.schedule.name in ("pa1", "pa2")

    def takes_step(self, row: int) -> bool:
        """PA-I passes over rows of zeros."""
        return self.schedule.name != "pa1" or bool(self.X[row].any())


def make_learner(
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: Loss,
    penalty: Penalty,
    schedule: Schedule,
    sample_weight: ArrayLike | None = None,
    class_weight: tuple[float, float] = (1.0, 1.0),
    fit_intercept: bool = True,
    intercept_decay: float = 1.0,
    average: int = 0,
    touched: Touched = "all",
) -> Learner:
    """The learner of these choices, whose meaning is that of `sequential`."""
    X = np.asarray(X, dtype=np.float64)
    y = np.ones(len(X)) if loss.name == "one_class" else np.asarray(y, dtype=np.float64)
    c = np.where(y > 0.0, class_weight[1], class_weight[0])
    c = c if sample_weight is None else c * np.asarray(sample_weight, dtype=np.float64)
    kappa, nu = (intercept_decay if fit_intercept else 0.0), float(getattr(loss, "nu", 0.0))
    return Learner(X, y, c, loss, rule_of(penalty, touched), schedule, kappa, nu, average, touched)


@dataclass(frozen=True)
class State:
    """The model between two steps: all that the next steps depend on. `t` is the number of the next one."""

    weights: Weights
    intercept: float
    t: float

    @property
    def vector(self) -> Vector:
        """The state as a vector: the parts of the weights, one after the other, then the intercept."""
        return np.append(self.weights.parts.ravel(), self.intercept)


def start_state(learner: Learner, coef: ArrayLike | None = None, intercept: float = 0.0, t: float = 1.0) -> State:
    """A model that no penalty has touched yet."""
    w = np.zeros(learner.n_features) if coef is None else np.asarray(coef, dtype=np.float64)
    return State(learner.rule.start(w), float(intercept), t)


def moved_state(learner: Learner, state: State, vector: Vector) -> State:
    """`state` with the numbers of `vector` in place of its own, and norms to match."""
    parts = vector[:-1].reshape(learner.rule.n_parts, learner.n_features).copy()
    norms = learner.rule.start(np.asarray(learner.rule.coef(parts)))
    weights = Weights(parts, state.weights.owed, norms.squared, norms.absolute)
    return State(weights, float(vector[-1]), state.t)


def passed_over(learner: Learner, state: State, rows: Sequence[int] | Order) -> State:
    """`state` as if the steps on `rows` had been counted but not taken: t and what L1 is owed move on alone."""
    t, owed = state.t, state.weights.owed
    for row in rows:
        if learner.takes_step(int(row)):
            owed += learner.rule.owes(step_size(learner.schedule, learner.loss, t))
            t += 1
    return State(state.weights._replace(owed=owed), state.intercept, t)


@dataclass(frozen=True)
class Step:
    """A step as its tangent sees it: the row, ∂u/∂p, the shape, and whether the averages count the iterate after it."""

    x: Vector
    slope: float
    shape: Shape
    counted: bool


@dataclass(frozen=True)
class Block:
    """What `run_block` returns: the state it ended in, and sums over its rows."""

    learner: Learner
    end: State
    iterates: Vector  # sum of (w, b) after each step that the averages count
    loss: float
    objective: float
    steps: tuple[Step, ...] | None  # if run with a trace


def run_block(
    learner: Learner,
    state: State,
    rows: Sequence[int] | Order,
    *,
    trace: bool = False,
    drift: float | None = None,
) -> Block:
    """SGD from `state` over `rows`, one after the other, in the steps of this package's head.

    With `trace` the block keeps its steps, so that it can be differentiated (see `tangents`): exactly if `drift` is
    None, else with soft curvature for the losses made of straight pieces (see `slope_of_step`).
    """
    loss, rule, schedule, kappa = learner.loss, learner.rule, learner.schedule, learner.kappa
    weights, b, t = state.weights, state.intercept, state.t
    iterates, steps = np.zeros(learner.n_features + 1), list[Step]()
    loss_sum = objective_sum = 0.0
    for i in rows:
        x, y, c = learner.X[i], float(learner.y[i]), float(learner.c[i])
        p = float(x @ rule.coef(weights.parts)) + b
        eta = step_size(schedule, loss, t)
        row_loss, g, h = (float(part) for part in evaluate(loss, p, y))
        loss_sum += row_loss
        objective_sum += row_loss if learner.passive_aggressive else row_loss + rule.cost(weights) + learner.nu * b

        if not learner.takes_step(int(i)):
            continue
        squared_norm = float(x @ x)
        if learner.passive_aggressive:
            u = passive_aggressive_step(schedule, loss, row_loss, g, squared_norm) * c
            slope = slope_of_passive_aggressive_step(schedule, loss, row_loss, g, c=c, squared_norm=squared_norm)
        else:
            u = -eta * min(max(g, -LARGEST_GRADIENT), LARGEST_GRADIENT) * c
            slope = slope_of_step(loss, y, p, h, eta=eta, c=c, length=squared_norm + kappa, drift=drift)

        weights, shape = rule.step(weights, x, u, eta)
        if kappa:
            b += kappa * (u - eta * learner.nu)
        counted = 0 < learner.average <= t
        if counted:
            iterates[:-1] += rule.coef(weights.parts)
            iterates[-1] += b
        if trace:
            steps.append(Step(x, slope, shape, counted))
        t += 1
    return Block(
        learner, State(weights, float(b), t), iterates, loss_sum, objective_sum, tuple(steps) if trace else None
    )


@dataclass(frozen=True)
class Average:
    """The mean of (w, b) over the steps from number `average` on; as given at the start until there is one."""

    mean: Vector

    def after(self, learner: Learner, before: State, after: State, iterates: Vector) -> Average:
        """The mean with the sum of the iterates between two states taken in."""
        old, new = max(0.0, before.t - learner.average), after.t - learner.average
        if learner.average == 0 or new <= old:
            return self
        return Average((old * self.mean + iterates) / new)
