"""The client holds the model and nothing of the rows: its memory stays flat on data four times larger than what it
may take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dask_cases import sparse_rows, write_store

CODE = """
import sys
from pathlib import Path

def anonymous():
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024

from distributed import Client
from symsgd import schedules
from symsgd.dask import train

scheduler, path = sys.argv[1:]
with Client(scheduler) as client:
    choices = dict(schedule=schedules.Constant(0.02), blocks=4, strategy="mr-symsgd")
    train(client, path, **choices, n_passes=1)  # what libraries take, and the sample
    before = anonymous()
    seen = []
    train(client, path, **choices, n_passes=4, callbacks=lambda record: seen.append(anonymous()))
print(before, *seen)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say how much memory is used")
def test_the_memory_of_the_client_stays_flat(client: Any, tmp_path: Path) -> None:
    X, y = sparse_rows(400_000, 5_000, 40)
    path = write_store(tmp_path / "rows.store", X, y)
    size = path.stat().st_size
    assert size > 60e6
    done = subprocess.run(
        [sys.executable, "-c", CODE, client.scheduler.address, str(path)],
        capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, *seen = map(int, done.stdout.split())
    assert len(seen) == 4
    assert max(seen) - before < size / 4, (before, seen, size)
    assert seen[-1] - seen[0] < 8e6  # and does not creep
