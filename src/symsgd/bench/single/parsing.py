"""Reading text: svmlight by scikit-learn and by us, and the same rows by Vowpal Wabbit into its cache."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from symsgd.data import SvmlightReader, VowpalReader, read_svmlight, twin
from symsgd.data.dataset import Reader

SCIKIT_LEARN, VOWPAL_WABBIT = "scikit-learn, load_svmlight_file", "Vowpal Wabbit, --noop -c -k"
SCALE = 0.05  # of the twin of RCV1: 39 thousand rows, 2.9 million values, 74 MB

# `vw --noop -c -k -d FILE`, whose package has no command: reads the text, learns nothing, writes the rows to its cache
CACHE_BY_VOWPAL_WABBIT = """
import sys, time, vowpalwabbit
started = time.perf_counter()
vowpalwabbit.Workspace(f"--noop -k -d {sys.argv[1]} --cache_file {sys.argv[1]}.cache --quiet").finish()
print(time.perf_counter() - started)
"""


def run(console: Console, repeats: int = 5, scale: float = SCALE) -> None:
    """Each repeat reads the file once in every way; the fastest of each counts. The file is in the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        path, n_rows = _write(Path(folder), scale)
        _check_equal(path)
        vowpal_text = _as_vowpal(path)
        ways: dict[str, Callable[[], float]] = {
            SCIKIT_LEARN: partial(_timed, partial(load_svmlight_file, path, dtype=np.float32)),
        }
        for n in (1, 2):
            reads: dict[str, Callable[[], object]] = {
                "read_svmlight": partial(read_svmlight, path, n_threads=n),
                "SvmlightReader": partial(_stream, SvmlightReader(path, n_threads=n)),
                "VowpalReader": partial(_stream, VowpalReader(vowpal_text, n_threads=n)),
            }
            ways |= {f"symsgd, {name}, {n} thread(s)": partial(_timed, read) for name, read in reads.items()}
        if importlib.util.find_spec("vowpalwabbit") is not None:
            ways[VOWPAL_WABBIT] = lambda: _vowpal_wabbit(vowpal_text)
        best = _fastest(ways, repeats)
        table = Table(title=f"Reading {n_rows:,} rows of the twin of RCV1 as text; ratios are of rows a second")
        for column in ("reader", "MB", "s", "MB/s", "rows/s", "of scikit-learn", "of Vowpal Wabbit"):
            table.add_column(column, justify="left" if column == "reader" else "right")
        for name, seconds in best.items():
            megabytes = (vowpal_text if "owpal" in name else path).stat().st_size / 1e6
            table.add_row(
                name, f"{megabytes:.1f}", f"{seconds:.3f}", f"{megabytes / seconds:.0f}", f"{n_rows / seconds:,.0f}",
                *(f"{best[other] / seconds:.2f}" if other in best else "" for other in (SCIKIT_LEARN, VOWPAL_WABBIT)),
            )  # fmt: skip
        console.print(table)
        if VOWPAL_WABBIT in best:
            cache = Path(f"{vowpal_text}.cache").stat().st_size / 1e6
            console.print(f"Vowpal Wabbit's time includes writing its cache of {cache:.1f} MB.")
        else:
            console.print("Vowpal Wabbit: skipped, vowpalwabbit is not installed")


def _write(folder: Path, scale: float) -> tuple[Path, int]:
    data = twin("rcv1", scale=scale)
    path = folder / "rows.svm"
    dump_svmlight_file(data.X, data.y, str(path), zero_based=False)
    return path, data.X.shape[0]


def _as_vowpal(path: Path) -> Path:
    """The same rows with the same digits."""
    text = path.with_suffix(".vw")
    with path.open() as rows, text.open("w") as out:
        out.writelines(line.replace(" ", " | ", 1) for line in rows)
    return text


def _check_equal(path: Path) -> None:
    X, y = load_svmlight_file(path, dtype=np.float32)
    ours = read_svmlight(path)
    for theirs, mine in ((X.data, ours.X.data), (X.indices, ours.X.indices), (X.indptr, ours.X.indptr), (y, ours.y)):
        np.testing.assert_array_equal(theirs, mine)


def _fastest(ways: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    best = dict.fromkeys(ways, math.inf)
    for _ in range(repeats):
        for name, way in ways.items():
            best[name] = min(best[name], way())
    return best


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _stream(reader: Reader) -> None:
    for _ in reader.parts():
        pass


def _vowpal_wabbit(path: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", CACHE_BY_VOWPAL_WABBIT, str(path)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])
