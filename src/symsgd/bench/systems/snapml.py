"""snapml: IBM's dual coordinate descent on all cores. A budget is a number of passes over the rows."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import numpy as np

from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.peer import Peer


class SnapML(Peer):
    """`snapml.LogisticRegression`, which sums the loss: its penalty is that of all rows."""

    name: ClassVar[str] = "snapml"
    module: ClassVar[str] = "snapml"
    package: ClassVar[str] = "snapml"

    def set_up(self, task: Task) -> None:
        super().set_up(task)
        self.library: Any = importlib.import_module("snapml")

    def run(self, budget: int) -> None:
        self.estimator = self.library.LogisticRegression(
            max_iter=budget, regularizer=1.0 / self.cost, tol=0.0, n_jobs=self.task.n_threads, fit_intercept=False,
            random_state=self.task.seed,
        )  # fmt: skip
        self.estimator.fit(self.X, self.y)

    def model(self) -> Model:
        return Model(np.ravel(self.estimator.coef_))
