"""Data sets for the benchmarks, one source a file: twins, a folder that the user names, and public originals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from symsgd.bench.datasets import folder as folders
from symsgd.bench.datasets import public, twins
from symsgd.bench.datasets.base import Dataset
from symsgd.bench.datasets.folder import names_in
from symsgd.bench.datasets.twins import TWIN_SCALES

__all__ = ["TWIN_SCALES", "Dataset", "load", "names_in"]


def load(name: str, folder: Path | None, scales: Mapping[str, float] = TWIN_SCALES) -> Dataset:
    """The data set, or one without rows that says why."""
    found = twins.load(name, scales)
    if found is None and folder is not None and folders.has_sets(folder):
        found = folders.load(name, folder)
    if found is None:
        found = public.load(name)
    if found is not None:
        return found
    if folder is None:
        return Dataset(name, reason="no folder of data sets given (--data-dir)")
    if not folders.has_sets(folder):
        return Dataset(name, reason=f"{folder} has no {folders.MODULE}")
    return Dataset(name, reason=f"{folder / folders.MODULE} does not know it")
