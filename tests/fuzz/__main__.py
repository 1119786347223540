"""Fuzzes one reader of Python: whatever the bytes are, it reads them or refuses them by its own kind of error.

    PYTHONPATH=tests python -m fuzz TARGET [libFuzzer's options and folders of inputs]

Coverage-guided by atheris where that is installed (`pip install atheris`; there are wheels for Linux); else seeds are
changed at random, and it says so. A target is a module of this folder with ``SEEDS`` and ``attempt``.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

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
        atheris.Setup([target, "-keep_seed=1", *arguments, folder], module.attempt)
        atheris.Fuzz()


def changed(module: ModuleType, rng: random.Random) -> bytes:
    """A seed with some bytes changed, moved, left out, or those of another in their place."""
    data = bytearray(rng.choice(module.SEEDS))
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
