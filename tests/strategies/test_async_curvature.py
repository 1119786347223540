"""`Async(Curvature())`: blocks merged by the curvature as they end. Who comes first is chance: what does not depend on
that, one merge and one thread, is compared with an oracle; of more threads, the loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from curvature_cases import ANY_ERROR, loss_of, sequential, trained
from hard_cases import HARD, Hard, overshooting_rows, separable
from strategy_cases import LOSSES, SCHEDULES, assert_same_result, close, dense_rows, laid_out, name, targets, weights
from symsgd import Start, _core, data, losses, penalties, reference, schedules
from symsgd.combiners import Curvature
from symsgd.strategies import Async, Averaging

LOG, OLS = losses.LogLoss(), losses.SquaredError()
threads = pytest.mark.parametrize("n_threads", [2, 3, 8])
blocks = pytest.mark.parametrize("block_size", ["auto", 1, 20, 10**6])


def racing(block_size: Any = "auto", **parameters: Any) -> Async:
    return Async(Curvature(**parameters), block_size)


# A merge


def merge_case(f: int, n: int, seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Rows √(h / n) x̃, and where a block began, where it ended, and where the model is by then."""
    rng = np.random.default_rng(seed)
    sample = rng.standard_normal((n, f + 1)) * np.linspace(2.0, 0.1, f + 1) / np.sqrt(n)
    return sample, list(rng.standard_normal((3, f + 1)))


@pytest.mark.parametrize("keep", [1.0, 0.7])
@pytest.mark.parametrize("rank", [1, 3, 8, 32])
@pytest.mark.parametrize("places", [0, 5, 12])
def test_a_merge_is_the_oracles(places: int, rank: int, keep: float) -> None:
    """As many directions as there are, or fewer; with all features in Q, some, or none but the intercept."""
    sample, (start, end, now) = merge_case(12, 40)
    merged, Q, values, rest = _core.merge_by_curvature(sample, places, rank, start, end, now, 1.3, keep)
    assert Q.shape == (13, min(rank, places + 1))
    close(Q.T @ Q, np.eye(Q.shape[1]), 1e-9)
    M = reference.spectrum_derivative(Q, np.array(values), np.array(rest), 1.3, keep)
    close(merged, reference.merge_ended(start, end, now, M), 1e-10)


def test_a_merge_with_every_direction_is_the_exponential() -> None:
    sample, (start, end, now) = merge_case(7, 30)
    merged, *_ = _core.merge_by_curvature(sample, 7, 8, start, end, now, 0.8, 0.9)
    M = reference.mean_derivative(sample.T @ sample, 0.8, 0.9, 1.0)
    close(merged, reference.merge_ended(start, end, now, M), 1e-9)


def test_a_merge_of_what_nobody_has_moved_is_the_block() -> None:
    sample, (start, end, _) = merge_case(6, 20)
    merged, *_ = _core.merge_by_curvature(sample, 4, 4, start, end, start, 0.8, 0.9)
    close(merged, end, 1e-12)


def test_sharp_directions_keep_the_last_word_and_flat_ones_add_up() -> None:
    sample = np.diag([30.0, 0.0, 0.0])
    start, end, now = np.zeros(3), np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
    merged, *_ = _core.merge_by_curvature(sample, 2, 2, start, end, now, 1.0, 1.0)
    close(merged, [1.0, 22.0, 33.0], 1e-12)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", [OLS, LOG], ids=name)
