"""Workers that die, at any moment, and clients that do: the training ends, with the same bits."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

import dask
import symsgd.dask.cluster
from dask_cases import CHOICES, cut, pieces, sparse_rows, write_store
from symsgd import CheckpointError
from symsgd.combiners import Curvature
from symsgd.dask import train
from symsgd.strategies import MapReduce

KILLS = int(os.environ.get("SYMSGD_KILLS", "4"))  # as many as you have the patience for
SETTINGS: dict[str, Any] = {**CHOICES, "strategy": MapReduce(Curvature(), block_size=250), "blocks": 4, "n_threads": 1}


@contextmanager
def killer(client: Any, seed: int, kills: int) -> Iterator[list[int]]:
    """Kills workers at random moments while the block runs, one after the other; the nannies bring up new ones."""
    rng = np.random.default_rng(seed)
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(float(rng.uniform(0.02, 0.5))) and len(killed) < kills:
            pids = sorted(client.run(os.getpid, on_error="ignore").values())
            pids = [pid for pid in pids if isinstance(pid, int)]
            if pids:
                try:
                    os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
                    killed.append(pids[0])
                except ProcessLookupError:
                    pass

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    return sparse_rows(8_000, 300)


@pytest.mark.parametrize("source", ["array", "stores"])
def test_killing_workers_at_random_moments_changes_nothing(
    mortal: Any, rows: tuple[Any, Any], tmp_path: Path, source: str
) -> None:
    X, y = rows
    if source == "stores":
        data: Any = [write_store(tmp_path / f"{a}.store", X[a:b], y[a:b]) for a, b in cut(len(y), 4)]
        targets = None
    else:
        spans = cut(len(y), 4)
        meta = X[:0]
        blocks = [dask.delayed(X[a:b]) for a, b in spans]
        data = da.concatenate([da.from_delayed(block, (2_000, 300), X.dtype, meta=meta) for block in blocks])
        targets = da.from_array(y, chunks=2_000)
    mortal.wait_for_workers(2, timeout=300)
    undisturbed = train(mortal, data, targets, **SETTINGS)
    with killer(mortal, seed=len(source), kills=KILLS) as killed:
        disturbed = train(mortal, data, targets, **{**SETTINGS, "n_passes": 2 * KILLS})
    assert len(killed) >= KILLS / 2
    again = train(mortal, data, targets, **{**SETTINGS, "n_passes": 2 * KILLS})
    assert np.array_equal(disturbed.coef, again.coef)
    assert np.array_equal(disturbed.intercept, again.intercept)
    assert [record.error for record in disturbed.passes] == [record.error for record in again.passes]
    assert disturbed.passes[1].loss == undisturbed.passes[1].loss


def test_a_client_that_died_goes_on_from_the_checkpoint(client: Any, rows: tuple[Any, Any], tmp_path: Path) -> None:
    X, y = rows
    store = write_store(tmp_path / "rows.store", X, y)
    settings = {**SETTINGS, "n_passes": 4, "strategy": MapReduce(Curvature(), block_size="auto")}
    undisturbed = train(client, store, **settings)

    class PowerCutError(Exception):
        pass

    def cut_off(record: Any) -> None:
        if record.number == 3:
            raise PowerCutError

    where = tmp_path / "training.ckpt"
    with pytest.raises(PowerCutError):
        train(client, store, **settings, checkpoint=where, callbacks=cut_off)
    resumed = train(client, store, **settings, checkpoint=where)
    assert np.array_equal(resumed.coef, undisturbed.coef)
    assert np.array_equal(resumed.intercept, undisturbed.intercept)
    assert [len(rounds) for rounds in resumed.rounds][:2] == [0, 0]  # were not trained again
    assert [r.error for r in resumed.passes] == [r.error for r in undisturbed.passes]
    for number in range(4):
        assert np.array_equal(resumed.journal.order(number), undisturbed.journal.order(number))
    with pytest.raises(CheckpointError, match="blocks and n_threads was 4, 1 and is 5, 1"):
        train(client, store, **{**settings, "blocks": 5}, checkpoint=where)
    other = write_store(tmp_path / "other.store", X[1:], y[1:])
    with pytest.raises(CheckpointError, match="X, y and sample_weight was"):
        train(client, other, **settings, checkpoint=where)


def test_a_store_that_is_not_there_or_not_the_same(client: Any, rows: tuple[Any, Any], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="every worker opens it by that path"):
        train(client, tmp_path / "nothing.store", **SETTINGS)
    from symsgd.dask.rows import Stored
    from symsgd.errors import StoreError

    path = write_store(tmp_path / "own.store", *rows)
    with pytest.raises(StoreError, match="every worker needs the same store"):
        Stored(str(path), 1, 5).open()


def test_no_worker_at_all_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster

    monkeypatch.setattr(symsgd.dask.cluster, "PATIENCE", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as none,
        Client(none, set_as_default=False) as client,
        pytest.raises(RuntimeError, match=r"the cluster has had no worker for 0\.2 seconds"),
    ):
        symsgd.dask.cluster.Cluster(client, None, None, None).persist(list)  # type: ignore[arg-type]


def test_scattered_data_that_died_with_its_worker_is_a_clear_error(mortal: Any, rows: tuple[Any, Any]) -> None:
    X, y = rows
    mortal.wait_for_workers(2, timeout=300)
    parts = list(mortal.scatter(pieces(X, y, 2), hash=False))

    def kill_all(record: Any) -> None:
        if record.number == 1:
            for pid in mortal.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(RuntimeError, match="cannot be computed again; give a collection"):
        train(mortal, parts, **SETTINGS, callbacks=kill_all)
