"""The best value that an objective has: mean loss + (α/2)‖w‖², no intercept, in float64.

Newton's method, its linear systems by conjugate gradients, its steps halved until the objective falls enough. It ends
where the Newton decrement gᵀH⁻¹g/2, which is what the objective still has to fall to second order, is at most a given
share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import expit

Vector = NDArray[np.float64]

MOST_STEPS, MOST_INNER = 200, 2000
MOST_DIRECT = 4096  # features


@dataclass(frozen=True, eq=False)
class Objective:
    """Mean log loss of targets ±1, or half the mean squared error, and (alpha/2)‖w‖²."""

    X: Any
    y: Vector
    alpha: float
    loss: str = "log_loss"

    def value(self, w: Any) -> float:
        return self.of_predictions(w, self.predict(w))

    def of_predictions(self, w: Any, p: Vector) -> float:
        """The value where predictions are known, or have an intercept that is not penalised."""
        return self._value(np.asarray(w, np.float64), p)

    def predict(self, w: Any) -> Vector:
        return np.asarray(self.X @ np.asarray(w, np.float64))

    def _value(self, w: Vector, p: Vector) -> float:
        losses = np.logaddexp(0.0, -self.y * p) if self.loss == "log_loss" else 0.5 * (p - self.y) ** 2
        return float(losses.mean() + 0.5 * self.alpha * (w @ w))

    def slopes(self, p: Vector) -> tuple[Vector, Vector]:
        """First and second derivatives of the mean loss by the predictions."""
        if self.loss == "log_loss":
            wrong = expit(-self.y * p)
            return -self.y * wrong / len(p), wrong * (1 - wrong) / len(p)
        return (p - self.y) / len(p), np.full(len(p), 1 / len(p))


@dataclass(frozen=True, eq=False)
class Best:
    """The weights found, their objective, and the decrement that says how far from the least it may be."""

    w: Vector
    value: float
    decrement: float


def least(objective: Objective, share: float = 1e-8) -> Best:
    """The objective's least value to a ``share`` of it."""
    X, transposed = objective.X, objective.X.T
    if hasattr(X, "tocsr"):
        transposed = X.T.tocsr()
    factor = _factor(objective) if _is_direct(objective) else None
    w = np.zeros(X.shape[1])
    p = objective.predict(w)
    value, decrement = objective._value(w, p), np.inf
    for _ in range(MOST_STEPS):
        g, h = objective.slopes(p)
        gradient = transposed @ g + objective.alpha * w
        if factor is not None:
            step = np.asarray(scipy.linalg.cho_solve(factor, -gradient))
        else:
            step = _solve(X, transposed, h, objective.alpha, gradient)
        decrement = -0.5 * float(gradient @ step)
        if decrement <= share * value:
            break
        along, length = objective.predict(step), 1.0
        while True:
            new_w, new_p = w + length * step, p + length * along
            new_value = objective._value(new_w, new_p)
            if new_value <= value - 0.5e-4 * length * decrement or length < 1e-10:
                break
            length /= 2
        if new_value >= value:
            break  # float64 has no more
        w, p, value = new_w, new_p, new_value
    return Best(w, value, decrement)


def _is_direct(objective: Objective) -> bool:
    """Dense least squares of few features: the Hessian is one for all steps, and its factorisation is cheap."""
    X = objective.X
    return objective.loss == "squared_error" and isinstance(X, np.ndarray) and X.shape[1] <= min(MOST_DIRECT, len(X))


def _factor(objective: Objective) -> Any:
    X = objective.X
    hessian = X.T @ X / len(X)
    hessian[np.diag_indices(X.shape[1])] += objective.alpha
    return scipy.linalg.cho_factor(hessian, overwrite_a=True)


def _solve(X: Any, transposed: Any, h: Vector, alpha: float, gradient: Vector) -> Vector:
    """−H⁻¹ gradient for H = Xᵀ diag(h) X + alpha, by conjugate gradients preconditioned by H's diagonal."""
    squares = transposed.multiply(transposed) @ h if hasattr(transposed, "multiply") else (transposed**2) @ h
    diagonal = np.asarray(squares).ravel() + alpha
    size = float(np.linalg.norm(gradient))
    wanted = min(0.1, np.sqrt(size)) * size
    s = np.zeros_like(gradient)
    r = -gradient
    z = r / diagonal
    d, rho = z.copy(), float(r @ z)
    for _ in range(MOST_INNER):
        q = transposed @ (h * (X @ d)) + alpha * d
        a = rho / float(d @ q)
        s += a * d
        r -= a * q
        if np.linalg.norm(r) <= wanted:
            break
        z = r / diagonal
        new_rho = float(r @ z)
        d = z + (new_rho / rho) * d
        rho = new_rho
    return s
