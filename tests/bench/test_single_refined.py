"""The benchmark of rounds that are refined to the end."""

from __future__ import annotations

import numpy as np
import pytest

from symsgd.bench.datasets import Dataset
from symsgd.bench.single import refined
from symsgd.bench.single.curvature import cases_of

pytestmark = pytest.mark.usefixtures("rounds_on_small_problems")


def small(task: str) -> Dataset:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 5)).astype(np.float32)
    y = X @ rng.standard_normal(5) + 0.3 * rng.standard_normal(900)
    y = y if task == "regression" else y > 0
    return Dataset("small", X, y, X, y, task)


def test_cases() -> None:
    assert list(cases_of(small("binary"), "log_loss"))[-1] == "default"
    assert len(cases_of(small("binary"), "squared_error")) == 2
    assert cases_of(small("regression"), "hinge") == {}


def test_rounds_refined_to_the_end_are_the_sequential_run() -> None:
    data = small("binary")
    for fit in cases_of(data, "log_loss").values():
        difference, distance, same_passes = refined.compare(data, "log_loss", fit)
        assert same_passes
        assert abs(difference) < 1e-5
        assert distance < 1e-4
