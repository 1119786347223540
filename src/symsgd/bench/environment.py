"""Where a measurement was made: what a row must say so that it can be compared with another."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from symsgd import _core
from symsgd.threads import available_cores

LIBRARIES = (
    "symsgd", "numpy", "scipy", "scikit-learn", "vowpalwabbit", "liblinear-official", "liblinear-multicore", "snapml",
    "xlearn", "torch", "cupy-cuda12x", "cupy-cuda13x",
)  # fmt: skip


@dataclass(frozen=True)
class Environment:
    """The machine, and what ran on it. ``commit`` is empty where the package is not in a checkout."""

    processor: str
    cores: int
    memory: float  # GB
    gpu: str
    instruction_set: str
    pinned: bool
    system: str
    python: str
    commit: str
    versions: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def here() -> Environment:
        return Environment(
            processor=_processor(),
            cores=available_cores(),
            memory=round(_memory() / 1e9, 1),
            gpu=_gpu(),
            instruction_set=_core.instruction_set(),
            pinned=os.environ.get("SYMSGD_PIN_THREADS") == "1",
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
            commit=_commit(),
            versions={name: found for name in LIBRARIES if (found := _version(name))},
        )

    @property
    def machine(self) -> str:
        """The machine alone, in words: runs on another one are not compared."""
        graphics = f", {self.gpu}" if self.gpu else ""
        return f"{self.processor}, {self.cores} cores, {self.memory:g} GB{graphics}"

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def describe() -> str:
    """One line: machine, instruction set, versions."""
    here = Environment.here()
    libraries = ", ".join(f"{name} {own}" for name, own in here.versions.items())
    return f"{here.machine}, {here.instruction_set}; {here.system}; {libraries}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpu() -> str:
    """As the driver names it; empty where there is none."""
    try:
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ", ".join(done.stdout.split("\n")).strip(", ")


def _commit() -> str:
    """Of the checkout that the package is imported from, with a + where files have changed since."""
    folder = Path(__file__).parent
    try:
        command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
