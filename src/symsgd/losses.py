"""The losses: choices with names. Each is a function of the prediction p = x·w + b and the target y.

A loss is one line here (its parameters), one small header in the native core (value, g = ∂ℓ/∂p and
h = ∂²ℓ/∂p²) and one function in :mod:`symsgd.reference`. Everything else follows from those three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from symsgd._choices import Choice, check_number, resolve_choice


@dataclass(frozen=True)
class Loss(Choice):
    """Base of all losses. ``margin`` losses read y as ±1, the others as a number to be predicted; ``most_curvature`` is
    the most that ∂²ℓ/∂p² is, and 1 where the loss has none but jumps."""

    margin: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 1.0


@dataclass(frozen=True)
class LogLoss(Loss):
    """Logistic regression: log(1 + exp(−y p))."""

    name: ClassVar[str] = "log_loss"
    margin: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 0.25


@dataclass(frozen=True)
class Hinge(Loss):
    """Linear SVM: max(0, 1 − y p)."""

    name: ClassVar[str] = "hinge"
    margin: ClassVar[bool] = True
    smooth: ClassVar[bool] = False


@dataclass(frozen=True)
class Perceptron(Loss):
    """The perceptron: max(0, −y p)."""

    name: ClassVar[str] = "perceptron"
    margin: ClassVar[bool] = True
    smooth: ClassVar[bool] = False


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 − y p)²."""

    name: ClassVar[str] = "squared_hinge"
    margin: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 2.0


@dataclass(frozen=True)
class ModifiedHuber(Loss):
    """max(0, 1 − y p)² for y p ≥ −1, and −4 y p below."""

    name: ClassVar[str] = "modified_huber"
    margin: ClassVar[bool] = True
    most_curvature: ClassVar[float] = 2.0


@dataclass(frozen=True)
class SquaredError(Loss):
    """Least squares: ½ (p − y)²."""

    name: ClassVar[str] = "squared_error"


@dataclass(frozen=True)
class Huber(Loss):
    """½ r² for |r| ≤ ε and ε |r| − ½ ε² beyond, r = p − y."""

    epsilon: float = 0.1
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, at_least=0.0)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """Support vector regression: max(0, |p − y| − ε)."""

    epsilon: float = 0.1
    name: ClassVar[str] = "epsilon_insensitive"
    smooth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, at_least=0.0)


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """max(0, |p − y| − ε)²."""

    epsilon: float = 0.1
    name: ClassVar[str] = "squared_epsilon_insensitive"
    most_curvature: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, at_least=0.0)


@dataclass(frozen=True)
class OneClass(Loss):
    """One-class SVM: the hinge with every y = 1, whose intercept is pulled down by ν at every step."""

    nu: float = 0.5
    name: ClassVar[str] = "one_class"
    margin: ClassVar[bool] = True
    smooth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("nu", self.nu, above=0.0, at_most=1.0)


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (
        LogLoss,
        Hinge,
        Perceptron,
        SquaredHinge,
        ModifiedHuber,
        SquaredError,
        Huber,
        EpsilonInsensitive,
        SquaredEpsilonInsensitive,
        OneClass,
    )
}


def resolve(loss: str | Loss) -> Loss:
    """The loss of that name with its default parameters, or the loss itself."""
    return resolve_choice("loss", loss, LOSSES, Loss)
