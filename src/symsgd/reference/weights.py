"""The weights and what their penalty does to them in a step, and to a small change of them.

A rule keeps the weights as `parts`, an array (parts × f) of every number about a feature that later steps depend on:
w alone, (w, q) under L1, the halves (w₊, w₋) under the paper's Lasso. Its `step` also returns the *shape* of the step,
with which `tangent` maps changes of the parts before the step, directions (parts × f × k), to changes after it, given
`push` = (∂u/∂p) dp, the change of u in every direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from symsgd.reference.arrays import Mask, Matrix, Touched, Vector


class Weights(NamedTuple):
    """The parts; what L1 is owed so far; ‖w‖² and ‖w‖₁ as they were when a row was last added."""

    parts: Matrix
    owed: float
    squared: float
    absolute: float


class Shape(NamedTuple):
    """What a step did to each feature on its own: how much of w it kept; which weights L1 left standing, and which it
    cut to zero, of those it touched; or what it took off the halves of the Lasso, and which stayed above zero."""

    kept: float = 1.0
    standing: Mask | None = None
    cut: Mask | None = None
    shrink: float = 0.0


class Rule(Protocol):
    """A penalty as the steps see it."""

    n_parts: ClassVar[int]

    def start(self, coef: Vector, owed: float = 0.0) -> Weights: ...
    def coef(self, parts: Matrix) -> Matrix: ...
    def cost(self, weights: Weights) -> float: ...
    def owes(self, eta: float) -> float: ...
    def step(self, weights: Weights, x: Vector, u: float, eta: float) -> tuple[Weights, Shape]: ...
    def tangent(self, directions: Matrix, x: Vector, push: Vector, shape: Shape) -> Matrix: ...


@dataclass(frozen=True)
class Decay:
    """No penalty (α = 0) or ½ α ‖w‖²: w ← kept w + u x, kept = max(0, 1 − η α)."""

    alpha: float
    n_parts: ClassVar[int] = 1

    def start(self, coef: Vector, owed: float = 0.0) -> Weights:
        return Weights(coef[None].copy(), owed, float(coef @ coef), float(np.abs(coef).sum()))

    def coef(self, parts: Matrix) -> Matrix:
        """w of the parts, or the change of w of a change of the parts."""
        return np.asarray(parts[0])

    def cost(self, weights: Weights) -> float:
        """The penalty's term of the objective."""
        return self.alpha * 0.5 * weights.squared

    def owes(self, eta: float) -> float:
        return 0.0

    def step(self, weights: Weights, x: Vector, u: float, eta: float) -> tuple[Weights, Shape]:
        kept = max(0.0, 1.0 - eta * self.alpha)
        w = kept * weights.parts[0] + u * x
        return Weights(w[None], weights.owed, *_norms(weights, w, u, kept)), Shape(kept)

    def tangent(self, directions: Matrix, x: Vector, push: Vector, shape: Shape) -> Matrix:
        """dw′ = kept dw + x du."""
        return shape.kept * directions + np.outer(x, push)[None]


