"""L1 and the elastic net, merged by the curvature: what has been paid, and what has been cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from curvature_cases import curved, sequential, trained
from strategy_cases import dense_rows, laid_out, targets
from symsgd import losses, penalties, schedules
from symsgd.combiners import Sum
from symsgd.strategies import MapReduce

CASE: dict[str, Any] = {"schedule": schedules.Constant(0.01), "n_passes": 3}
PENALTIES = [penalties.L1(3e-3), penalties.L1(3e-2), penalties.ElasticNet(1e-2, 0.3)]


def apart(found: Any, wanted: Any) -> float:
    return float(np.linalg.norm(found.coef - wanted.coef) / np.linalg.norm(wanted.coef))


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("loss", [losses.LogLoss(), losses.SquaredError()], ids=lambda loss: loss.name)
def test_near_the_sequential_run(loss: Any, penalty: Any, layout: str) -> None:
    """Nearer than by adding movements up, which pays the penalty as often as there are blocks, and with its zeros."""
    X = dense_rows(3000, 12, density=1.0 if layout == "dense" else 0.4)
    y = targets(X, loss)
    matrix, case = laid_out(X, layout), CASE | {"loss": loss, "penalty": penalty}
    wanted = sequential(matrix, y, **case)
    for n_threads in (2, 4):
        found = trained(matrix, y, curved(16, refine=0), n_threads, **case)
        assert sum(record.merges for record in found.passes) > 0
        assert apart(found, wanted) < 0.06
        assert np.sum((found.coef == 0) != (wanted.coef == 0)) <= 2
        assert apart(trained(matrix, y, curved(), n_threads, **case), wanted) < 0.03
    summed = trained(matrix, y, MapReduce(Sum(), 16), 4, **case)
    assert apart(trained(matrix, y, curved(16, refine=0), 4, **case), wanted) < 1.5 * apart(summed, wanted)


def test_features_of_their_own_are_paid_for_once() -> None:
    """Every block has features that no other has: exact but for what the mean curvature takes from them."""
    n = 240
    X = sp.identity(n, format="csr") * 3.0
    y = np.where(np.arange(n) % 3 == 0, 1.0, -2.0)
    for penalty in (PENALTIES[0], PENALTIES[2]):  # the other one leaves next to nothing
        case = CASE | {"loss": "squared_error", "penalty": penalty, "fit_intercept": False, "n_passes": 4}
        wanted = sequential(X, y, **case)
        for n_threads in (2, 3, 9):
            found = trained(X, y, curved(10, refine=0), n_threads, **case)
            assert np.abs(found.coef - wanted.coef).max() < 0.05 * np.abs(wanted.coef).max()


@pytest.mark.parametrize("n_threads", [1, 2, 5, 16])
def test_with_all_that_there_is(n_threads: int) -> None:
    """Several classes, averages, weights, a warm start, a schedule that falls: finite, and no worse than it began."""
    X = dense_rows(900, 10)
    y = np.arange(900) % 3
    case = {
        "penalty": penalties.ElasticNet(1e-2, 0.5), "schedule": schedules.InvScaling(0.05), "n_passes": 2,
        "average": 100, "sample_weight": np.linspace(0.5, 2.0, 900),
    }  # fmt: skip
    for strategy in (curved(8), curved()):
        first = trained(X, y, strategy, n_threads, **case)
        again = trained(X, y, strategy, n_threads, init=first, **case)
        for result in (first, again):
            assert np.isfinite(result.coef).all()
            assert result.average_coef is not None
        assert again.passes[-1].loss < first.passes[0].loss * 1.05
        wanted = sequential(X, y, **case)
        assert apart(first, wanted) < 0.25


@pytest.mark.parametrize("n_threads", [2, 4])
def test_means_of_the_iterates_stay_near(n_threads: int) -> None:
    """What a merge gives back of the penalty is no part of the iterates that a block has summed up."""
    X = dense_rows(3000, 12)
    y = targets(X, losses.LogLoss())
    case = CASE | {"penalty": PENALTIES[1], "average": True}
    wanted = sequential(X, y, **case)
    found = trained(X, y, curved(16, refine=0), n_threads, **case)
    size = np.linalg.norm(np.asarray(wanted.average_coef))
    assert np.linalg.norm(np.asarray(found.average_coef) - np.asarray(wanted.average_coef)) < 0.02 * size
