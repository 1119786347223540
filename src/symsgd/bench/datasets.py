"""Data sets for the benchmarks: the built-in twins, and real ones from a folder the user names.

A folder with a ``realdata.py`` that has ``load(name)`` and ``NAMES`` is used as it is; ``load`` returns ``X_train``,
``y_train``, ``X_test``, ``y_test`` and ``task``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symsgd.data import twin

# 10 to 25 million stored numbers to train on: seconds a run, and more than the caches hold
TWIN_SCALES: Mapping[str, float] = {
    "rcv1": 0.2,
    "adclick": 0.04,
    "epsilon": 0.025,
    "url": 0.1,
    "criteo": 0.5,
    "webspam": 0.02,
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test rows; ``reason`` says why there are none."""

    name: str
    X: Any = None
    y: Any = None
    X_test: Any = None
    y_test: Any = None
    task: str = "binary"
    reason: str = ""


def load(name: str, folder: Path | None, scales: Mapping[str, float] = TWIN_SCALES) -> Dataset:
    """The data set, or one without rows that says why; "rcv1 twin" is the twin of rcv1, and so on."""
    original = name.removesuffix(" twin")
    if original != name and original in scales:
        data = twin(original, scales[original])
        return Dataset(name, data.X, data.y, data.X_test, data.y_test)
    if folder is None:
        return Dataset(name, reason="no folder of data sets given (--data-dir)")
    if not (folder / "realdata.py").is_file():
        return Dataset(name, reason=f"{folder} has no realdata.py")
    module = _loader(folder)
    if name not in module.NAMES:
        return Dataset(name, reason=f"{folder / 'realdata.py'} does not know it")
    data = module.load(name)
    return Dataset(name, data.X_train, data.y_train, data.X_test, data.y_test, data.task)


def names_in(folder: Path | None) -> list[str]:
    """The real data sets of a folder."""
    return list(_loader(folder).NAMES) if folder is not None and (folder / "realdata.py").is_file() else []


def _loader(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("realdata", folder / "realdata.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
