"""The exceptions with something to carry: the model that was reached, or the file and the place that was refused."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symsgd.training import Result


class DataError(ValueError):
    """A file that does not hold what it should. ``path``, ``line`` and ``column`` say where.

    The column is counted from 1, in bytes; in a table it is the name of a column. Lines and columns are None where a
    file has none, or is damaged as a whole.
    """

    def __init__(self, path: str, line: int | None, column: int | str | None, reason: str) -> None:
        super().__init__(path, line, column, reason)
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        place = "" if self.line is None else f", line {self.line}"
        place += "" if self.column is None else f", column {self.column!r}"
        return f"{self.path}{place}: {self.reason}"


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


class StoreError(ValueError):
    """A file that is not a store, or is one that cannot be used: ``path`` and ``reason`` say which and why."""

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(fspath(path), reason)
        self.path = fspath(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class CheckpointError(ValueError):
    """A file is no checkpoint of this training: the message says why. ``path`` is the file."""

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(f"{fspath(path)} {reason}")
        self.path = fspath(path)


class ModelError(ValueError):
    """A file is not a model that can be loaded: the message says why. ``path`` is the file."""

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(f"{fspath(path)} {reason}")
        self.path = fspath(path)
