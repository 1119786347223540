"""Wide rows: frequent features in front, and rare ones that wait some rounds for their merge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from curvature_cases import curved, labels_of, off, sequential, trained, zipf_rows
from symsgd import losses, penalties, schedules, strategies
from symsgd.training import Start

CASE: dict[str, Any] = {"penalty": penalties.L2(1e-3), "schedule": schedules.Constant(0.02), "n_passes": 3}


@pytest.fixture
def narrow_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a few dozen features are renumbered, and the curvature has directions among four of them."""
    monkeypatch.setattr(strategies, "RENUMBER_FROM", 8)
    monkeypatch.setattr(strategies, "MOST_PLACES", 4)


@pytest.mark.usefixtures("narrow_is_wide")
@pytest.mark.parametrize("n_threads", [2, 3, 9])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_refined_to_the_end_they_are_sequential(n_threads: int, index: Any, dtype: Any) -> None:
    """Whatever the numbers: weights come and go in the caller's order."""
    X = zipf_rows(700, 60, 6).astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    for y in (labels_of(X), np.arange(700) % 3):
        wanted = sequential(X, y, **CASE)
        found = trained(X, y, curved(20, refine=2 * n_threads), n_threads, **CASE)
        np.testing.assert_allclose(found.coef, wanted.coef, atol=2e-4 if dtype == np.float32 else 1e-10)
        again = {"init": Start(wanted.coef, wanted.intercept, t=wanted.t)} | CASE
        found = trained(X, y, curved(20, refine=2 * n_threads), n_threads, **again)
        wanted = sequential(X, y, **again)
        np.testing.assert_allclose(found.coef, wanted.coef, atol=2e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("l2", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize("n_threads", [2, 5, 9])
def test_what_nobody_else_reads_may_wait(monkeypatch: pytest.MonkeyPatch, n_threads: int, l2: float) -> None:
    """Six frequent features, and a feature of its own for every row: merged late or at once, it is the same but for
    what the mean curvature of so rare a feature takes from it."""
    n = 1500
    monkeypatch.setattr(strategies, "MOST_PLACES", 4)
    X = sp.hstack([zipf_rows(n, 6, 3), sp.identity(n)], format="csr")
    order = np.random.default_rng(2).permutation(n + 6)
    X = sp.csr_matrix((X.data, order[X.indices], X.indptr), shape=X.shape)
    y = labels_of(X)
    case = CASE | {"penalty": penalties.L2(l2), "n_passes": 3}
    found = []
    for features in (8, 10**9):
        monkeypatch.setattr(strategies, "RENUMBER_FROM", features)
        found.append(trained(X, y, curved(7, refine=0), n_threads, **case))
    for late, soon in zip(found[0].passes, found[1].passes, strict=True):
        assert late.loss == pytest.approx(soon.loss, rel=1e-4)
    np.testing.assert_allclose(found[0].coef, found[1].coef, rtol=3e-3, atol=1e-4)
    assert np.abs(found[0].coef).min() > 0


@pytest.mark.parametrize("n_threads", [2, 16])
@pytest.mark.parametrize("loss", [losses.LogLoss(), losses.Hinge()], ids=lambda loss: loss.name)
def test_they_stay_near_the_sequential_run(n_threads: int, loss: Any) -> None:
    """Of 40,000 features most wait for most of a pass."""
    X = zipf_rows(20_000, 40_000, 12) / np.sqrt(12)
    y = labels_of(X)
    case = CASE | {"loss": loss, "penalty": penalties.L2(1e-4), "schedule": schedules.Constant(0.1)}
    wanted = sequential(X, y, **case)
    for strategy, near in ((curved(32, refine=0), 0.2), (curved(), 0.06)):
        result = trained(X, y, strategy, n_threads, **case)
        assert off(result, wanted, X) < near
    assert sum(record.merges for record in trained(X, y, curved(32), n_threads, **case).passes) > 0


@pytest.mark.parametrize(("n_threads", "block_size"), [(4, 32), (16, 8)])
@pytest.mark.parametrize("rounds", [40, 41, 42, 44])
def test_rows_left_over_find_everything_merged(
    monkeypatch: pytest.MonkeyPatch, n_threads: int, block_size: int, rounds: int
) -> None:
    """Half a block is trained alone at the end, whatever was merged last and whatever waits."""
    monkeypatch.setattr(strategies, "RENUMBER_PASSES", 1)
    X = zipf_rows(rounds * block_size * (32 if n_threads == 16 else 4) + block_size // 2, 20_000, 12) / np.sqrt(12)
    y = labels_of(X)
    case = {"penalty": None, "schedule": schedules.Constant(0.3), "n_passes": 1, "shuffle": False}
    wanted, distances = sequential(X, y, **case), []
    for features in (16_384, 10**9):
        monkeypatch.setattr(strategies, "RENUMBER_FROM", features)
        result = trained(X, y, curved(block_size, refine=0), n_threads, **case)
        assert result.passes[0].rows_alone == block_size // 2
        distances.append(off(result, wanted, X))
    assert distances[0] < 1.1 * distances[1] + 1e-3


@pytest.mark.parametrize("left", [2, 5, 7])
def test_a_last_round_of_few_blocks_takes_nothing_back(monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    """Replicas that have no block in it have weights that wait, and others that were merged without them."""
    monkeypatch.setattr(strategies, "MOST_PLACES", 16)
    block_size, n_threads = 32, 8
    X = zipf_rows((20 * n_threads + left) * block_size, 20_000, 12) / np.sqrt(12)
    y = labels_of(X)
    case = {"penalty": None, "schedule": schedules.Constant(0.3), "n_passes": 4}
    wanted, distances = sequential(X, y, **case), []
    for features in (16_384, 10**9):
        monkeypatch.setattr(strategies, "RENUMBER_FROM", features)
        distances.append(off(trained(X, y, curved(block_size, refine=0), n_threads, **case), wanted, X))
    assert distances[0] < 1.1 * distances[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
def test_numbers_of_features_take_two_bytes_or_four(dtype: Any, classes: int) -> None:
    """As there are 65,536 of them or more: columns that no row has change nothing."""
    X = zipf_rows(4000, 60_000, 12).astype(dtype)
    y = np.sum([labels_of(X, seed) > 0 for seed in range(1, classes)], axis=0)
    wide = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], 66_000))
    short, long = (trained(matrix, y, curved(32, refine=0), 3, **CASE) for matrix in (X, wide))
    np.testing.assert_allclose(long.coef[:, : X.shape[1]], short.coef, rtol=1e-5, atol=1e-6)
    assert not long.coef[:, X.shape[1] :].any()


def test_the_same_bits_whoever_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many features that threads sort some each, and entries for more than one huge page."""
    X = zipf_rows(60_000, 100_000, 12)
    y = labels_of(X)
    found = set()
    for cores in (1, 2, 5, 5):
        monkeypatch.setattr(strategies, "available_cores", lambda cores=cores: cores)
        found.add(trained(X, y, curved(256), 5, **CASE).coef.tobytes())
    assert len(found) == 1


def test_threads_may_stay_on_their_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    X = zipf_rows(2000, 50, 5)
    y = labels_of(X)
    free = trained(X, y, curved(16), 4, **CASE)
    monkeypatch.setenv("SYMSGD_PIN_THREADS", "1")
    np.testing.assert_array_equal(trained(X, y, curved(16), 4, **CASE).coef, free.coef)
