"""LIBLINEAR: its trust-region Newton method and its dual coordinate descent, on one core.

It takes no number of iterations: a budget b is a tolerance, 10^(1 − b/4). The dual method begins with a looser one and
goes down in finer steps: where one tolerance gives it 10 %, half of that may give it 1e-6. Both libraries of the family
are called the same way; the one for many cores is in ``liblinear_multicore``.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.peer import Peer


class Liblinear(Peer):
    """-s 0: the primal problem by a trust-region Newton method."""

    name: ClassVar[str] = "LIBLINEAR"
    module: ClassVar[str] = "liblinear"
    package: ClassVar[str] = "liblinear-official"
    solver: ClassVar[int] = 0

    def set_up(self, task: Task) -> None:
        super().set_up(task)
        self.library: Any = importlib.import_module("liblinear.liblinearutil")
        self.problem = self.library.problem(self.y, sp.csr_matrix(self.X))  # it copies arrays row by row in Python

    def budgets(self) -> Iterator[int]:
        return itertools.count(1)

    def run(self, budget: int) -> None:
        self.trained = self.library.train(self.problem, self.options(budget))

    def options(self, budget: int) -> str:
        return f"-s {self.solver} -c {self.cost:.17g} -e {self.tolerance(budget):.3g} -B -1 -q"

    def model(self) -> Model:
        weights = np.ctypeslib.as_array(self.trained.w, (self.trained.nr_feature,)).copy()
        return Model(weights if self.trained.get_labels()[0] > 0 else -weights)  # of the label that it met first

    def settings(self, budget: int) -> dict[str, Any]:
        return {"budget": budget, "tolerance": self.tolerance(budget)}

    def tolerance(self, budget: int) -> float:
        return float(10.0 ** (1 - budget / 4))


class LiblinearDual(Liblinear):
    """-s 7: the dual problem by coordinate descent."""

    name: ClassVar[str] = "LIBLINEAR dual"
    solver: ClassVar[int] = 7

    def tolerance(self, budget: int) -> float:
        return float(10.0 ** (1.5 - budget / 10))
