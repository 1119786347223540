"""The penalties: choices with names. α is the strength; the objective is mean loss + α × the formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from symsgd._choices import Choice, check_number, resolve_choice


@dataclass(frozen=True)
class Penalty(Choice):
    """Base of all penalties."""


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """Nothing is added to the loss."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True)
class L2(Penalty):
    """½ ‖w‖²: every step first scales the weights by max(0, 1 − step × alpha)."""

    alpha: float = 1e-4
    name: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, at_least=0.0)


@dataclass(frozen=True)
class L1(Penalty):
    """‖w‖₁ by cumulative truncation (Tsuruoka et al. 2009), as scikit-learn does it."""

    alpha: float = 1e-4
    name: ClassVar[str] = "l1"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, at_least=0.0)


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """(1 − l1_ratio) ½ ‖w‖² + l1_ratio ‖w‖₁."""

    alpha: float = 1e-4
    l1_ratio: float = 0.15
    name: ClassVar[str] = "elasticnet"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, at_least=0.0)
        check_number("l1_ratio", self.l1_ratio, at_least=0.0, at_most=1.0)


@dataclass(frozen=True)
class Lasso(Penalty):
    """The paper's Lasso: w = w₊ − w₋ with both halves ≥ 0, each step max(0, w_s − step (alpha + s g x)).

    Unlike :class:`L1` it shrinks every weight at every step, whether the row has the feature or not
    (lazily: a weight catches up when it is next seen, and at the end of the pass).
    """

    alpha: float = 1e-4
    name: ClassVar[str] = "lasso"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, at_least=0.0)


PENALTIES: dict[str, type[Penalty]] = {penalty.name: penalty for penalty in (NoPenalty, L2, L1, ElasticNet, Lasso)}


def resolve(penalty: str | Penalty | None) -> Penalty:
    """The penalty of that name with its default strength, or the penalty itself; None is no penalty."""
    return NoPenalty() if penalty is None else resolve_choice("penalty", penalty, PENALTIES, Penalty)
