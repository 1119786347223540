"""What a training begins from and what it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from symsgd.callbacks import PassRecord
from symsgd.data.dataset import Schema
from symsgd.inputs import Array, check_data, decide, dense, on_host
from symsgd.threads import resolve_threads


@dataclass(frozen=True)
class Start:
    """What a training continues from. ``t`` is the number of its first step. ``gathered_coef`` and
    ``gathered_intercept`` are AdaGrad's sums of squared gradients so far, which it begins at 0 without."""

    coef: Array
    intercept: Array
    t: float = 1.0
    average_coef: Array | None = None
    average_intercept: Array | None = None
    gathered_coef: Array | None = None
    gathered_intercept: Array | None = None


@dataclass(frozen=True)
class Result:
    """A trained model and how it came about.

    ``coef`` has one row, or one per class where there are more than two; ``average_coef`` and ``average_intercept``
    are the means of the iterates where averaging was asked for and had begun. ``schema`` says what the columns of X
    meant, in results that were loaded from a file which had one. ``losses`` are those of the last pass, one a model
    that was in training; ``gathered_coef`` and ``gathered_intercept`` AdaGrad's sums of squared gradients.
    """

    coef: Array
    intercept: Array
    passes: list[PassRecord]
    strategy: str
    t: float
    converged: bool
    classes: Array | None = None
    average_coef: Array | None = None
    average_intercept: Array | None = None
    schema: Schema | None = None
    losses: tuple[float, ...] = ()
    gathered_coef: Array | None = None
    gathered_intercept: Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or a pickle, is in the host's memory, so that machines without a GPU can load it."""
        return {name: on_host(value) for name, value in self.__dict__.items()}

    @property
    def n_passes(self) -> int:
        return len(self.passes)

    def decision(self, X: Any, n_threads: int | None = None) -> Array:
        """x·w + b for every row and class: the averaged model where there is one."""
        if self.average_coef is not None:
            return decision(X, self.average_coef, self.average_intercept, n_threads=n_threads)
        return decision(X, self.coef, self.intercept, n_threads=n_threads)


def decision(X: Any, coef: Any, intercept: Any, *, n_threads: int | None = None) -> Array:
    """Scores x·w + b of every row, shape (rows,) for one model and (rows, classes) for several; on all cores."""
    threads = resolve_threads(n_threads, "n_threads")
    data = check_data(X, threads, allow_empty=True)
    return decide(data, np.atleast_2d(on_host(dense(coef))), np.atleast_1d(on_host(intercept)), threads)
