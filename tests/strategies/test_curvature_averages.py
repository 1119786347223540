"""Means of the iterates, merged by the curvature: what a block had missed is in its sums as long as it would have
been kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from curvature_cases import curved, sequential, trained
from strategy_cases import dense_rows, laid_out, targets
from symsgd import losses, penalties, schedules
from symsgd.training import Result

CASE: dict[str, Any] = {"penalty": penalties.L2(1e-2), "schedule": schedules.Constant(0.02), "n_passes": 2}


def apart(found: Result, wanted: Result) -> tuple[float, float]:
    """How far the means are from one another, as a share of their size."""
    coef, intercept = np.asarray(wanted.average_coef), np.asarray(wanted.average_intercept)
    size = np.linalg.norm(coef)
    off = np.linalg.norm(np.asarray(found.average_coef) - coef) / size
    return float(off), float(np.abs(np.asarray(found.average_intercept) - intercept).max() / size)


@pytest.mark.parametrize("average", [True, 150, 390, 10**6])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("n_threads", [2, 3, 9])
def test_refined_to_the_end_they_are_sequential(n_threads: int, layout: str, average: Any) -> None:
    """From the first step, from the middle of a block, from the second pass, from a step that never comes."""
    X = dense_rows(233, 7)
    for y in (targets(X, losses.LogLoss()), np.arange(233) % 3):
        case = CASE | {"average": average}
        wanted = sequential(laid_out(X, layout), y, **case)
        found = trained(laid_out(X, layout), y, curved(10, refine=2 * n_threads), n_threads, **case)
        np.testing.assert_allclose(found.coef, wanted.coef, atol=1e-10)
        if average != 10**6:
            assert max(apart(found, wanted)) < 1e-10


@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_of_rows_that_are_all_alike(l2: float) -> None:
    """Every block's derivative is the mean's, up to how far an exponential is from a product."""
    x = np.array([1.0, -0.5, 0.25])
    X, y = np.tile(x, (600, 1)), np.full(600, 2.0)
    case = {
        "loss": "squared_error", "penalty": penalties.L2(l2), "schedule": schedules.Constant(0.002), "n_passes": 1,
        "average": True, "shuffle": False,
    }  # fmt: skip
    wanted = sequential(X, y, **case)
    for n_threads in (2, 4, 10):
        for refine in (0, 1):
            found = trained(X, y, curved(60, refine=refine), n_threads, **case)
            assert max(apart(found, wanted)) < 2e-3


@pytest.mark.parametrize("n_threads", [2, 5, 16])
def test_they_are_as_near_as_the_model(n_threads: int) -> None:
    X = dense_rows(4000, 12)
    y = targets(X, losses.LogLoss())
    for matrix in (X, sp.csr_matrix(X)):
        case = CASE | {"average": 500, "n_passes": 3}
        wanted = sequential(matrix, y, **case)
        for strategy in (curved(8, refine=0), curved()):
            found = trained(matrix, y, strategy, n_threads, **case)
            assert max(apart(found, wanted)) < 0.05


def test_merges_that_are_undone_leave_the_mean_as_it_was() -> None:
    """Labels that can be told apart, and steps far too large for any merge."""
    X = dense_rows(2000, 8)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    case = {"penalty": None, "schedule": schedules.Constant(5.0), "n_passes": 2, "average": True}
    found = trained(X, y, curved(25), 2, **case)
    assert sum(record.caught for record in found.passes) > 0
    wanted = sequential(X, y, **case)
    assert max(apart(found, wanted)) < 1.0
