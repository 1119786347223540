"""What a fit needs beyond its input: its peak memory, less what was there before. Linux only."""

from __future__ import annotations

import subprocess
import sys

from rich.console import Console
from rich.table import Table

SCRIPT = """
import sys
import numpy as np, scipy.sparse as sp
import sklearn.linear_model, symsgd
library, layout, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(0)
width = 100
if layout == "dense":
    X = np.empty((rows, width), np.float32)
    for begin in range(0, rows, 10000):
        X[begin:begin + 10000] = rng.random((min(10000, rows - begin), width), np.float32)
else:
    indices = np.empty(rows * width, np.int32)
    for begin in range(0, rows * width, 1000000):
        indices[begin:begin + 1000000] = rng.integers(0, 50000, min(1000000, rows * width - begin), np.int32)
    starts = np.arange(0, rows * width + 1, width, dtype=np.int32)
    X = sp.csr_matrix((np.full(rows * width, 0.1, np.float32), indices, starts), shape=(rows, 50000))
y = rng.integers(0, 2, rows, np.int8)
Model = (symsgd if library == "symsgd" else sklearn.linear_model).SGDClassifier
Model(loss="log_loss", max_iter=1, tol=None).fit(X[:1000], y[:1000])  # imports and first uses are not the fit's
def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
before = status("VmRSS")
Model(loss="log_loss", max_iter=3, tol=None, random_state=0).fit(X, y)
print(status("VmHWM") - before)
"""


def run(console: Console, rows: int = 400_000) -> None:
    """One row per library and layout; every fit in a process of its own."""
    table = Table(title=f"Peak memory of a fit over its input, {rows:,} rows x 100 float32 values")
    for column in ("layout", "library", "input, MB", "over the input, MB"):
        table.add_column(column, justify="left" if column in ("layout", "library") else "right")
    for layout, size in (("dense", rows * 100 * 4), ("CSR", rows * 100 * 8)):
        for library in ("symsgd", "scikit-learn"):
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT, library, layout, str(rows)], capture_output=True, text=True, check=True
            )
            over = float(done.stdout.split()[-1])
            table.add_row(layout, library, f"{size / 1e6:.0f}", f"{over / 1e6:.1f}")
    console.print(table)