def test_two_blocks_are_merged_as_the_oracle_does(loss: Any, layout: str) -> None:
    """Two threads and a pass of two blocks: either one begins where the other has ended, which is the sequential run,
    or both begin at the start, and the one that ends last is merged with what the other has done."""
    X = dense_rows(2000, 6, density=1.0 if layout == "dense" else 0.5)
    matrix, y = laid_out(X, layout), targets(X, loss)
    case = {"loss": loss, "penalty": penalties.L2(0.01), "schedule": schedules.Constant(0.01), "shuffle": False}
    learner = reference.make_learner(
        X, y, intercept_decay=1.0 if layout == "dense" else 0.01, **{k: v for k, v in case.items() if k != "shuffle"}
    )
    start, rows = reference.start_state(learner), np.split(np.arange(2000), 2)
    H = reference.mean_curvature(learner, start, range(2000))
    a, keep = 0.01 * 1000, (1 - 0.01 * 0.01) ** 1000
    M = reference.mean_derivative(H, a, keep, learner.kappa)
    ends = [reference.run_block(learner, start, part).end.vector for part in rows]
    one_by_one = reference.run_block(learner, reference.run_block(learner, start, rows[0]).end, rows[1]).end.vector
    ways = [one_by_one, *(reference.merge_ended(start.vector, ends[i], ends[1 - i], M) for i in (0, 1))]
    assert min(np.abs(ways[i] - ways[i - 1]).max() for i in range(3)) > 1e-5
    for _ in range(20):
        result = trained(matrix, y, racing(1000, rank=7, refine=0), 2, n_passes=1, **case)
        found = np.append(result.coef[0], result.intercept)
        assert min(np.abs(found - way).max() for way in ways) < 1e-9


# One thread


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_one_thread_is_sequential(loss: Any, layout: str) -> None:
    X = dense_rows(43, 11, density=1.0 if layout == "dense" else 0.3)
    for turn, block_size in enumerate(("auto", 8, 300)):
        case = {"loss": loss, "penalty": penalties.L2(0.05) if turn else None, "schedule": SCHEDULES[turn]}
        case |= {"sample_weight": weights(43), "fit_intercept": turn != 1}
        result = trained(laid_out(X, layout), targets(X, loss), racing(block_size), 1, **case)
        assert_same_result(result, sequential(laid_out(X, layout), targets(X, loss), **case))
        assert all(record.rows_alone == 43 and record.merges == 0 for record in result.passes)


# More threads


@cache
def documents() -> tuple[Any, np.ndarray, Any, np.ndarray]:
    both = data.twin("rcv1", 0.02)
    cut = both.X.shape[0] * 4 // 5
    return both.X[:cut], both.y[:cut], both.X[cut:], both.y[cut:]


@threads
@pytest.mark.parametrize("block_size", ["auto", 64, 512])
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_documents(loss: str, block_size: Any, n_threads: int) -> None:
    """Some tens of thousands of features, of which Q has the most frequent."""
    X, y, held_X, held_y = documents()
    case = {"loss": loss, "schedule": schedules.Constant(0.3), "penalty": penalties.L2(1e-5), "n_passes": 3}
    wanted, found = sequential(X, y, **case), trained(X, y, racing(block_size), n_threads, **case)
    aucs = [roc_auc_score(held_y, result.decision(held_X)) for result in (wanted, found)]
    assert aucs[1] > aucs[0] - 0.005
    assert all(record.rows == len(y) for record in found.passes)


@threads
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_losses(loss: Any, layout: str, n_threads: int) -> None:
    """Soft curvature where gradients jump; weights, L2, the intercept."""
    X = dense_rows(2000, 12, density=1.0 if layout == "dense" else 0.5)
    matrix, y = laid_out(X, layout), targets(X, loss)
    case = {"loss": loss, "penalty": penalties.L2(1e-3), "schedule": schedules.Constant(0.05), "n_passes": 4}
    case |= {"sample_weight": weights(2000)}
    wanted = loss_of(sequential(matrix, y, **case), matrix, y, loss)
    scale = float(np.mean(reference.value(loss, -y, y)))
    for block_size in ("auto", 16):
        found = loss_of(trained(matrix, y, racing(block_size), n_threads, **case), matrix, y, loss)
        assert found < 1.2 * wanted + 0.05 * scale


@threads
@blocks
@pytest.mark.parametrize("n_classes", [2, 5])
def test_rows_classes_and_what_is_said_of_a_pass(n_classes: int, block_size: Any, n_threads: int) -> None:
    X = dense_rows(700, 9)
    y = np.argmax(X @ np.random.default_rng(3).standard_normal((9, n_classes)), axis=1)
    case = {"schedule": schedules.Constant(0.1), "n_passes": 3, "tol": 1e-3, "patience": 2}
    result = trained(X, y, racing(block_size), n_threads, **case)
    assert result.t == 1 + 700 * result.n_passes
    for record in result.passes:
        assert record.rows == 700
        assert 0 <= record.rows_alone <= 700
        assert record.merges > 0 or record.rows_alone == 700
        assert record.error is None or 0.0 <= record.error < np.inf
        assert (record.error is None) == (record.sweeps == 0)
        assert record.rank == 10
        assert np.isfinite(record.loss)


