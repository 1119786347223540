"""How near training on Dask is to the sequential run in the same order, beside what else there is.

Four workers of two threads each, in processes of their own over TCP. A run *holds* if its AUC is that of the sequential
run in its own order to 1e-4, or to a quarter of the standard deviation of the sequential AUC over ten seeds where that
is larger. dask-ml's Incremental (scikit-learn's SGD, block after block), averaging, AllReduce and the parameter server
have the same passes, step size and partitions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import symsgd
from symsgd.bench.datasets import Dataset, load
from symsgd.bench.single.curvature import ALPHA, best_step_size
from symsgd.combiners import Curvature
from symsgd.penalties import L2
from symsgd.results import Result
from symsgd.schedules import Constant
from symsgd.strategies import AllReduce, Averaging, MapReduce, ParameterServer, Sequential, Strategy

SETS = ("imdb", "nycflights13_ctr39", "kdd99", "rcv1 twin")
PASSES, SEEDS = 5, 10
WORKERS, THREADS, PARTITIONS = 4, 2, 8
STRATEGIES: dict[str, str | Strategy] = {
    "symsgd, auto": "auto",
    "symsgd, in rounds": MapReduce(Curvature(), block_size="auto"),
    "averaging": Averaging(),
    "AllReduce": AllReduce(),
    "parameter server": ParameterServer(256),
}


@contextmanager
def cluster(n_workers: int, threads: int) -> Iterator[Any]:
    """A client of workers that are processes of their own, over TCP; it asks them without the scheduler between."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=threads, processes=True, protocol="tcp", dashboard_address=":0",
            memory_limit=None,
        ) as own,
        Client(own, direct_to_workers=True) as client,
    ):  # fmt: skip
        client.wait_for_workers(n_workers)
        yield client


def run(console: Console, folder: Path | None, sets: Sequence[str], seeds: int = SEEDS, passes: int = PASSES) -> None:
    columns = (
        "set", "step size", "system", "AUC", "AUC less sequential", "tolerance", "distance", "rounds a pass", "error",
        "alone", "s a pass",
    )  # fmt: skip
    table = Table(title=f"{WORKERS} workers of {THREADS} threads over TCP, {PARTITIONS} partitions, {passes} passes")
    for column in columns:
        table.add_column(column, justify="left" if column in ("set", "system") else "right")
    with cluster(WORKERS, THREADS) as client:
        for name in sets:
            data = load(name, folder)
            if data.reason:
                console.print(f"{name}: skipped: {data.reason}")
                continue
            for cells in _fidelity_of(client, data, seeds, passes):
                table.add_row(*cells)
                console.print(" | ".join(cells), style="dim")
            table.add_section()
    console.print(table)


def _fidelity_of(client: Any, data: Dataset, seeds: int, passes: int) -> Iterator[list[str]]:
    from symsgd.dask import train

    step_size = best_step_size(data, "log_loss") or 0.1
    choices: dict[str, Any] = {"loss": "log_loss", "penalty": L2(ALPHA), "schedule": Constant(step_size)}
    scores = [
        _auc(data, symsgd.train(data.X, data.y, **choices, n_passes=passes, seed=seed, strategy="sequential"))
        for seed in range(seeds)
    ]
    tolerance = max(1e-4, float(np.std(scores)) / 4)
    begins = [data.name, f"{step_size:g}"]
    yield [
        *begins,
        f"sequential, {seeds} seeds",
        f"{np.mean(scores):.5f}",
        f"± {np.std(scores):.5f}",
        f"{tolerance:.5f}",
    ]
    X, y = collections(data)
    X, y = client.persist(X), client.persist(y)
    for label, strategy in STRATEGIES.items():
        result = train(client, X, y, **choices, strategy=strategy, n_passes=passes, blocks=PARTITIONS)
        assert result.journal is not None
        sequential = in_order(data, result.journal, choices)
        difference = _auc(data, result) - _auc(data, sequential)
        alone = sum(record.rows_alone for record in result.passes) / sum(record.rows for record in result.passes)
        errors = [record.error for record in result.passes if record.error is not None]
        yield [
            *begins, label, f"{_auc(data, result):.5f}", f"{difference:+.5f} {_tick(abs(difference) <= tolerance)}",
            f"{tolerance:.5f}", f"{_distance(result, sequential):.4f}",
            f"{np.mean([len(rounds) for rounds in result.rounds]):.1f}", f"{np.mean(errors):.4f}" if errors else "",
            f"{alone:.0%}", f"{median(record.seconds for record in result.passes):.2f}",
        ]  # fmt: skip
    yield [*begins, *_incremental(data, X, y, step_size, passes, float(np.mean(scores)))]


def _distance(one: Result, other: Result) -> float:
    return float(np.linalg.norm(one.coef - other.coef) / np.linalg.norm(other.coef))


def _tick(holds: bool) -> str:
    return "✓" if holds else "✗"


def collections(data: Dataset, partitions: int = PARTITIONS) -> tuple[Any, Any]:
    """Dask arrays of the training rows, of CSR blocks where they are sparse."""
    import dask.array as da

    import dask

    ends = [data.n_rows * part // partitions for part in range(partitions + 1)]
    spans = list(pairwise(ends))
    meta = (
        sp.csr_matrix((0, data.n_features), dtype=data.X.dtype)
        if sp.issparse(data.X)
        else np.zeros((0, 0), data.X.dtype)
    )
    X = da.concatenate(
        [
            da.from_delayed(dask.delayed(data.X[a:b]), (b - a, data.n_features), data.X.dtype, meta=meta)
            for a, b in spans
        ]
    )
    y = np.asarray(data.y)
    return X, da.concatenate([da.from_delayed(dask.delayed(y[a:b]), (b - a,), y.dtype) for a, b in spans])


def in_order(data: Dataset, journal: Any, choices: dict[str, Any]) -> Result:
    """Sequential SGD over the rows in the order that was trained."""
    result: Result | None = None
    for number in range(len(journal.passes)):
        order = journal.order(number)
        result = symsgd.train(
            data.X[order],
            np.asarray(data.y)[order],
            **choices,
            n_passes=1,
            shuffle=False,
            strategy=Sequential(),
            init=result,
        )
    assert result is not None
    return result


def _incremental(data: Dataset, X: Any, y: Any, step_size: float, passes: int, sequential: float) -> list[str]:
    try:
        from dask_ml.wrappers import Incremental
    except ImportError:
        return ["dask-ml Incremental", "skipped: pip install dask-ml"]
    from sklearn.linear_model import SGDClassifier

    estimator = SGDClassifier(
        loss="log_loss", alpha=ALPHA, learning_rate="constant", eta0=step_size, random_state=0, tol=None
    )
    model = Incremental(estimator, shuffle_blocks=False, random_state=0, assume_equal_chunks=True)
    classes, seconds = np.unique(np.asarray(data.y)), []
    for _ in range(passes):
        began = time.perf_counter()
        model.partial_fit(X, y, classes=classes)
        seconds.append(time.perf_counter() - began)
    auc = float(roc_auc_score(np.asarray(data.y_test) > 0, model.estimator_.decision_function(data.X_test)))
    return [
        "dask-ml Incremental",
        f"{auc:.5f}",
        f"{auc - sequential:+.5f} (of the mean)",
        "",
        "",
        "",
        "",
        "",
        f"{median(seconds):.2f}",
    ]


def _auc(data: Dataset, result: Result) -> float:
    return float(roc_auc_score(np.asarray(data.y_test) > 0, result.decision(data.X_test)))
