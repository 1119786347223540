"""Callbacks: told of every pass, able to stop the training.

A callback is a function of one :class:`PassRecord` or a :class:`Callback`. If it returns True the training stops after
that pass, and the model is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from symsgd.training import Result


@dataclass(frozen=True)
class PassRecord:
    """What is known after a pass.

    ``loss`` is the mean training loss, each row's measured before its own step; for several classes the mean over the
    one-vs-rest problems still in training. ``objective`` adds the penalty, where a tolerance asks for it. ``merges`` is
    how often a block became part of the model, 0 for strategies that have no blocks.

    The rest is of the curvature combiner: the ``rank`` of its last estimate, ``sweeps`` of refinement, the mean
    ``error`` of the merges that were checked, or of what first sweeps changed (how far predictions were off, as a share
    of their spread; ``None`` if no merge was), rows that one thread trained (``rows_alone``: no round was worth it,
    merges were undone, or there is but one thread), merges that were undone, by a check or because they did harm
    (``caught``). Without rounds a sweep is one block, trained again, and a merge that would do harm is replaced before
    it is made.
    """

    number: int
    seconds: float
    rows: int
    loss: float
    objective: float | None = None
    validation_score: float | None = None
    merges: int = 0
    rank: int = 0
    sweeps: int = 0
    error: float | None = None
    rows_alone: int = 0
    caught: int = 0

    @property
    def mean_block(self) -> float | None:
        """Rows a merge; ``None`` without merges."""
        return (self.rows - self.rows_alone) / self.merges if self.merges else None


class Callback:
    """Override what you need."""

    def on_strategy(self, reason: str) -> None:
        """Before all else: the strategy that will run and why, in words, as in ``Result.strategy``."""

    def on_start(self, n_passes: int, n_rows: int) -> None:
        """Before the first pass."""

    def on_pass(self, record: PassRecord) -> bool | None:
        """After each pass. Return True to stop."""

    def on_end(self, result: Result | None) -> None:
        """After the last pass; ``None`` if the training failed."""


class _Function(Callback):
    def __init__(self, function: Callable[[PassRecord], bool | None]) -> None:
        self.function = function

    def on_pass(self, record: PassRecord) -> bool | None:
        return self.function(record)


class History(Callback):
    """Keeps every record in ``records``; ``losses`` and ``validation_scores`` pick them out."""

    def __init__(self) -> None:
        self.records: list[PassRecord] = []

    def on_start(self, n_passes: int, n_rows: int) -> None:
        self.records.clear()

    def on_pass(self, record: PassRecord) -> None:
        self.records.append(record)

    @property
    def losses(self) -> list[float]:
        return [record.loss for record in self.records]

    @property
    def validation_scores(self) -> list[float | None]:
        return [record.validation_score for record in self.records]


class ProgressBar(Callback):
    """The strategy, then a bar on a terminal, lines elsewhere (ever fewer of them): passes, loss, rows per second."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console
        self._bar: Progress | None = None

    def on_strategy(self, reason: str) -> None:
        self._console = self.console or Console()
        self._console.print(reason, highlight=False, markup=False, soft_wrap=True)

    def on_start(self, n_passes: int, n_rows: int) -> None:
        self._console = self.console or Console()
        self._n_passes = n_passes
        self._bar = Progress(
            TextColumn("passes"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=n_passes)
        self._bar.start()

    def on_pass(self, record: PassRecord) -> None:
        speed = record.rows / max(record.seconds, 1e-9)
        text = f"loss {record.loss:.5f}  {_short(speed)} rows/s"
        if record.validation_score is not None:
            text += f"  validation {record.validation_score:.4f}"
        if self._console.is_terminal and self._bar is not None:
            self._bar.update(self._task, advance=1, description=text)
        else:
            if record.number <= 10 or record.number % 10 ** (len(str(record.number)) - 1) == 0:  # ever fewer lines
                self._console.print(f"pass {record.number}/{self._n_passes}  {text}", highlight=False)

    def on_end(self, result: Result | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g} "


CallbackLike = Callback | Callable[[PassRecord], "bool | None"]


def as_callbacks(callbacks: Iterable[CallbackLike] | CallbackLike | None) -> list[Callback]:
    """A list of callbacks, from one, several or none."""
    if callbacks is None:
        return []
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Iterable):
        callbacks = [callbacks]
    checked: list[Callback] = []
    for callback in callbacks:
        if isinstance(callback, Callback):
            checked.append(callback)
        elif callable(callback):
            checked.append(_Function(callback))
        else:
            raise TypeError(f"callbacks has {callback!r}, which is neither a symsgd.callbacks.Callback nor callable")
    return checked