def test_given_blocks_stay_as_they_are() -> None:
    X = dense_rows(1010, 8)
    y, case = targets(X, LOG), {"schedule": schedules.Constant(0.02)}
    for strategy in (racing(100, tolerance=ANY_ERROR), racing(100, refine=0)):
        for record in trained(X, y, strategy, 4, **case).passes:
            assert (record.merges, record.rows_alone) == (11, 0)
            assert record.sweeps == 0 or strategy.combiner != Curvature(refine=0)


@threads
def test_features_that_no_row_has_decay_like_the_others(n_threads: int) -> None:
    """9,000 features, in several slices, of which 4,096 are in Q."""
    seen = sp.random_array((600, 8500), density=0.002, format="csr", rng=np.random.default_rng(0))
    X = sp.hstack([seen, sp.csr_array((600, 500))], format="csr")
    start = Start(np.random.default_rng(1).standard_normal(9000), np.zeros(1))
    case = {"schedule": schedules.Constant(0.1), "penalty": penalties.L2(1e-2), "init": start, "n_passes": 2}
    y = np.arange(600) % 2
    for block_size in (7, "auto"):
        result = trained(X, y, racing(block_size), n_threads, **case)
        close(result.coef[0, 8500:], start.coef[8500:] * (1 - 1e-3) ** 1200, 1e-9)
        assert np.linalg.norm(result.coef - sequential(X, y, **case).coef) < 0.05 * np.linalg.norm(start.coef)


# Hard data


@pytest.mark.parametrize("block_size", ["auto", 32])
@pytest.mark.parametrize("make", HARD, ids=name)
def test_hard_data(make: Callable[[], Hard], block_size: Any) -> None:
    """No worse than in rounds (test_curvature_net.py): than the worse of the sequential run and of averaging, up to a
    factor; the mean over seeds."""
    hard, seeds = make(), range(1, 6)
    wanted = hard.mean_loss([hard.trained("sequential", 1, seed) for seed in seeds])
    for n_threads in (2, 4, 16):
        averaged = hard.mean_loss([hard.trained(Averaging(), n_threads, seed) for seed in seeds])
        results = [hard.trained(racing(block_size), n_threads, seed) for seed in seeds]
        assert all(np.isfinite(result.coef).all() for result in results)
        assert all(record.rows == len(hard.y) for result in results for record in result.passes)
        assert hard.mean_loss(results) < (2.0 if block_size == "auto" else 3.0) * max(wanted, averaged)


@threads
def test_blocks_far_too_large(n_threads: int) -> None:
    """Without checks there is the net alone: a merge that would do harm is the mean of both, or the block."""
    for hard in (separable(), overshooting_rows()):
        for seed in (1, 2, 3):
            result = hard.trained(racing(400, refine=0), n_threads, seed)
            averaged = hard.mean_loss([hard.trained(Averaging(), n_threads, seed), hard.trained("sequential", 1, seed)])
            assert loss_of(result, hard.X, hard.y, hard.loss) < 10 * averaged


def test_directions_that_the_rank_leaves_out() -> None:
    """Thirty as sharp as one another, in 300 features; rank 8 does not see most."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((2048, 30))
    X, y = np.repeat(Z, 10, axis=1) / np.sqrt(30), Z @ rng.standard_normal(30) / np.sqrt(30)
    case = {"loss": OLS, "penalty": None, "schedule": schedules.Constant(0.05), "n_passes": 3}
    for n_threads in (2, 16):
        for block_size in (32, "auto"):
            result = trained(X, y, racing(block_size, rank=8), n_threads, **case)
            assert loss_of(result, X, y, OLS) < 0.05 * np.mean(y**2)
