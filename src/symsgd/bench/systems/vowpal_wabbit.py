"""Vowpal Wabbit, reading its binary cache as it always does for more than one pass. A budget is a number of passes.

The text and the cache are written when it is set up. Features are numbers, which it does not hash. Without
``--predict_only_model`` the weights in memory lack the shrinkage by L2, which it keeps as one factor apart.
"""

from __future__ import annotations

import importlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.peer import TextPeer, write_lines

FIRST_STEP = 4.0  # of plain SGD, on rows of length 1


class VowpalWabbit(TextPeer):
    """Its default, adaptive and normalised steps. Their L2 is not that of the objective, which it does not get near."""

    name: ClassVar[str] = "Vowpal Wabbit"
    module: ClassVar[str] = "vowpalwabbit"
    package: ClassVar[str] = "vowpalwabbit"

    def set_up(self, task: Task) -> None:
        super().set_up(task)
        self.library: Any = importlib.import_module("vowpalwabbit")
        self.folder = tempfile.TemporaryDirectory()
        self.text = Path(self.folder.name) / "rows.vw"
        write_lines(self.text, self.X, ("1 |" if own > 0 else "-1 |" for own in self.y))
        self._workspace("--passes 1").finish()

    def how(self, budget: int) -> str:
        """The options of a method: steps and penalty."""
        return f"--l2 {self.task.alpha}"

    def run(self, budget: int) -> None:
        self.trained = self._workspace(f"--passes {budget} {self.how(budget)}")

    def _workspace(self, options: str) -> Any:
        """It trains as soon as it is made."""
        bits = max(10, (self.task.data.n_features - 1).bit_length())
        return self.library.Workspace(
            f"-d {self.text} --cache_file {self.text}.cache --loss_function logistic --noconstant -b {bits} "
            f"--holdout_off --predict_only_model --random_seed {self.task.seed} --quiet {options}"
        )

    def model(self) -> Model:
        weights = np.array([self.trained.get_weight(own) for own in range(self.task.data.n_features)])
        self.trained.finish()
        return Model(weights)

    def tear_down(self) -> None:
        self.folder.cleanup()


class VowpalWabbitSGD(VowpalWabbit):
    """Plain SGD. Its default schedule is a slow one here: the step falls by a constant factor a pass instead, over n
    passes to 2/n of what it was."""

    name: ClassVar[str] = "Vowpal Wabbit SGD"

    def how(self, budget: int) -> str:
        decay = min(1.0, 2 / budget) ** (1 / max(1, budget - 1))
        return f"--sgd -l {FIRST_STEP} --power_t 0 --decay_learning_rate {decay:.9g} --l2 {self.task.alpha}"


class VowpalWabbitBFGS(VowpalWabbit):
    """L-BFGS, which sums the loss: its penalty is that of all rows."""

    name: ClassVar[str] = "Vowpal Wabbit BFGS"

    def budgets(self) -> Iterator[int]:
        return itertools.islice(super().budgets(), 1, None)  # it refuses a single pass

    def how(self, budget: int) -> str:
        return f"--bfgs --termination 0 --l2 {1.0 / self.cost:.17g}"
