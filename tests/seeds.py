"""How long scripts that try things at random go on: `python SCRIPT [RUNS] [SEED]`, or FUZZ_SECONDS=… python SCRIPT."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable


def try_seeds(attempt: Callable[[int], None], most: int) -> int:
    """Calls ``attempt`` with SEED, SEED + 1, … RUNS times; if that is not said, for FUZZ_SECONDS or ``most`` times.

    Returns how often it did. The seed of what goes wrong is printed.
    """
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    end = float("inf")
    if len(sys.argv) > 1:
        most = int(sys.argv[1])
    elif "FUZZ_SECONDS" in os.environ:
        most, end = sys.maxsize, time.monotonic() + float(os.environ["FUZZ_SECONDS"])
    for seed in range(first, first + most):
        if time.monotonic() > end:
            return seed - first
        if (seed - first) % 1000 == 0:
            print(f"seed {seed}", flush=True)  # after a crash, the last of these says where to look
        try:
            attempt(seed)
        except BaseException:
            print(f"seed {seed} goes wrong", flush=True)
            raise
    return most
