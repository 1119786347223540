"""The twins: "rcv1 twin" and so on."""

from __future__ import annotations

from collections.abc import Mapping

from symsgd.bench.datasets.base import Dataset
from symsgd.data import twin

SUFFIX = " twin"

# 10 to 25 million stored numbers to train on: seconds a run, and more than the caches hold
TWIN_SCALES: Mapping[str, float] = {
    "rcv1": 0.2,
    "adclick": 0.04,
    "epsilon": 0.025,
    "url": 0.1,
    "criteo": 0.5,
    "webspam": 0.02,
}


def load(name: str, scales: Mapping[str, float]) -> Dataset | None:
    """The twin, at its scale; None if the name is not one of a twin."""
    original = name.removesuffix(SUFFIX)
    if original == name or original not in TWIN_SCALES:
        return None
    data = twin(original, scales.get(original, TWIN_SCALES[original]))
    return Dataset(name, data.X, data.y, data.X_test, data.y_test)
