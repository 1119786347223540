"""The step sizes of a pass, all at once, and how much of the weights L2 leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symsgd.gpu.machine import Array, Machine

LEAST_DECAY = 1e-9  # of a weight in one step: what the CPU makes 0 is as good as that beside the step itself


@dataclass
class Steps:
    """A schedule in the core's words (:meth:`symsgd.problem.Rule.native`). ``first`` is the step size that it begins
    with, ``most_curvature`` the most that the loss has."""

    machine: Machine
    dtype: np.dtype[Any]
    schedule: str
    first: float
    power: float
    alpha: float
    begins: float
    n_steps: float
    t0: float
    l2: float
    most_curvature: float
    _kept: dict[Any, tuple[Array, Array]] = field(default_factory=dict)
    _largest: float = 0.0  # of constant step sizes

    def of(self, own: np.ndarray[Any, Any], t: float, count: int) -> tuple[Array, Array]:
        """Step sizes, and the logarithms of decays before each step and after the last. One line for all models, or one
        a model where their own sizes differ. Where they do not change, they are made once."""
        xp = self.machine.xp
        if self.schedule in ("constant", "pa1", "pa2"):
            lines = own[:1] if (own == own[0]).all() else own
            key = (lines.tobytes(), count)
            self._largest = float(lines.max())
            if key not in self._kept:
                self._kept.clear()
                sizes = xp.repeat(self.machine.asarray(lines)[:, None], count, axis=1)
                self._kept[key] = sizes.astype(self.dtype), self._decays(sizes)
            return self._kept[key]
        sizes = self._at(t + xp.arange(count, dtype=np.float64))[None, :]
        return sizes.astype(self.dtype), self._decays(sizes)

    def fallen(self, decay: Array, first: int) -> float:
        """By how much the logarithm of weights falls from step ``first`` on, at most."""
        if self.l2 == 0.0:
            return 0.0
        if self.schedule in ("constant", "pa1", "pa2"):  # without asking the machine
            steps = decay.shape[1] - 1 - first
            return float(-steps * math.log(max(1.0 - self._largest * self.l2, LEAST_DECAY)))
        return float((decay[:, first] - decay[:, -1]).max())

    def _decays(self, sizes: Array) -> Array:
        xp = self.machine.xp
        decay = xp.zeros((len(sizes), sizes.shape[1] + 1))
        if self.l2 > 0.0:
            decay[:, 1:] = xp.cumsum(xp.log(xp.maximum(1.0 - sizes * self.l2, LEAST_DECAY)), axis=1)
        return decay

    def _at(self, t: Array) -> Array:
        if self.schedule == "optimal":
            return 1.0 / (self.alpha * (self.t0 + t - 1.0))
        if self.schedule == "linear":
            return self.first * self.machine.xp.maximum(0.0, 1.0 - (t - self.begins) / self.n_steps)
        return self.first / t**self.power
