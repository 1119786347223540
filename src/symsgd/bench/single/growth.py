"""How time grows with the rows, from 10⁴ to 10⁷: a straight line, or the reason why not."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from symsgd import schedules, train

WIDTH = 30
FEATURES = 20_000


def run(console: Console, largest: int = 10_000_000) -> None:
    """Sparse rows of 30 out of 20,000 features, one thread, window order, the faster of two passes."""
    table = Table(title=f"Time against rows, {WIDTH} nonzeros a row, one thread")
    for column in ("rows", "ms a pass", "ns a row"):
        table.add_column(column, justify="right")
    rows = 10_000
    while rows <= largest:
        X, y = _rows(rows)
        result = train(X, y, schedule=schedules.Constant(0.1), strategy="sequential", n_passes=3, n_threads=1)
        seconds = min(record.seconds for record in result.passes)
        table.add_row(f"{rows:,}", f"{seconds * 1e3:.2f}", f"{seconds / rows * 1e9:.1f}")
        rows *= 10
    console.print(table)


def _rows(rows: int) -> tuple[sp.csr_matrix, np.ndarray[tuple[int], np.dtype[np.int8]]]:
    rng = np.random.default_rng(0)
    indices = (rng.random(rows * WIDTH, np.float32) ** 3 * FEATURES).astype(np.int32)
    y = (indices[::WIDTH] % 2).astype(np.int8)
    starts = np.arange(0, rows * WIDTH + 1, WIDTH, dtype=np.int32)
    values = np.full(rows * WIDTH, WIDTH**-0.5, np.float32)
    return sp.csr_matrix((values, indices, starts), shape=(rows, FEATURES)), y
