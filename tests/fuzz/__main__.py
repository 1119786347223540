"""Fuzzes one reader of Python: whatever the bytes are, it reads them or refuses them by its own kind of error.

    PYTHONPATH=tests python -m fuzz TARGET [libFuzzer's options and folders of inputs]

Coverage-guided by atheris where that is installed (`pip install atheris`; there are wheels for Linux); else seeds are
changed at random, and it says so. A target is a module of this folder with ``SEEDS`` and ``attempt``.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
TARGETS = sorted(own.stem for own in HERE.glob("*.py") if own.stem not in ("__main__", "forms"))


def guided(target: str, arguments: list[str]) -> None:
    """By atheris, which does not return."""
    import atheris

    with atheris.instrument_imports(include=["symsgd"]):
        module = import_module(f"fuzz.{target}")
    with tempfile.TemporaryDirectory() as folder:
        for at, seed in enumerate(module.SEEDS):
            (Path(folder) / str(at)).write_bytes(seed)
        atheris.Setup(
            [target, "-keep_seed=1", *arguments, folder],
            module.attempt,
            custom_mutator=lambda *own: mutated(atheris.Mutate, *own),
        )
        atheris.Fuzz()


NASTY = [0, 1, -1, 7, 1 << 31, 1 << 32, (1 << 62) - 1, 1 << 64, 1e308, 0.5, None, True, "", "x", "0x1p+3", [], {}]


def with_a_value_changed(data: bytes, rng: random.Random) -> bytes:
    """The JSON that some bytes end with, one of its values replaced, or moved to the place of another."""
    begin = data.index(b"{")
    document = json.loads(data[begin:])
    places: list[tuple[Any, Any]] = []
    inner: list[Any] = [document]
    while inner:
        own = inner.pop()
        for key in own if isinstance(own, dict) else range(len(own)):
            places.append((own, key))
            if isinstance(own[key], dict | list):
                inner.append(own[key])
    for _ in range(rng.randint(1, 3)):
        (own, key), (other, there) = rng.choice(places), rng.choice(places)
        match rng.randrange(4):
            case 0:
                own[key] = json.loads(json.dumps(other[there]))
            case 1:
                own[key] = own[key] + rng.choice([-1, 1, 8]) if type(own[key]) is int else None
            case _:
                own[key] = rng.choice(NASTY)
    return data[:begin] + json.dumps(document).encode()


def mutated(mutate: Callable[[bytes, int], bytes], data: bytes, most: int, seed: int) -> bytes:
    """By libFuzzer, or by ``with_a_value_changed`` where there is JSON."""
    rng = random.Random(seed)
    if rng.random() < 0.5:
        with suppress(ValueError, IndexError, KeyError, RecursionError):
            return with_a_value_changed(data, rng)[:most]
    return mutate(data, most)


def changed(module: ModuleType, rng: random.Random) -> bytes:
    """A seed with some bytes changed, moved, left out, or those of another in their place."""
    data = bytearray(rng.choice(module.SEEDS))
    if rng.random() < 0.5:
        with suppress(ValueError, IndexError):
            return with_a_value_changed(bytes(data), rng)
    for _ in range(rng.randint(1, 6)):
        at, length = rng.randint(0, len(data)), rng.randint(1, 16)
        match rng.randrange(5):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[rng.randint(0, len(data)) :][:length]
            case 3:
                data[at : at + length] = rng.choice(module.SEEDS)[at : at + length]
            case 4:
                data[at:at] = rng.choice(
                    [b"0", b"-1", b"1e999", b"null", b"[]", b"{}", b'"', b"\xff", b"99999999999999"]
                )
    return bytes(data)


def at_random(target: str, arguments: list[str]) -> None:
    module = import_module(f"fuzz.{target}")
    seconds = next((float(own.partition("=")[2]) for own in arguments if own.startswith("-max_total_time=")), 60.0)
    end, rng, runs = time.monotonic() + seconds, random.Random(0), 0
    while time.monotonic() < end:
        data = module.SEEDS[runs] if runs < len(module.SEEDS) else changed(module, rng)
        try:
            module.attempt(data)
        except BaseException:
            Path("last-input").write_bytes(data)
            print(f"{target}: an input goes wrong; it is in {Path('last-input').absolute()}", flush=True)
            raise
        runs += 1
    print(f"{target}: {runs} inputs, nothing found")


def main() -> None:
    target, *arguments = sys.argv[1:] or [""]
    if target not in TARGETS:
        sys.exit(f"{target!r} is no target; there are {', '.join(TARGETS)}")
    try:
        import atheris  # noqa: F401
    except ImportError as error:
        print(f"{target}: without coverage, since atheris cannot be imported ({error}); seeds are changed at random")
        at_random(target, arguments)
    else:
        guided(target, arguments)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
