"""The sum of the step sizes of a block, and what L2 leaves of a weight in it, without going through its steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from symsgd.gpu.build import optimal_start
from symsgd.problem import Rule

Array = npt.NDArray[np.float64]

FEW = 4096  # steps that are added up one by one
LEAST_KEPT = 1e-9  # of a weight in one step; beyond, max(0, 1 − step × l2) is as good as 0
PIECES = 64  # of a longer stretch of steps, each an integral by five points


@dataclass(frozen=True)
class Steps:
    """The schedule and the L2 of a rule (the core's words: :meth:`symsgd.problem.Rule.native`)."""

    schedule: str
    first: float
    power: float
    alpha: float
    begins: float
    n_steps: float
    t0: float
    l2: float

    @staticmethod
    def of(rule: Rule) -> Steps:
        native = rule.native()
        return Steps(
            schedule=native["schedule"],
            first=native["step_size"],
            power=native["power"],
            alpha=native["schedule_alpha"],
            begins=native["schedule_first"],
            n_steps=native["schedule_steps"],
            t0=optimal_start(rule) if native["schedule"] == "optimal" else 0.0,
            l2=native["l2"],
        )

    def size(self, t: npt.ArrayLike) -> Array:
        """Of step t = 1, 2, …"""
        t = np.asarray(t, np.float64)
        match self.schedule:
            case "optimal":
                return np.asarray(1.0 / (self.alpha * (self.t0 + t - 1.0)))
            case "linear":
                return np.asarray(self.first * np.maximum(0.0, 1.0 - (t - self.begins) / self.n_steps))
            case "invscaling":
                return np.asarray(self.first / t**self.power)
            case _:
                return np.full_like(t, self.first)

    def sums(self, t: float, count: int) -> tuple[float, float]:
        """Σ step sizes and Σ log keep of the steps t, t + 1, … t + count − 1."""
        if self.schedule == "constant" or count <= FEW:
            at = t + np.arange(min(count, FEW) if self.schedule != "constant" else min(count, 1))
            times = float(count) if self.schedule == "constant" else 1.0
            sizes = self.size(at)
            return times * float(sizes.sum()), times * float(self._log_kept(sizes).sum())
        # Σ f(t) is ∫ f from half a step before the first to half a step after the last; pieces grow with t
        edges = np.geomspace(t - 0.5, t + count - 0.5, PIECES + 1)
        points, weights = np.polynomial.legendre.leggauss(5)
        half = np.diff(edges) / 2
        at = (edges[:-1] + half)[:, None] + half[:, None] * points
        share = half[:, None] * weights
        sizes = self.size(at)
        return float((share * sizes).sum()), float((share * self._log_kept(sizes)).sum())

    def _log_kept(self, sizes: Array) -> Array:
        return np.asarray(np.log(np.maximum(1.0 - sizes * self.l2, LEAST_KEPT)))
