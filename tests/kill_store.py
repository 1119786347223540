"""Kills processes that convert and append, at random moments, and looks at what is left.

    python tests/kill_store.py [KILLS] [SEED]

A child writes a store and appends to it, again and again, and says so after each time. It is killed (SIGKILL), and then
the store must open, be whole, have at least the rows that the child spoke of, and at most one batch more.
"""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import numpy as np

from seeds import try_seeds
from store_cases import assert_holds, quick_folder, source, together, write
from symsgd.data.dataset import gather
from symsgd.data.store import open_store

BATCH = 700
BATCHES = [source(i, [400, BATCH - 400]) for i in range(6)]


def work(path: Path, pipe: int) -> None:
    """Says how many batches there are, 0 while the store of the last round is about to be replaced."""
    while True:
        for i, batch in enumerate(BATCHES):
            if i == 0:
                os.write(pipe, bytes([0]))
            write(path, batch, append=i > 0)
            os.write(pipe, bytes([i + 1]))


def kill_once(path: Path, rng: np.random.Generator) -> tuple[int, int]:
    """The number of batches that the child said there were, and that there are."""
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(path, mouth)
        finally:
            os._exit(1)
    os.close(mouth)
    heard = os.read(ear, 1)
    for _ in range(int(rng.integers(0, 12))):
        heard = os.read(ear, 1)
    select.select([], [], [], rng.random() * 2e-3)  # somewhere in the next batch
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(ear, 64):
        heard = more
    os.close(ear)
    said = heard[-1]
    if not path.exists():
        return said, 0
    store = open_store(path)
    there = len(store) // BATCH
    assert len(store) == there * BATCH
    assert_holds(store, gather(together(*BATCHES[:there])))
    return said, there


def main() -> None:
    ahead = 0
    with quick_folder() as folder:
        path = Path(folder) / "rows.store"

        def attempt(seed: int) -> None:
            nonlocal ahead
            if seed % 3 == 0:
                path.unlink(missing_ok=True)
            before = len(open_store(path)) // BATCH if path.exists() else 0
            said, there = kill_once(path, np.random.default_rng(seed))
            # while a round's first batch is on its way, what was there before is, or the whole of the last round
            fine = {said, said + 1} if said else {before, len(BATCHES), 1}
            assert there in fine, f"{said} batches were acknowledged, and {there} are there"
            ahead += there == said + 1

        n_kills = try_seeds(attempt, 1000)
    print(f"{n_kills} kills, {ahead} of them between a write that counts and the word of it")


if __name__ == "__main__":
    main()
