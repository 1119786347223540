"""Systems that misbehave, for processes of their own: named ``strange_systems:Class``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

from symsgd.bench.newton import Objective, least
from symsgd.bench.systems.base import Model, System, Task


class Even(System):
    """Well-behaved: a weight for every feature, which is the budget."""

    name: ClassVar[str] = "even"

    def set_up(self, task: Task) -> None:
        self.task = task

    def run(self, budget: int) -> None:
        self.budget = budget

    def model(self) -> Model:
        return Model(np.full(self.task.data.n_features, float(self.budget)), 0.5)


class Prints(Even):
    """To standard output, from Python and past it, and asks standard input."""

    def run(self, budget: int) -> None:
        super().run(budget)
        print('{"seconds": 1}')
        os.write(1, b"not JSON\n")
        assert os.read(0, 10) == b""


class Raises(Even):
    def run(self, budget: int) -> None:
        if budget == 2:
            raise ArithmeticError("two is too much\nand more that nobody needs")
        super().run(budget)


class RaisesAtOnce(Even):
    def set_up(self, task: Task) -> None:
        raise ImportError("it is not there")


class Crashes(Even):
    def run(self, budget: int) -> None:
        os.write(2, b"first words\nlast words\n")
        os.abort()


class Hangs(Even):
    def run(self, budget: int) -> None:
        Path(os.environ["STRANGE_PLACE"]).write_text(str(os.getpid()))
        time.sleep(3600)


class Leaves(Even):
    """Ends as if all was well."""

    def run(self, budget: int) -> None:
        os._exit(0)


class Infinite(Even):
    def model(self) -> Model:
        return Model(np.full(self.task.data.n_features, np.inf))


class Lucky(Even):
    """Has the best weights every other time. The first training is made twice, so it begins with them."""

    calls = 0

    def set_up(self, task: Task) -> None:
        super().set_up(task)
        self.best = least(Objective(task.data.X.astype(np.float64), task.targets, task.alpha)).w

    def run(self, budget: int) -> None:
        self.calls += 1

    def model(self) -> Model:
        return Model(self.best if self.calls % 2 == 0 else 0 * self.best)


class Tells(Even):
    """Its weights are what it sees: rows, features, threads, cores, and variables that limit threads."""

    def model(self) -> Model:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        limits = [float(os.environ[own]) for own in ("OMP_NUM_THREADS", "SYMSGD_NUM_THREADS")]
        return Model(np.array([*self.task.data.X.shape, self.task.n_threads, cores, *limits]))


class Cleans(Even):
    def tear_down(self) -> None:
        Path(os.environ["STRANGE_PLACE"]).write_text("clean")
