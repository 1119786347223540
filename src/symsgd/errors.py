"""The exceptions a training can end with. Each carries what was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symsgd.training import Result


class DivergenceError(ValueError):
    """The weights left the range of floating-point numbers. ``result`` holds the last finite model."""

    def __init__(self, n_pass: int, result: Result) -> None:
        super().__init__(
            f"Floating-point under-/overflow occurred at epoch #{n_pass}. Scaling input data with StandardScaler or "
            "MinMaxScaler might help, and so does a smaller step size (eta0, or that of the schedule) or a stronger "
            "penalty (alpha)."
        )
        self.n_pass = n_pass
        self.result = result


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during a training. ``result`` holds the model as it was then."""

    def __init__(self, result: Result) -> None:
        super().__init__(f"interrupted in pass {len(result.passes) + 1}")
        self.result = result
