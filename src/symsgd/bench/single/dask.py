"""On Dask: how near the sequential run in the same order (:mod:`.dask_fidelity`), and two workers against one
(:mod:`.dask_workers`)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from symsgd.bench.single import dask_fidelity, dask_workers
from symsgd.bench.single.curvature import ALPHA

PARTS = ("fidelity", "workers")


def run(
    console: Console,
    folder: Path | None,
    sets: Sequence[str] | None = None,
    stores: Path | None = None,
    parts: Sequence[str] = PARTS,
) -> None:
    """``sets`` of either part; ``stores`` is a folder whose stores are used, or made if there are none."""
    try:
        import distributed
    except ImportError:
        console.print("dask: skipped: pip install 'symsgd[dask]'")
        return
    console.print(f"Dask's distributed {distributed.__version__}; logistic loss, L2 of {ALPHA:g}, constant step size")
    if "fidelity" in parts:
        dask_fidelity.run(console, folder, [name for name in dask_fidelity.SETS if not sets or name in sets])
    if "workers" in parts:
        names = [name for name in dask_workers.STORED if not sets or name in sets]
        with tempfile.TemporaryDirectory() as made:
            dask_workers.run(console, stores or Path(made), names)
