"""When to stop: no improvement by ``tol`` in ``patience`` passes in a row, per class, as scikit-learn counts them."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Patience:
    """Follows one number that should fall (an objective) or rise (a validation score)."""

    tol: float | None
    patience: int
    rising: bool = False
    best: float = math.inf
    without_improvement: int = 0

    def exhausted(self, value: float) -> bool:
        """Takes the value of a pass; True if it was one too many without improvement."""
        cost = -value if self.rising else value
        if self.tol is not None and cost > self.best - self.tol:
            self.without_improvement += 1
        else:
            self.without_improvement = 0
        self.best = min(self.best, cost)
        return self.without_improvement >= self.patience

    def restart(self) -> None:
        """Counts from zero again, against the best so far (after the adaptive schedule lowered its step)."""
        self.without_improvement = 0
