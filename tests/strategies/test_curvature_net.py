"""Data on which blocks are nothing like one another, and what the curvature combiner makes of it: merges that are too
far off are refined or trained again, so that the model ends near the sequential run's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from curvature_cases import ANY_ERROR, curved, loss_of, off, oracle, sequential, trained
from hard_cases import (
    HARD,
    Hard,
    N,
    duplicates,
    heavy_tails,
    one_large_feature,
    overshooting_rows,
    rare_and_large,
    separable,
    sorted_by_label,
)
from strategy_cases import LOSSES, close, dense_rows, laid_out, messy, name, targets
from symsgd import losses, penalties, schedules
from symsgd.strategies import Averaging

LOG, OLS = losses.LogLoss(), losses.SquaredError()


@pytest.mark.parametrize("block_size", ["auto", 32])
@pytest.mark.parametrize("make", HARD, ids=name)
def test_hard_data(make: Callable[[], Hard], block_size: Any) -> None:
    """No worse than the worse of the sequential run and of averaging; the mean over seeds, since where steps are far
    too large all of them jump. Blocks of a given size stay as large as they are, and a merge counts as harmful from
    twice the loss on."""
    hard, seeds = make(), range(1, 6)
    wanted = hard.mean_loss([hard.trained("sequential", 1, seed) for seed in seeds])
    for n_threads in (2, 4, 16):
        averaged = hard.mean_loss([hard.trained(Averaging(), n_threads, seed) for seed in seeds])
        results = [hard.trained(curved(block_size), n_threads, seed) for seed in seeds]
        assert all(np.isfinite(result.coef).all() for result in results)
        assert all(record.rows == N for result in results for record in result.passes)
        assert hard.mean_loss(results) < (1.5 if block_size == "auto" else 3.0) * max(wanted, averaged)


@pytest.mark.parametrize("make", [rare_and_large, duplicates, sorted_by_label, one_large_feature, overshooting_rows])
@pytest.mark.parametrize("n_threads", [2, 4, 16])
def test_near_the_sequential_run(make: Callable[[], Hard], n_threads: int) -> None:
    """Blocks as large as their error allows, where the sequential run is not itself a matter of chance."""
    hard = make()
    for seed in (1, 2):
        result, wanted = hard.trained(curved(), n_threads, seed), hard.trained("sequential", 1, seed)
        assert off(result, wanted, hard.X) < 0.2


def test_rows_are_trained_alone_where_no_block_will_do() -> None:
    """Nor a sweep."""
    for hard in (heavy_tails(), sorted_by_label(), separable()):
        assert hard.trained(curved(), 4, 1).passes[0].rows_alone > N // 4
    for record in separable().trained(curved(), 4, 1).passes:
        assert record.rows_alone == N


def test_harmful_merges_are_caught() -> None:
    """And counted; their rows are trained alone."""
    hard = separable()
    records = hard.trained(curved(32), 2, 1).passes
    assert sum(record.caught for record in records) > 0
    assert sum(record.rows_alone for record in records) >= 64 * sum(record.caught for record in records)
    assert all(record.rows == N for record in records)


def test_merges_that_were_undone_are_none() -> None:
    for record in separable().trained(curved(25, tolerance=ANY_ERROR), 2, 1).passes:
        assert record.caught > 0
        assert record.rows_alone == 50 * record.caught
        assert record.mean_block == 25


def runaway(n: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Thirty directions as sharp as one another, in 300 features, of which rank 8 does not see most."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, 30))
    case = {"loss": OLS, "penalty": None, "schedule": schedules.Constant(0.05), "n_passes": 3}
    return np.repeat(Z, 10, axis=1) / np.sqrt(30), Z @ rng.standard_normal(30) / np.sqrt(30), case


def test_directions_that_the_rank_leaves_out() -> None:
    """16 blocks that all overshoot in the same way are noticed, and what they did to the model is undone."""
    for n in (1024, 1040, 2048):
        X, y, case = runaway(n)
        for block_size in (32, "auto"):
            result = trained(X, y, curved(block_size, rank=8), 16, **case)
            assert loss_of(result, X, y, OLS) < 0.03 * np.mean(y**2)
        followed = trained(X, y, curved(32, rank=32), 16, **case)
        assert loss_of(followed, X, y, OLS) < 0.01 * np.mean(y**2)


def test_the_last_merge_before_rows_trained_alone_is_judged() -> None:
    """Two rounds a pass: the first is checked, the second does harm; then, or not, half a block that is left over."""
    for n in (1024, 1040):
        X, y, case = runaway(n)
        records = trained(X, y, curved(32, rank=8, tolerance=ANY_ERROR), 16, **case).passes
        assert sum(record.caught for record in records) > 0


def test_rows_without_weight_do_not_blind_the_net() -> None:
    """Whatever their targets are."""
    X, y, case = runaway(1536)
    ignored = np.arange(1536) % 5 == 0
    results = [
        trained(X, np.where(ignored, target, y), curved(32, rank=8, refine=0), 16, sample_weight=1.0 - ignored, **case)
        for target in (0.0, 1e3)
    ]
    close(results[1].coef, results[0].coef, 1e-12)


# Samples without full rank


def deficient() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    constant = dense_rows(300, 12)
    constant[:, 3:9] = 0.25
    return {
        "three rows": np.repeat(dense_rows(3, 12), 100, axis=0),
        "fewer rows than features": dense_rows(10, 40),
        "constant features": constant,
        "features that repeat others": np.tile(dense_rows(300, 4), 3),
        "one nonzero": np.eye(12)[rng.integers(0, 2, 300)],
        "mostly zero rows": dense_rows(300, 12) * (np.arange(300) % 3 == 0)[:, None],
    }


@pytest.mark.parametrize("case", deficient())
def test_samples_without_full_rank(case: str) -> None:
    """A basis is orthonormal whatever its columns were: the merge is the oracle's, which does not need one."""
    X = deficient()[case]
    for loss in (OLS, LOG):
        for layout in ("dense", "csr"):
            matrix, y = laid_out(X, layout), targets(X, loss)
            choices = {"loss": loss, "penalty": penalties.NoPenalty(), "schedule": schedules.Constant(0.05)}
            state, _ = oracle(X, y, matrix, n_threads=3, block_size=3, **choices)
            for dtype, tolerance in [(np.float64, 1e-9), (np.float32, 1e-5)]:
                strategy = curved(3, rank=64, tolerance=ANY_ERROR)
                result = trained(matrix.astype(dtype), y, strategy, 3, **choices)
                close(result.coef[0], state.vector[:-1], tolerance)
                assert result.passes[-1].rank == np.linalg.matrix_rank(np.column_stack([X, np.ones(len(X))]))
                assert result.passes[-1].caught == 0


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_rows_of_zeros_alone(loss: Any) -> None:
    """Nothing but the intercept moves, and all predictions are alike: there is no spread to measure errors by. At a
    kink it may go on for as long as two blocks."""
    X = np.zeros((200, 5))
    y = np.where(np.arange(200) % 3 == 0, 1.0, -1.0)
    for matrix in (X, sp.csr_matrix(X)):
        for fit_intercept in (True, False):
            case = {"loss": loss, "schedule": schedules.Constant(0.01), "fit_intercept": fit_intercept}
            for block_size in ("auto", 10):
                result, wanted = trained(matrix, y, curved(block_size), 3, **case), sequential(matrix, y, **case)
                assert not result.coef.any()
                assert result.intercept[0] == pytest.approx(wanted.intercept[0], abs=0.35)


def test_rows_that_come_in_one_block_alone() -> None:
    """A feature that no sampled row has is not known to H: its movements add up."""
    X = dense_rows(3000, 6)
    X[:, 5] = 0.0
    X[1000:1010, 5] = 1.0
    y = targets(X, OLS)
    case = {"loss": OLS, "penalty": None, "schedule": schedules.Constant(0.02), "shuffle": False}
    result, wanted = trained(X, y, curved(100), 5, **case), sequential(X, y, **case)
    close(result.coef[0], wanted.coef[0], 0.05)


def test_entries_in_several_parts_with_few_directions() -> None:
    X = dense_rows(600, 30, density=0.4)
    y, case = targets(X, LOG), {"schedule": schedules.Constant(0.1)}
    for repeat, tolerance in [(False, 1e-10), (True, 1e-10)]:
        results = [
            trained(matrix, y, curved(16, rank=8, tolerance=ANY_ERROR), 5, **case)
            for matrix in (messy(X, repeat=repeat), sp.csr_matrix(X))
        ]
        close(results[0].coef, results[1].coef, tolerance)
