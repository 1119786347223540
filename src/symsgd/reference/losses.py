"""The losses ℓ(p, y) of a prediction p, with g = ∂ℓ/∂p and h = ∂²ℓ/∂p²: one function each, for arrays p and y.

Losses made of straight pieces have h = 0 almost everywhere, and yet their g changes: `soft_curvature` is by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from symsgd.reference.arrays import Vector

if TYPE_CHECKING:
    from symsgd.losses import Loss

LARGEST_GRADIENT = 1e12
PIECEWISE_LINEAR = frozenset({"hinge", "perceptron", "epsilon_insensitive", "one_class"})


def _log_loss(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = log(1 + e^{−z}), g = −y σ(−z), h = σ(z) σ(−z), z = y p."""
    z = y * p
    small = np.exp(-np.abs(z))  # never overflows
    sigma_of_minus_z = np.where(z >= 0, small, 1.0) / (1.0 + small)
    return np.maximum(-z, 0.0) + np.log1p(small), -y * sigma_of_minus_z, small / (1.0 + small) ** 2


def _hinge(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = max(0, 1 − z), z = y p."""
    z = y * p
    return np.maximum(0.0, 1.0 - z), np.where(z <= 1.0, -y, 0.0), np.zeros_like(z)


def _perceptron(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = max(0, −z), z = y p. Active at z = 0, else it would never leave w = 0."""
    z = y * p
    return np.maximum(0.0, -z), np.where(z <= 0.0, -y, 0.0), np.zeros_like(z)


def _squared_hinge(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = m², m = max(0, 1 − y p)."""
    m = np.maximum(0.0, 1.0 - y * p)
    return m**2, -2.0 * y * m, np.where(m > 0.0, 2.0, 0.0)


def _modified_huber(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """The squared hinge for z ≥ −1 and its tangent −4 z below, z = y p."""
    z = y * p
    value, gradient, curvature = _squared_hinge(loss, p, y)
    far = z < -1.0
    return np.where(far, -4.0 * z, value), np.where(far, -4.0 * y, gradient), np.where(far, 0.0, curvature)


def _squared_error(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = ½ r², r = p − y."""
    r = p - y
    return 0.5 * r**2, r, np.ones_like(r)


def _huber(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = ½ r² for |r| ≤ ε, ε |r| − ½ ε² beyond, r = p − y."""
    r, epsilon = p - y, loss.epsilon
    near = np.abs(r) <= epsilon
    value = np.where(near, 0.5 * r**2, epsilon * np.abs(r) - 0.5 * epsilon**2)
    return value, np.clip(r, -epsilon, epsilon), np.where(near, 1.0, 0.0)


def _epsilon_insensitive(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = max(0, |r| − ε), r = p − y."""
    r = p - y
    excess = np.maximum(0.0, np.abs(r) - loss.epsilon)
    return excess, np.where(excess > 0.0, np.sign(r), 0.0), np.zeros_like(r)


def _squared_epsilon_insensitive(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = e², e = max(0, |r| − ε), r = p − y."""
    r = p - y
    excess = np.maximum(0.0, np.abs(r) - loss.epsilon)
    return excess**2, 2.0 * np.sign(r) * excess, np.where(excess > 0.0, 2.0, 0.0)


def _one_class(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """The hinge with y = 1, whatever y says."""
    return _hinge(loss, p, np.ones_like(y))


LOSSES: dict[str, Callable[[Any, Vector, Vector], tuple[Vector, Vector, Vector]]] = {
    "log_loss": _log_loss,
    "hinge": _hinge,
    "perceptron": _perceptron,
    "squared_hinge": _squared_hinge,
    "modified_huber": _modified_huber,
    "squared_error": _squared_error,
    "huber": _huber,
    "epsilon_insensitive": _epsilon_insensitive,
    "squared_epsilon_insensitive": _squared_epsilon_insensitive,
    "one_class": _one_class,
}


def evaluate(loss: Loss, p: ArrayLike, y: ArrayLike) -> tuple[Vector, Vector, Vector]:
    """(ℓ, g, h), elementwise."""
    return LOSSES[loss.name](loss, np.asarray(p, dtype=np.float64), np.asarray(y, dtype=np.float64))


def value(loss: Loss, p: ArrayLike, y: ArrayLike) -> Vector:
    """ℓ(p, y), elementwise."""
    return evaluate(loss, p, y)[0]


def gradient(loss: Loss, p: ArrayLike, y: ArrayLike) -> Vector:
    """g = ∂ℓ/∂p, elementwise; at a kink the side on which scikit-learn steps."""
    return evaluate(loss, p, y)[1]


def curvature(loss: Loss, p: ArrayLike, y: ArrayLike) -> Vector:
    """h = ∂²ℓ/∂p², elementwise; 0 for losses that are piecewise linear."""
    return evaluate(loss, p, y)[2]


def soft_curvature(loss: Loss, p: ArrayLike, y: ArrayLike, delta: float) -> Vector:
    """h_δ(p) = (g(p + δ) − g(p − δ)) / 2δ, the secant of g over [p − δ, p + δ]; 0 for δ = 0."""
    p = np.asarray(p, dtype=np.float64)
    if delta == 0.0:
        return np.zeros_like(p)
    return np.asarray((gradient(loss, p + delta, y) - gradient(loss, p - delta, y)) / (2.0 * delta))


def decision(X: ArrayLike, coef: ArrayLike, intercept: float) -> Vector:
    """p = X w + b."""
    return np.asarray(X, dtype=np.float64) @ np.asarray(coef, dtype=np.float64) + intercept