@dataclass(frozen=True)
class Truncation:
    """α ((1 − r) ½ ‖w‖² + r ‖w‖₁): the decay by (1 − r) α, then cumulative truncation (Tsuruoka et al. 2009).

    `owed` is what every weight should have been pulled towards zero by so far, q_i the sum of what truncation has
    changed in weight i. A weight that the row touches pays what is missing, but never across zero:

        w_i > 0:  w_i ← max(0, w_i − (owed + q_i))     w_i < 0:  w_i ← min(0, w_i + (owed − q_i))     q_i += change

    so that a weight left standing has paid in full, q_i = ∓owed, and a weight cut has paid all it had. Hence

        left standing:  dw′ = dw − dq, dq′ = 0             cut, or zero before:  dw′ = 0, dq′ = dq − dw

    `touched` says which weights a row touches: "nonzero", those of its nonzero features (scikit-learn on sparse
    rows), or "all" (scikit-learn on dense rows).
    """

    alpha: float
    l1_ratio: float
    touched: Touched
    n_parts: ClassVar[int] = 2

    def start(self, coef: Vector, owed: float = 0.0) -> Weights:
        parts = np.stack([coef, np.zeros_like(coef)])
        return Weights(parts, owed, float(coef @ coef), float(np.abs(coef).sum()))

    def coef(self, parts: Matrix) -> Matrix:
        return np.asarray(parts[0])

    def cost(self, weights: Weights) -> float:
        """The penalty's term of the objective, of w before its last truncation."""
        return self.alpha * ((1.0 - self.l1_ratio) * 0.5 * weights.squared + self.l1_ratio * weights.absolute)

    def owes(self, eta: float) -> float:
        return self.l1_ratio * eta * self.alpha

    def step(self, weights: Weights, x: Vector, u: float, eta: float) -> tuple[Weights, Shape]:
        kept = max(0.0, 1.0 - (1.0 - self.l1_ratio) * eta * self.alpha)
        w, q, owed = kept * weights.parts[0] + u * x, weights.parts[1], weights.owed + self.owes(eta)
        norms = _norms(weights, w, u, kept)
        touched = (x != 0.0) | (self.touched == "all")
        down, up = touched & (w > 0.0), touched & (w < 0.0)
        paid = np.where(down, np.maximum(0.0, w - (owed + q)), np.where(up, np.minimum(0.0, w + (owed - q)), w))
        shape = Shape(kept, touched & (paid != 0.0), touched & (paid == 0.0))
        return Weights(np.stack([paid, q + (paid - w)]), owed, *norms), shape

    def tangent(self, directions: Matrix, x: Vector, push: Vector, shape: Shape) -> Matrix:
        assert shape.standing is not None
        assert shape.cut is not None
        standing, cut = shape.standing[:, None], shape.cut[:, None]
        dw, dq = shape.kept * directions[0] + np.outer(x, push), directions[1]
        return np.stack(
            [
                np.where(standing, dw - dq, np.where(cut, 0.0, dw)),
                np.where(standing, 0.0, np.where(cut, dq - dw, dq)),
            ]
        )


@dataclass(frozen=True)
class Halves:
    """The paper's Lasso, α ‖w‖₁ on two non-negative halves, w = w₊ − w₋. At every step, for every feature i and s = ±1,

        w_s,i ← max(0, w_s,i − η (α + s c g x_i)) = max(0, w_s,i − η α + s u x_i)

    (errata.md: the paper's signs and brackets are corrected here.) Both halves can be positive at once. A half cut
    to zero forgets its past: dw_s,i′ = δ[w_s,i′ > 0] (dw_s,i + s x_i du), the masked row of the paper's table.
    """

    alpha: float
    n_parts: ClassVar[int] = 2

    def start(self, coef: Vector, owed: float = 0.0) -> Weights:
        return Weights(np.maximum(0.0, np.stack([coef, -coef])), owed, 0.0, 0.0)

    def coef(self, parts: Matrix) -> Matrix:
        return np.asarray(parts[0] - parts[1])

    def cost(self, weights: Weights) -> float:
        """The penalty's term of the objective."""
        return float(self.alpha * np.sum(weights.parts))

    def owes(self, eta: float) -> float:
        return 0.0

    def step(self, weights: Weights, x: Vector, u: float, eta: float) -> tuple[Weights, Shape]:
        parts = np.maximum(0.0, weights.parts - eta * self.alpha + u * np.stack([x, -x]))
        return weights._replace(parts=parts), Shape(standing=parts > 0.0, shrink=eta * self.alpha)

    def tangent(self, directions: Matrix, x: Vector, push: Vector, shape: Shape) -> Matrix:
        assert shape.standing is not None
        pushed = np.outer(x, push)
        return np.where(shape.standing[:, :, None], directions + np.stack([pushed, -pushed]), 0.0)


def rule_of(penalty: Any, touched: Touched) -> Rule:
    """The rule of a penalty."""
    if penalty.name == "lasso":
        return Halves(penalty.alpha)
    if penalty.name in ("none", "l2"):
        return Decay(getattr(penalty, "alpha", 0.0))
    l1_ratio = {"l1": 1.0, "elasticnet": getattr(penalty, "l1_ratio", 0.0)}[penalty.name]
    return Truncation(penalty.alpha, l1_ratio, touched) if l1_ratio > 0.0 else Decay(penalty.alpha)


def _norms(before: Weights, w: Vector, u: float, kept: float) -> tuple[float, float]:
    """‖w‖² and ‖w‖₁ of w after a row was added; a step of u = 0 scales what they were, as in scikit-learn."""
    if u == 0.0:
        return kept**2 * before.squared, kept * before.absolute
    return float(w @ w), float(np.abs(w).sum())
