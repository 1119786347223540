"""xlearn: Hogwild! on all cores. A budget is a number of passes.

The text is written when it is set up, and its binary cache beside it. It has an intercept that cannot be left out, and
shrinks only the weights that a row touches, so the objective is not quite its own.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.peer import TextPeer, write_lines


class XLearn(TextPeer):
    """`xlearn.create_linear`, lock-free, with a constant step."""

    name: ClassVar[str] = "xlearn SGD"
    method: ClassVar[str] = "sgd"
    step_size: ClassVar[float] = 0.5
    module: ClassVar[str] = "xlearn"
    package: ClassVar[str] = "xlearn"

    def set_up(self, task: Task) -> None:
        super().set_up(task)
        os.environ.setdefault("USER", "user")  # it ends the process where there is none
        self.library: Any = importlib.import_module("xlearn")
        self.folder = tempfile.TemporaryDirectory()
        self.text = Path(self.folder.name) / "rows.txt"
        filled = np.asarray((self.X != 0).sum(axis=1)).ravel() > 0
        nothing = " 0:0"  # in a row without numbers, at which it crashes
        words = (("1" if y > 0 else "0") + ("" if own else nothing) for y, own in zip(self.y, filled, strict=True))
        write_lines(self.text, self.X, words)
        self.run(1)  # leaves the cache

    def run(self, budget: int) -> None:
        linear = self.library.create_linear()
        linear.setTrain(str(self.text))
        linear.setTXTModel(f"{self.text}.weights")
        linear.setQuiet()
        linear.disableNorm()
        linear.disableEarlyStop()
        chosen = {
            "task": "binary", "epoch": budget, "opt": self.method, "lr": self.step_size, "lambda": self.task.alpha,
            "nthread": self.task.n_threads, "log": f"{self.text}.log",
        }  # fmt: skip
        linear.fit(chosen, f"{self.text}.model")

    def model(self) -> Model:
        weights, intercept = np.zeros(self.task.data.n_features), 0.0
        for line in Path(f"{self.text}.weights").read_text().splitlines():
            name, value = line.split(":")
            if name == "bias":
                intercept = float(value)
            else:
                weights[int(name.removeprefix("i_"))] = float(value)
        return Model(weights, intercept)

    def tear_down(self) -> None:
        self.folder.cleanup()


class XLearnAdaGrad(XLearn):
    """The same with AdaGrad's steps."""

    name: ClassVar[str] = "xlearn AdaGrad"
    method: ClassVar[str] = "adagrad"
    step_size: ClassVar[float] = 1.0
