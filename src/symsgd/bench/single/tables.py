"""Reading tables: CSV and Parquet by us, and by pandas with scikit-learn's OneHotEncoder."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.preprocessing import OneHotEncoder

from symsgd.data import read_csv, read_parquet

N_ROWS = 300_000
N_VALUES = (3, 5, 10, 20, 50, 100, 200, 500, 1000, 3000)  # of the categorical columns; there are as many numeric ones


def run(console: Console, repeats: int = 5, n_rows: int = N_ROWS) -> None:
    """Each repeat reads each file once in both ways; the fastest of each counts. The files are in the page cache."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = Path(folder) / "rows.csv", Path(folder) / "rows.parquet"
        frame = _made(n_rows)
        frame.to_csv(csv, index=False)
        frame.to_parquet(parquet, index=False)
        ways: dict[str, tuple[Path, Callable[[], Any], Callable[[], Any]]] = {
            "CSV": (csv, lambda: read_csv(csv, label="y").X, lambda: _one_hot(pd.read_csv(csv))),
            "Parquet": (
                parquet,
                lambda: read_parquet(parquet, label="y").X,
                lambda: _one_hot(pd.read_parquet(parquet)),
            ),
        }
        table = Table(title=f"Reading {n_rows:,} rows of 10 numeric and 10 categorical columns")
        for column in ("file", "MB", "pandas + OneHotEncoder, rows/s", "symsgd, rows/s", "ratio"):
            table.add_column(column, justify="left" if column == "file" else "right")
        for name, (path, ours, theirs) in ways.items():
            assert ours().nnz == theirs().nnz
            mine, other = math.inf, math.inf
            for _ in range(repeats):
                mine, other = min(mine, _timed(ours)), min(other, _timed(theirs))
            rates = f"{n_rows / other:,.0f}", f"{n_rows / mine:,.0f}"
            table.add_row(name, f"{path.stat().st_size / 1e6:.1f}", *rates, f"{other / mine:.2f}")
        console.print(table)


def _made(n_rows: int) -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"number {i}": rng.normal(size=n_rows).round(4) for i in range(len(N_VALUES))}
    for count in N_VALUES:
        values = np.array([f"value {i}" for i in range(count)])
        columns[f"one of {count}"] = values[(rng.zipf(1.5, size=n_rows) - 1) % count]
    return pd.DataFrame(columns | {"y": rng.integers(0, 2, n_rows)})


def _one_hot(frame: Any) -> Any:
    numbers = frame.filter(like="number").to_numpy(np.float32)
    ones = OneHotEncoder(dtype=np.float32).fit_transform(frame.filter(like="one of"))
    return sp.hstack([sp.csr_matrix(numbers), ones], format="csr")


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
