"""Real sets of a folder that the user names.

Its ``realdata.py`` has ``NAMES`` and ``load(name)``, which returns ``X_train``, ``y_train``, ``X_test``, ``y_test`` and
``task``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from symsgd.bench.datasets.base import Dataset

MODULE = "realdata.py"


def load(name: str, folder: Path) -> Dataset | None:
    """The set; None if the folder does not know it."""
    module = _module(folder)
    if name not in module.NAMES:
        return None
    try:
        data = module.load(name)
    except Exception as error:  # whatever it is: the other sets go on
        return Dataset(name, reason=f"{folder / MODULE} could not load it: {type(error).__name__}: {error}")
    return Dataset(name, data.X_train, data.y_train, data.X_test, data.y_test, data.task)


def has_sets(folder: Path | None) -> bool:
    return folder is not None and (folder / MODULE).is_file()


def names_in(folder: Path | None) -> list[str]:
    """The real data sets of a folder."""
    return list(_module(folder).NAMES) if folder is not None and has_sets(folder) else []


def _module(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("realdata", folder / MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
