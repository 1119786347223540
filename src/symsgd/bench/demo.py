"""`make demo`: the RCV1 twin, trained by scikit-learn, by our sequential loop and by all cores, side by side."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.linear_model
from rich.console import Console
from rich.table import Table
from sklearn.metrics import log_loss, roc_auc_score

import symsgd
from symsgd.bench import environment
from symsgd.combiners import Curvature
from symsgd.data import Twin, twin
from symsgd.strategies import Async, Hogwild, MapReduce, Sequential
from symsgd.threads import resolve_threads

PASSES = 5
REPEATS = 3
COMMON: dict[str, Any] = {
    "loss": "log_loss", "alpha": 1e-6, "learning_rate": "constant", "eta0": 0.5,
    "max_iter": PASSES, "tol": None, "random_state": 0,
}  # fmt: skip


@dataclass
class Contestant:
    """A system, and what to make of its row."""

    name: str
    model: Any
    remark: str
    seconds: float = 0.0  # a pass


def contestants() -> list[Contestant]:
    """What the table has; all cores but for the first two."""
    threads = resolve_threads(None)
    rounds = MapReduce(block_size=max(8, 128 // threads))  # more blocks a round, smaller ones: as far a round
    return [
        Contestant(
            "scikit-learn", sklearn.linear_model.SGDClassifier(**COMMON),
            "the same steps in another order of the rows, so there is no distance to give.",
        ),
        Contestant(
            "sequential", symsgd.SGDClassifier(**COMMON, strategy=Sequential()),
            "one thread, row after row: the model that the others are compared with.",
        ),
        Contestant(
            "curvature", symsgd.SGDClassifier(**COMMON, strategy=MapReduce(Curvature(), block_size="auto")),
            "what strategy='auto' takes where the work is worth threads: rounds of blocks merged by the curvature of "
            "the loss, as large as their measured error allows. The same bits in every run.",
        ),
        Contestant(
            "Hogwild!", symsgd.SGDClassifier(**COMMON, strategy=Hogwild()),
            "all threads change one model at any time. Near the sequential one, never twice the same; threads wait for "
            "each other's cache lines at every common word.",
        ),
        Contestant(
            "MR-SymSGD", symsgd.SGDClassifier(**COMMON, strategy=rounds),
            f"rounds of {threads} blocks of {rounds.block_size} rows, merged in order by combiners. The same bits in "
            "every run; 15 numbers beside each weight are what it costs, and the distance is the noise of so few.",
        ),
        Contestant(
            "Async-SymSGD", symsgd.SGDClassifier(**COMMON, strategy=Async()),
            "combiners for the common words alone, merged when a block ends; rare words are shared as in Hogwild!.",
        ),
    ]  # fmt: skip


def main(scale: float = 0.1) -> None:
    """Prints the table and what to make of it."""
    console = Console()
    console.print(f"{environment.describe()}\n", soft_wrap=True)
    console.print("Making a twin of RCV1 (news articles as bags of words, two classes) …")
    data = twin("rcv1", scale)
    console.print(
        f"{data.X.shape[0]:,} rows to train on, {data.X_test.shape[0]:,} to judge by, {data.X.shape[1]:,} features, "
        f"{data.X.nnz / data.X.shape[0]:.0f} nonzeros a row\n"
    )
    rows = contestants()
    _train(rows, data)
    console.print(_table(rows, data))
    for row in rows:
        console.print(f"[bold]{row.name}[/bold]: {row.remark}", highlight=False)
    console.print(
        "\nDistance is |w - w_sequential| / |w_sequential|. docs/idea.md has the idea in a picture, docs/strategies.md "
        "when to use what, docs/benchmarks.md more and larger sets."
    )


def _train(rows: list[Contestant], data: Twin) -> None:
    """Each a few times, in turn, so that a busy moment of the machine is not one's alone; the fastest counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(REPEATS):
            for row in rows:
                started = time.perf_counter()
                row.model.fit(data.X, data.y)
                seconds = (time.perf_counter() - started) / PASSES
                row.seconds = min(row.seconds or seconds, seconds)


def _table(rows: list[Contestant], data: Twin) -> Table:
    reference = next(row for row in rows if row.name == "sequential")
    expected = reference.model.coef_
    table = Table(title=f"Logistic regression, {PASSES} passes, up to {resolve_threads(None)} threads")
    for column in ("", "ms a pass", "times sequential", "held-out AUC", "log loss", "distance"):
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        score = row.model.decision_function(data.X_test)
        distance = np.linalg.norm(row.model.coef_ - expected) / np.linalg.norm(expected)
        table.add_row(
            row.name, f"{1e3 * row.seconds:.1f}", f"{row.seconds / reference.seconds:.2f}",
            f"{roc_auc_score(data.y_test, score):.4f}",
            f"{log_loss(data.y_test, row.model.predict_proba(data.X_test)[:, 1]):.4f}",
            "–" if row.name == "scikit-learn" else f"{distance:.4f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    main()
