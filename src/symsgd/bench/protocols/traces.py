"""Models after each pass, and when they were there; what it takes to look at them is not on the clock."""

from __future__ import annotations

import importlib
import itertools
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from symsgd import archives
from symsgd.bench.systems.base import Task
from symsgd.bench.systems.ours import Symsgd
from symsgd.callbacks import Callback, PassRecord
from symsgd.errors import DivergenceError
from symsgd.schedules import Constant
from symsgd.strategies import Strategy


@dataclass(frozen=True, eq=False)
class Moment:
    """Weights and intercept, and the seconds of training until then."""

    coef: NDArray[Any]
    intercept: float
    seconds: float


class _Models(Callback):
    """What the checkpoint has, read when the pass after it is over. A training writes one between passes, and goes on
    with the same bits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.models: list[tuple[NDArray[Any], float]] = []
        self.seconds: list[float] = []

    def on_pass(self, record: PassRecord) -> None:
        self.seconds.append(record.seconds)
        if record.number > 1:
            self.take()

    def take(self) -> None:
        arrays = archives.read(archives.CHECKPOINT, self.path)[1]
        self.models.append((np.ravel(arrays["coef"]), float(np.ravel(arrays["intercept"])[0])))


def ours(task: Task, strategy: str | Strategy, step_size: float, n_passes: int) -> tuple[list[Moment], str]:
    """Of `symsgd.train`; what it has come to if it diverges, and the reason."""
    reason = ""
    with tempfile.TemporaryDirectory() as folder:
        models = _Models(Path(folder) / "checkpoint")
        system = Symsgd(strategy, Constant(step_size), checkpoint=models.path, callbacks=models)
        system.set_up(task)
        try:
            system.run(n_passes)
        except DivergenceError as error:
            reason = f"diverges in pass {error.n_pass}"
        if models.path.exists():
            models.take()
    until = itertools.accumulate(models.seconds)
    return [Moment(*model, seconds) for model, seconds in zip(models.models, until, strict=True)], reason


class ScikitLearn:
    """scikit-learn's SGD, one call of ``partial_fit`` a pass, in orders of its own."""

    name: ClassVar[str] = "scikit-learn SGD"

    @staticmethod
    def trace(task: Task, step_size: float, n_passes: int) -> list[Moment]:
        return list(_passes_of_scikit_learn(task, step_size, n_passes))


def _passes_of_scikit_learn(task: Task, step_size: float, n_passes: int) -> Iterator[Moment]:
    models: Any = importlib.import_module("sklearn.linear_model")
    options: dict[str, Any] = {
        "loss": task.loss, "alpha": task.alpha, "learning_rate": "constant", "eta0": step_size,
        "fit_intercept": task.fit_intercept,
        "random_state": np.random.RandomState(task.seed),  # a number would be the same order in every call
    }  # fmt: skip
    regression = task.loss == "squared_error"
    model = models.SGDRegressor(**options) if regression else models.SGDClassifier(**options)
    more = {} if regression else {"classes": np.unique(task.targets)}
    y, seconds = task.targets, 0.0
    for _ in range(n_passes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = time.perf_counter()
            try:
                model.partial_fit(task.data.X, y, **more)
            except ValueError:  # its weights have left the range of numbers
                return
            seconds += time.perf_counter() - before
        coef = np.ravel(model.coef_).copy()
        if not np.isfinite(coef).all():
            return
        yield Moment(coef, float(np.ravel(model.intercept_)[0]), seconds)
