"""Step sizes of many steps at once, and what L2 leaves of a weight in them: the core's own, which goes step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from symsgd import _core
from symsgd.problem import Rule

LEAST_KEPT = 1e-9  # of a weight in one step: max(0, 1 − step × l2) is as good as 0 below it, and has a logarithm
FEW = 4096  # steps that are added up one by one
PIECES = 64  # of a longer stretch of steps, each an integral by five points


@dataclass(frozen=True)
class StepSizes:
    """The schedule and the L2 of a rule, in the core's words (:meth:`symsgd.problem.Rule.native`). ``first`` is the
    size that a schedule begins with; passive-aggressive ones, whose steps follow from the rows, have it as their bound.
    Functions take the module of their arrays, NumPy or CuPy."""

    schedule: str
    first: float
    power: float
    alpha: float
    begins: float
    n_steps: float
    t0: float
    l2: float

    @staticmethod
    def of(rule: Rule) -> StepSizes:
        native = rule.native()
        return StepSizes(
            schedule=native["schedule"],
            first=native["step_size"],
            power=native["power"],
            alpha=native["schedule_alpha"],
            begins=native["schedule_first"],
            n_steps=native["schedule_steps"],
            t0=_optimal_start(native) if native["schedule"] == "optimal" else 0.0,
            l2=native["l2"],
        )

    @property
    def constant(self) -> bool:
        """All are ``first``."""
        return self.schedule in ("constant", "pa1", "pa2")

    def size(self, t: Any, xp: Any = np) -> Any:
        """Of the steps t, counted from 1."""
        match self.schedule:
            case "optimal":
                return 1.0 / (self.alpha * (self.t0 + t - 1.0))
            case "linear":
                return self.first * xp.maximum(0.0, 1.0 - (t - self.begins) / self.n_steps)
            case "invscaling":
                return self.first / t**self.power
            case _:
                return xp.full_like(t, self.first)

    def log_kept(self, sizes: Any, xp: Any = np) -> Any:
        """The logarithm of what steps of these sizes leave of a weight."""
        return xp.log(xp.maximum(1.0 - sizes * self.l2, LEAST_KEPT))

    def sums(self, t: float, count: int) -> tuple[float, float]:
        """Σ step sizes and Σ log kept of the steps t, t + 1, … t + count − 1, without going through all of them."""
        if self.constant:
            return count * self.first, count * float(self.log_kept(self.first))
        if count <= FEW:
            sizes = self.size(t + np.arange(count))
            return float(sizes.sum()), float(self.log_kept(sizes).sum())
        # Σ f(t) is ∫ f from half a step before the first to half a step after the last; pieces grow with t
        edges = np.geomspace(t - 0.5, t + count - 0.5, PIECES + 1)
        points, weights = np.polynomial.legendre.leggauss(5)
        half = np.diff(edges) / 2
        at = (edges[:-1] + half)[:, None] + half[:, None] * points
        share = half[:, None] * weights
        sizes = self.size(at)
        return float((share * sizes).sum()), float((share * self.log_kept(sizes)).sum())


def _optimal_start(native: dict[str, Any]) -> float:
    """t₀ of the schedule "optimal": its first step is of the size of typical weights."""
    typical = float(np.sqrt(1.0 / np.sqrt(native["schedule_alpha"])))
    g = _core.evaluate_loss(native["loss"], native["loss_parameter"], -typical, 1.0, False)[1]
    return float(1.0 / (typical / max(1.0, g) * native["schedule_alpha"]))
