"""On Dask: how near the sequential run in the same order, beside what else there is; and two workers against one.

*fidelity*: four workers of two threads each, in processes of their own over TCP. A run *holds* if its AUC is that of the
sequential run in its own order to 1e-4, or to a quarter of the standard deviation of the sequential AUC over ten seeds
where that is larger. dask-ml's Incremental (scikit-learn's SGD, block after block), averaging, AllReduce and the
parameter server have the same passes, step size and partitions.

*workers*: one worker of one thread, then two, on twins in stores, same blocks and so the same model. Bytes are what the
loopback device counted in a pass, everything on it included, beside what the cost model says (docs/dask.md).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from symsgd.callbacks import PassRecord
from symsgd.combiners import Curvature
from symsgd.data import open as open_store
from symsgd.data import twin
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
STORED = {"rcv1": (20.0, 0.3), "criteo": (25.0, 0.03)}  # scale and step size
LOOPBACK = Path("/proc/net/dev")


@contextmanager
def cluster(n_workers: int, threads: int) -> Iterator[Any]:
    """A client of workers that are processes of their own, over TCP."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=threads, processes=True, protocol="tcp", dashboard_address=None,
            memory_limit=None,
        ) as own,
        Client(own) as client,
    ):  # fmt: skip
        client.wait_for_workers(n_workers)
        yield client


def run(
    console: Console,
    folder: Path | None,
    sets: Sequence[str] | None = None,
    stores: Path | None = None,
    parts: Sequence[str] = ("fidelity", "workers"),
) -> None:
    """``sets`` of SETS and STORED; ``stores`` is a folder whose stores are used, or made if there are none."""
    try:
        import distributed
    except ImportError:
        console.print("dask: skipped: pip install 'symsgd[dask]'")
        return
    console.print(f"Dask's distributed {distributed.__version__}; logistic loss, L2 of {ALPHA:g}, constant step size")
    if "fidelity" in parts:
        fidelity(console, folder, [name for name in SETS if not sets or name in sets])
    if "workers" in parts:
        names = [name for name in STORED if not sets or name in sets]
        with tempfile.TemporaryDirectory() as made:
            workers(console, stores or Path(made), names)


# --- fidelity ------------------------------------------------------------------------------------------------------


def fidelity(
    console: Console, folder: Path | None, sets: Sequence[str], seeds: int = SEEDS, passes: int = PASSES
) -> None:
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
            f"{tolerance:.5f}", f"{np.linalg.norm(result.coef - sequential.coef) / np.linalg.norm(sequential.coef):.4f}",
            f"{np.mean([len(rounds) for rounds in result.rounds]):.1f}", f"{np.mean(errors):.4f}" if errors else "",
            f"{alone:.0%}", f"{median(record.seconds for record in result.passes):.2f}",
        ]  # fmt: skip
    yield [*begins, *_incremental(data, X, y, step_size, passes, float(np.mean(scores)))]


def _tick(holds: bool) -> str:
    return "✓" if holds else "✗"


def collections(data: Dataset, partitions: int = PARTITIONS) -> tuple[Any, Any]:
    """Dask arrays of the training rows, of CSR blocks where they are sparse."""
    import dask.array as da

    import dask

    ends = [data.n_rows * part // partitions for part in range(partitions + 1)]
    spans = list(zip(ends, ends[1:], strict=False))
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


# --- workers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """Passes after the first: seconds and bytes of each (medians), and what came of it."""

    seconds: float
    sent: float
    said: float  # by the cost model
    result: Any


def workers(
    console: Console, folder: Path, names: Sequence[str], passes: int = 3, counts: Sequence[int] = (1, 2)
) -> None:
    columns = (
        "twin", "rows", "GB", "workers", "s a pass", "times one", "AUC", "AUC less sequential", "rounds a pass", "error",
        "MB sent a pass", "cost model", "ratio",
    )  # fmt: skip
    table = Table(
        title=f"Workers of one thread, from a store; 2 blocks a round, {passes} passes, medians after the first"
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "twin" else "right")
    for name in names:
        scale, step_size = STORED[name]
        path = folder / f"{name}.store"
        if not path.exists():
            twin(name, scale, store=path)
        rows, test = open_store(path), open_store(path.with_name(f"{name}.test.store"))
        choices: dict[str, Any] = {"loss": "log_loss", "penalty": L2(ALPHA), "schedule": Constant(step_size)}
        one = math.nan
        for count in counts:
            timed = _timed(path, count, choices, passes)
            one = timed.seconds if count == 1 else one
            auc = _auc_of(test, timed.result)
            record = timed.result.passes[-1]
            cells = [
                f"{name} twin", f"{len(rows):,}", f"{path.stat().st_size / 1e9:.1f}", f"{count}", f"{timed.seconds:.2f}",
                f"{one / timed.seconds:.2f}", f"{auc:.5f}", "", f"{len(timed.result.rounds[-1])}",
                "" if record.error is None else f"{record.error:.4f}", f"{timed.sent / 1e6:.1f}", f"{timed.said / 1e6:.1f}",
                f"{timed.sent / timed.said:.2f}",
            ]  # fmt: skip
            table.add_row(*cells)
            console.print(" | ".join(cells), style="dim")
        began = time.perf_counter()
        sequential = symsgd.train(rows, **choices, n_passes=passes, strategy="sequential")
        seconds = (time.perf_counter() - began) / passes
        auc_alone = _auc_of(test, sequential)
        cells = [
            f"{name} twin",
            f"{len(rows):,}",
            "",
            "no Dask, one thread, window order",
            f"{seconds:.2f}",
            "",
            f"{auc_alone:.5f}",
        ]
        table.add_row(*cells)
        console.print(" | ".join(cells), style="dim")
        table.add_section()
    console.print(table)


def _timed(path: Path, count: int, choices: dict[str, Any], passes: int) -> Timed:
    from symsgd.dask import costs, train

    seen: list[tuple[float, int]] = []

    def note(record: PassRecord) -> None:
        seen.append((record.seconds, bytes_so_far()))

    with cluster(count, 1) as client:
        result = train(client, path, **choices, strategy="auto", blocks=2, n_passes=passes, callbacks=note)
    store = open_store(path)
    sample = store.X[np.linspace(0, len(store) - 1, 20_000).astype(np.int64)]
    share = np.bincount(sample.indices, minlength=store.shape[1]) / sample.shape[0]
    shape = costs.Shape(store.shape[1], 1, 2, count, share, places=min(4096, int((share > 0).sum())), hops=costs.HOPS)
    said = [sum(costs.round_bytes(shape, record.rows / record.blocks) for record in rounds) for rounds in result.rounds]
    sent = [later[1] - earlier[1] for earlier, later in zip(seen, seen[1:], strict=False)]
    return Timed(median(second for second, _ in seen[1:]), median(sent), median(said[1:]), result)


def bytes_so_far() -> int:
    """That the loopback device has carried; 0 where the system does not say."""
    if not LOOPBACK.exists():
        return 0
    for line in LOOPBACK.read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


def _auc_of(test: Any, result: Result) -> float:
    return float(roc_auc_score(np.asarray(test.y) > 0, result.decision(test.X)))
