"""Fuzzes the store: damage of all kinds is refused or does no harm.

    FUZZ_SECONDS=60 python tests/fuzz_store.py
    python tests/fuzz_store.py RUNS SEED

Names the seed of the first run that goes wrong. After a crash it is one of the thousand from the seed of the last line
on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from seeds import try_seeds
from store_cases import quick_folder, replace_table, source, superblock_of, use, weighted, write
from symsgd.errors import StoreError

NUMBERS = [0, 1, -1, 7, 1 << 16, 1 << 31, 1 << 32, (1 << 62) - 1, 1 << 63, 1 << 64, 1e308, 0.5]
NASTY = [*NUMBERS, None, True, "", "x", [], {}]


def small_store(path: Path, rng: np.random.Generator) -> None:
    """Of any kind, appended to now and then."""
    path.unlink(missing_ok=True)
    for append in [False] + [True] * int(rng.integers(0, 3)) * int(rng.random() < 0.3):
        if not append:
            sparse, width = bool(rng.random() < 0.7), int(rng.integers(1, 40))
        sizes = rng.integers(0, 60, 2).tolist()
        known = source(int(rng.integers(1000)), sizes, width, sparse)
        write(path, weighted(known, (rng.random(2) < 0.3).tolist()), append=append)


def damage_anywhere(path: Path, rng: np.random.Generator) -> None:
    """Bytes flipped, runs zeroed or moved, the end cut off; mostly where the file is not empty."""
    data = bytearray(path.read_bytes())
    places = [*range(64), *range(4096, 4160), *np.flatnonzero(np.frombuffer(bytes(data), np.uint8)).tolist()]
    for _ in range(int(rng.integers(1, 6))):
        at, length = int(rng.choice(places)), int(rng.integers(1, 64))
        match rng.integers(4):
            case 0:
                data[at : at + 1] = bytes([int(rng.integers(256))])
            case 1:
                data[at : at + length] = bytes(len(data[at : at + length]))
            case 2:
                data[at : at + length] = data[at + length : at + 2 * length]
            case 3:
                del data[max(at, int(rng.integers(len(data)))) :]
        places = [place for place in places if place < len(data)] or [0]
        if not data:
            break
    path.write_bytes(data)


def damage_table(path: Path, rng: np.random.Generator) -> None:
    """Values of the table of contents replaced, with checksums that fit."""
    place = superblock_of(path).table
    table = json.loads(path.read_bytes()[place.offset : place.end])
    for _ in range(int(rng.integers(1, 4))):
        inner: Any = table
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            if not keys:
                break
            key = keys[int(rng.integers(len(keys)))]
            if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.9:
                inner = inner[key]
                continue
            old = inner[key]
            near = old + int(rng.integers(-2, 3)) * int(rng.choice([1, 8, 1 << 16])) if type(old) is int else old
            inner[key] = near if rng.random() < 0.5 else NASTY[int(rng.integers(len(NASTY)))]
            break
    replace_table(path, json.dumps(table).encode())


MUTATIONS: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "anywhere": damage_anywhere,
    "table": damage_table,
}


def damage_once(path: Path, seed: int) -> bool:
    """Whether the damage was noticed; if not, it must have done no harm, unless checksums were made to fit."""
    rng = np.random.default_rng(seed)
    small_store(path, rng)
    before = use(path)
    kind = sorted(MUTATIONS)[seed % 2]
    MUTATIONS[kind](path, rng)
    try:
        after = use(path)
    except StoreError:
        return True
    assert kind == "table" or before == after
    return False


def main() -> None:
    noticed = 0
    with quick_folder() as folder:

        def attempt(seed: int) -> None:
            nonlocal noticed
            noticed += damage_once(Path(folder) / "rows.store", seed)

        n_runs = try_seeds(attempt, 10_000)
    print(f"{n_runs} damaged stores, {noticed} of them refused, the others unharmed")


if __name__ == "__main__":
    main()
