"""One small cluster for all tests of a process: workers are processes of their own, over TCP, as on machines apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import dask

SETTINGS = {
    "distributed.scheduler.allowed-failures": 10,
    "distributed.worker.memory.terminate": False,
    "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": 1,
}


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, protocol="tcp", dashboard_address=None, memory_limit=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
