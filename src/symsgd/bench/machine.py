"""What a table must say about where it was made."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from symsgd import _core
from symsgd.threads import available_cores


def describe() -> str:
    """One line: processor, cores, instruction set, versions."""
    names = ("symsgd", "scikit-learn", "numpy", "vowpalwabbit")
    libraries = ", ".join(f"{name} {_version(name)}" for name in names if _version(name))
    return f"{_processor()}, {available_cores()} cores, {_core.instruction_set()}; {platform.system()}; {libraries}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
