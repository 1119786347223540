"""The step sizes of a pass on the machine, all at once, and how much of the weights L2 leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symsgd.gpu.machine import Array, Machine
from symsgd.steps import StepSizes


@dataclass
class PassSteps:
    """``most_curvature`` is the most that the loss has."""

    machine: Machine
    dtype: np.dtype[Any]
    sizes: StepSizes
    most_curvature: float
    _kept: dict[Any, tuple[Array, Array]] = field(default_factory=dict)
    _largest: float = 0.0  # of constant step sizes

    def of(self, own: np.ndarray[Any, Any], t: float, count: int) -> tuple[Array, Array]:
        """Step sizes, and the logarithms of decays before each step and after the last. One line for all models, or one
        a model where their own sizes differ. Where they do not change, they are made once."""
        xp = self.machine.xp
        if self.sizes.constant:
            lines = own[:1] if (own == own[0]).all() else own
            key = (lines.tobytes(), count)
            self._largest = float(lines.max())
            if key not in self._kept:
                self._kept.clear()
                sizes = xp.repeat(self.machine.asarray(lines)[:, None], count, axis=1)
                self._kept[key] = sizes.astype(self.dtype), self._decays(sizes)
            return self._kept[key]
        sizes = self.sizes.size(t + xp.arange(count, dtype=np.float64), xp)[None, :]
        return sizes.astype(self.dtype), self._decays(sizes)

    def fallen(self, decay: Array, first: int) -> float:
        """By how much the logarithm of weights falls from step ``first`` on, at most."""
        if self.sizes.l2 == 0.0:
            return 0.0
        if self.sizes.constant:  # without asking the machine
            steps = decay.shape[1] - 1 - first
            return float(-steps * self.sizes.log_kept(self._largest))
        return float((decay[:, first] - decay[:, -1]).max())

    def _decays(self, sizes: Array) -> Array:
        xp = self.machine.xp
        decay = xp.zeros((len(sizes), sizes.shape[1] + 1))
        if self.sizes.l2 > 0.0:
            decay[:, 1:] = xp.cumsum(self.sizes.log_kept(sizes, xp), axis=1)
        return decay
