"""How many threads to use."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from numbers import Integral
from pathlib import Path


def available_cores() -> int:
    """Cores this process may use: its affinity, and the limit of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _group_limit()))


def _group_limit() -> int:
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return math.ceil(int(quota) / int(period)) if quota != "max" else 1 << 30
    except (OSError, ValueError):
        return 1 << 30


def available_memory() -> int:
    """Bytes of main memory this process may use: the machine's, and the limit of its control group."""
    if not hasattr(os, "sysconf"):
        return 1 << 62
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _memory_limits():
        with suppress(OSError, ValueError):
            memory = min(memory, int(limit.read_text()))
    return memory


def _memory_limits() -> list[Path]:
    """Files that may have a limit: of the process's control group and of those above it, in either version of them."""
    files = [Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers == "":
                folder, name = Path("/sys/fs/cgroup"), "memory.max"
            elif "memory" in controllers.split(","):
                folder, name = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
            else:
                continue
            for part in Path(group.lstrip("/")).parts:
                folder = folder / part
                files.append(folder / name)
    return files


def _environment_limit() -> int:
    limit = 1 << 30
    for variable in ("SYMSGD_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(variable, "")
        if text.isdigit() and int(text) > 0:
            limit = min(limit, int(text))
    return limit


def resolve_threads(n_jobs: int | None, argument: str = "n_jobs") -> int:
    """``None``: every core, but one inside a joblib worker; −1: every core, −2: all but one, …; else that many."""
    if n_jobs is None:
        import joblib.parallel  # here: it takes longer than all that the command line's help needs

        backend, _ = joblib.parallel.get_active_backend()
        nested = (getattr(backend, "nesting_level", 0) or 0) > 0
        return 1 if nested else min(available_cores(), _environment_limit())
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"{argument}={n_jobs!r} is not accepted; it must be None or an integer other than 0")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))
