"""Peers: how long each library takes to come within 1 % and 0.1 % of the best objective, in a process of its own.

The objective is mean log loss + (alpha/2)‖w‖² without an intercept; on dense sets, half the mean squared error too. A
system trains from nothing with ever larger budgets until it is as near as asked, or its time is spent: a ``curve``.
Then the budget that was first within each target is timed again and again, the systems taking turns: ``time to
target``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from symsgd.bench.datasets import Dataset
from symsgd.bench.newton import Objective, least
from symsgd.bench.protocols.base import Plan, Protocol, Size, Surroundings
from symsgd.bench.protocols.peers_contest import Contest, run_contest
from symsgd.bench.records import Row
from symsgd.bench.stored_task import write_task
from symsgd.bench.systems.base import Task
from symsgd.bench.systems.registry import LEAST_SQUARES, LOGISTIC, OURS, PLACES, make
from symsgd.threads import available_cores

ALPHA = 1e-6
PRECISION = 1e-8  # of the best objective
MOST_DENSE_FEATURES = 4096  # sparse rows of a regression that has no more are made dense

REAL_SETS = ("imdb", "nycflights13_ctr39", "nycflights13_x2", "kdd99", "mnist_rff")
# the fastest of the others are among these: without them a comparison would flatter us
QUICK = (OURS, "scikit-learn SGD", "LIBLINEAR", "LIBLINEAR dual", "liblinear-multicore", "snapml")
QUICK_SQUARES = ("LAPACK Cholesky", "randomised sketch")


@dataclass(frozen=True)
class PeersPlan(Plan):
    """``least_squares`` are the sets of dense least squares; ``most_seconds`` what a system may train on a set."""

    systems: tuple[str, ...] = tuple(PLACES)
    least_squares: tuple[str, ...] = ()
    most_seconds: float = 60.0

    def with_choices(self, **choices: Any) -> PeersPlan:
        made = super().with_choices(**choices)
        assert isinstance(made, PeersPlan)
        return made if choices.get("sets") is None else replace(made, least_squares=made.sets)

    @property
    def thread_counts(self) -> tuple[int, ...]:
        return self.threads or (min(2, available_cores()),)

    def systems_for(self, loss: str) -> list[str]:
        others = set(PLACES) - set(LOGISTIC if loss == "log_loss" else LEAST_SQUARES)
        return [name for name in self.systems if name not in others]


class Peers(Protocol):
    """The libraries that people use, and ours."""

    name: ClassVar[str] = "peers"
    summary: ClassVar[str] = "time to 1 % and 0.1 % of the best objective, by us and by others"
    plans: ClassVar[Mapping[Size, Plan]] = {
        "full": PeersPlan(
            (*REAL_SETS, "rcv1 twin"), repeats=5, scales={"rcv1": 1.0}, most_seconds=300,
            least_squares=("epsilon twin", "mnist_rff", "beijing_air"),
        ),
        "reduced": PeersPlan(
            (*REAL_SETS, "rcv1 twin"), repeats=3, scales={"rcv1": 0.1}, most_seconds=8,
            least_squares=("epsilon twin", "mnist_rff", "beijing_air"),
        ),
        "quick": PeersPlan(
            ("rcv1 twin",), scales={"rcv1": 0.02, "epsilon": 0.02}, repeats=2, most_seconds=3,
            systems=QUICK + QUICK_SQUARES, least_squares=("epsilon twin",),
        ),
        "tiny": PeersPlan(
            ("rcv1 twin",), scales={"rcv1": 0.001, "epsilon": 0.0005}, repeats=1, most_seconds=0.5,
            systems=(OURS, "scikit-learn SGD", "LAPACK Cholesky"), least_squares=("epsilon twin",),
        ),
    }  # fmt: skip

    def measure(self, plan: PeersPlan, around: Surroundings) -> Iterator[Row]:
        for name in plan.systems:
            make(name)  # a name that is wrong is said before anything is measured
        for name in dict.fromkeys(plan.sets + plan.least_squares):
            data = around.load(name, plan.scales)
            for loss, sets in (("log_loss", plan.sets), ("squared_error", plan.least_squares)):
                if name not in sets:
                    continue
                ready = data if loss == "log_loss" else _dense(data)
                reason = ready.reason or _reason_against(ready, loss)
                if reason:
                    yield Row(self.name, "curve", name, "", loss=loss, seed=around.seed, reason=reason)
                    continue
                yield from self._contests(plan, around, ready, loss)

    def _contests(self, plan: PeersPlan, around: Surroundings, data: Dataset, loss: str) -> Iterator[Row]:
        task = Task(data, loss, ALPHA, fit_intercept=False, seed=around.seed)
        around.tell(f"{data.name}: the least {loss}")
        objective = Objective(data.X.astype(np.float64), np.asarray(task.targets, np.float64), ALPHA, loss)
        best = least(objective, PRECISION).value
        with tempfile.TemporaryDirectory() as folder:
            write_task(task, Path(folder))
            for n_threads in plan.thread_counts:
                own = replace(task, n_threads=n_threads)
                contest = Contest(own, objective, best, plan.most_seconds, plan.repeats)
                with ExitStack() as processes:
                    yield from run_contest(contest, plan.systems_for(loss), Path(folder), processes, around)
                yield contest.row("best", "", measures={"objective": contest.best})


def _dense(data: Dataset) -> Dataset:
    """For least squares: few features as an array, the targets of a regression around 0, as there is no intercept."""
    if data.reason:
        return data
    X, X_test, y, y_test = data.X, data.X_test, data.y, data.y_test
    if sp.issparse(X) and data.task == "regression" and data.n_features <= MOST_DENSE_FEATURES:
        X, X_test = X.toarray(), None if X_test is None else X_test.toarray()
    if data.task == "regression":
        middle = np.mean(y)
        y, y_test = np.asarray(y) - middle, None if y_test is None else np.asarray(y_test) - middle
    return replace(data, X=X, X_test=X_test, y=y, y_test=y_test)


def _reason_against(data: Dataset, loss: str) -> str:
    if loss == "log_loss":
        return "" if data.task == "binary" else f"its task is {data.task}, and log loss is compared on two classes"
    if sp.issparse(data.X):
        return "its rows are sparse, and least squares is compared on dense ones"
    return "least squares is compared on numbers, or two classes" if data.task == "multiclass" else ""
