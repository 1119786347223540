"""One small cluster for all tests of a process: workers are processes of their own, over TCP, as on machines apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dask

SETTINGS = {
    "distributed.scheduler.allowed-failures": 10,
    "distributed.worker.memory.terminate": False,
    "distributed.deploy.lost-worker-timeout": "300s",  # a busy machine takes longer than usual to start another
    "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": 1,
}


@contextmanager
def processes(n_workers: int, threads: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=threads,
            processes=True,
            protocol="tcp",
            dashboard_address=":0",
            memory_limit=None,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    with processes(2, 2) as client, client.as_current():
        yield client


@pytest.fixture(scope="module")
def mortal() -> Iterator[Any]:
    """Of workers that a test may kill."""
    with processes(2, 1) as client:
        yield client
