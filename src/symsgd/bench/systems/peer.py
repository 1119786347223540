"""What systems by others have in common: a package to be installed, and the objective that they are compared on."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from symsgd.bench.systems.base import System, Task


class Peer(System):
    """A library that minimises mean loss + (alpha/2)‖w‖² without an intercept. Nothing of it is imported before it is
    set up, so that every other process stays free of it."""

    module: ClassVar[str]
    package: ClassVar[str]
    losses: ClassVar[tuple[str, ...]] = ("log_loss",)

    def reason_against(self, task: Task) -> str:
        if task.loss not in self.losses:
            return f"it is not compared on {task.loss}"
        if task.fit_intercept:
            return "it is compared without an intercept"
        if task.loss == "log_loss" and task.data.task != "binary":
            return "it is compared on two classes"
        return "" if self.is_installed() else f"{self.package} is not installed: {self.how_to_install()}"

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def how_to_install(self) -> str:
        return f"pip install {self.package}"

    def set_up(self, task: Task) -> None:
        self.task = task
        self.X, self.y = task.data.X, np.asarray(task.targets, np.float64)

    @property
    def cost(self) -> float:
        """C of ½‖w‖² + C Σ loss, which is the same objective divided by alpha."""
        return 1.0 / (len(self.y) * self.task.alpha)


MOST_ENTRIES = 60_000_000  # stored numbers that are written as text: a gigabyte, a minute


class TextPeer(Peer):
    """A library that reads text."""

    def reason_against(self, task: Task) -> str:
        if task.data.n_entries > MOST_ENTRIES:
            return f"it reads text: compared up to {MOST_ENTRIES:,} stored numbers"
        return super().reason_against(task)


def write_lines(path: Path, X: Any, words: Iterable[str]) -> None:
    """Rows as text: a word, then ``feature:value`` for all that is not 0, features counted from 0."""
    rows = sp.csr_matrix(X)
    with path.open("w", encoding="ascii") as file:
        for row, word in enumerate(words):
            entries = slice(rows.indptr[row], rows.indptr[row + 1])
            pairs = zip(rows.indices[entries].tolist(), rows.data[entries].tolist(), strict=True)
            file.write(" ".join([word, *map("%d:%.9g".__mod__, pairs)]) + "\n")
