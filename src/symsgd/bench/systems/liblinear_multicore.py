"""liblinear-multicore: LIBLINEAR's Newton method on all cores.

Its module has the name of LIBLINEAR's own, so it is looked for in a folder apart, which `make bench` fills.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from symsgd.bench.systems.base import Task
from symsgd.bench.systems.liblinear import Liblinear


def folder() -> Path:
    return Path(sys.prefix) / "peers" / "liblinear-multicore"


class LiblinearMulticore(Liblinear):
    """-s 0 -m threads. Only in a process of its own: the folder goes before all others."""

    name: ClassVar[str] = "liblinear-multicore"
    package: ClassVar[str] = "liblinear-multicore"

    def is_installed(self) -> bool:
        return (folder() / self.module).is_dir()

    def how_to_install(self) -> str:
        return f"pip install --no-deps --target {folder()} {self.package}"

    def set_up(self, task: Task) -> None:
        if str(folder()) not in sys.path:
            sys.path.insert(0, str(folder()))
        super().set_up(task)

    def options(self, budget: int) -> str:
        return f"{super().options(budget)} -m {self.task.n_threads}"
