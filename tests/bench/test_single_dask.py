"""The benchmark of Dask's training prints its tables."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from symsgd.bench.datasets import Dataset
from symsgd.bench.single import dask_fidelity, dask_workers
from symsgd.data import twin


@contextmanager
def threads(n_workers: int, n_threads: int) -> Any:
    """A cluster in this process: what is tested here are tables."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,  # dask-ml asks for the last one made
    ):
        yield client


def test_fidelity(monkeypatch: pytest.MonkeyPatch) -> None:
    made = twin("rcv1", scale=0.002)
    data = Dataset("little", made.X, made.y, made.X_test, made.y_test)
    monkeypatch.setattr(dask_fidelity, "load", lambda name, folder: data)
    monkeypatch.setattr(dask_fidelity, "cluster", threads)
    monkeypatch.setattr(dask_fidelity, "STRATEGIES", {"symsgd, auto": "auto", "averaging": "averaging"})
    console = Console(record=True, width=250)
    dask_fidelity.run(console, None, ["little"], seeds=2, passes=1)
    text = console.export_text()
    assert re.search(r"symsgd, auto \| \.?\d.*✓", text)
    assert "dask-ml Incremental" in text


def test_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dask_workers, "cluster", threads)
    monkeypatch.setattr(dask_workers, "STORED", {"rcv1": (0.003, 0.3, 2)})
    console = Console(record=True, width=250)
    dask_workers.run(console, tmp_path, ["rcv1"], passes=2, runs=2)
    lines = [line.split("│")[1:-1] for line in console.export_text().splitlines() if line.startswith("│ rcv1 twin")]
    one, two, sequential, limit = ([cell.strip() for cell in line] for line in lines)
    assert one[6] == two[6]  # the same model
    assert abs(float(sequential[7])) < 1e-4
    for ratio in (two[5], limit[5]):
        assert re.fullmatch(r"\d+\.\d\d \(\d+\.\d\d to \d+\.\d\d\)", ratio)
    assert float(two[1].replace(",", "")) == 2 * len(twin("rcv1", scale=0.003).y)
