"""The curvature combiner with as many sweeps as a round has blocks, less one, is sequential SGD, for every loss; so is
one thread, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from curvature_cases import curved, off, sequential, trained
from strategy_cases import LOSSES, assert_same_result, close, dense_rows, laid_out, name, targets, weights
from symsgd import EarlyStopping, SGDClassifier, Start, losses, penalties, schedules, strategies
from symsgd.combiners import Curvature
from symsgd.strategies import MapReduce

TOLERANCE = 1e-9
SCHEDULES = [
    schedules.Constant(0.15),
    schedules.InvScaling(0.3, power=0.3),
    schedules.Optimal(0.8),
    schedules.Adaptive(0.1),
]


@pytest.fixture(autouse=True)
def _as_many_cores_as_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "available_cores", lambda: 4)


def assert_sequential(X: Any, y: Any, n_threads: int, block_size: Any, **case: Any) -> None:
    """Losses included: each row's is measured where the sequential run measures it."""
    result = trained(X, y, curved(block_size, refine=n_threads - 1), n_threads, **case)
    wanted = sequential(X, y, **case)
    assert_same_result(result, wanted, TOLERANCE)
    assert np.abs(wanted.coef).max() > 0.01


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("n_threads", [2, 3, 5])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_every_loss(loss: Any, n_threads: int, layout: str) -> None:
    """131 rows in rounds of blocks of 9: a last round of fewer blocks, the last of them shorter."""
    X = dense_rows(131, 11, density=1.0 if layout == "dense" else 0.3)
    for turn, schedule in enumerate(SCHEDULES):
        assert_sequential(
            laid_out(X, layout),
            targets(X, loss),
            n_threads,
            9,
            loss=loss,
            penalty=penalties.L2(0.05) if turn != 1 else None,
            schedule=schedule,
            sample_weight=weights(131),
            class_weight=(0.7, 1.6) if loss.margin and loss.name != "one_class" else None,
            fit_intercept=turn != 2,
            n_passes=3,
        )


@pytest.mark.parametrize("shuffle", [True, "full", False])
@pytest.mark.parametrize(("n_threads", "block_size"), [(2, 1), (3, 1000), (5, 64), (16, 7), (8, 30)])
def test_every_size_and_order(n_threads: int, block_size: Any, shuffle: Any) -> None:
    """Blocks of one row and of all, and rounds of many blocks."""
    for layout, loss in [("dense", losses.LogLoss()), ("csr", losses.SquaredError())]:
        X = dense_rows(611, 13, density=1.0 if layout == "dense" else 0.3)
        case = {"loss": loss, "penalty": penalties.L2(0.01), "schedule": SCHEDULES[1], "shuffle": shuffle, "seed": 11}
        assert_sequential(laid_out(X, layout), targets(X, loss), n_threads, block_size, **case)


@pytest.mark.parametrize("shuffle", [True, "full", False])
def test_long_runs(shuffle: Any) -> None:
    """More than the rows of a window, and passes enough for the curvature to be estimated several times."""
    X = dense_rows(9000, 6, scale=0.2)
    case = {"loss": losses.LogLoss(), "penalty": penalties.L2(0.02), "schedule": SCHEDULES[0], "shuffle": shuffle}
    assert_sequential(X, targets(X, losses.LogLoss()), 5, 100, **case)


@pytest.mark.parametrize("n", [1, 2, 5, 17])
def test_more_threads_than_rows(n: int) -> None:
    X, case = dense_rows(n, 4), {"penalty": penalties.L2(0.1), "schedule": schedules.Constant(0.3), "n_passes": 4}
    for layout in ("dense", "csr"):
        for n_threads, block_size in [(16, 1), (16, 3), (3, 100)]:
            y = np.arange(1.0, n + 1)
            assert_sequential(laid_out(X, layout), y, n_threads, block_size, loss="squared_error", **case)


@pytest.mark.parametrize("n_classes", [3, 5, 9])
@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_several_classes(n_threads: int, n_classes: int) -> None:
    for layout, loss in [("dense", losses.LogLoss()), ("csr", losses.Hinge()), ("csr64", losses.SquaredHinge())]:
        X = dense_rows(131, 11, density=1.0 if layout == "dense" else 0.3)
        assert_sequential(
            laid_out(X, layout),
            np.arange(131) % n_classes,
            n_threads,
            8,
            loss=loss,
            penalty=penalties.L2(0.05),
            schedule=schedules.InvScaling(0.2, power=0.3),
            class_weight=np.linspace(0.5, 1.5, n_classes),
            sample_weight=weights(131),
        )


def test_classes_that_stop_one_by_one() -> None:
    """Until one alone is left, which stops too."""
    X = dense_rows(300, 8)
    y = np.argmax(X[:, :4] + 0.5 * dense_rows(300, 4, seed=9), axis=1)
    case = {"schedule": schedules.Constant(0.05), "penalty": penalties.L2(1e-3), "n_passes": 100}
    case |= {"tol": 0.003, "patience": 2}
    result, wanted = trained(X, y, curved(16, refine=2), 3, **case), sequential(X, y, **case)
    assert_same_result(result, wanted, TOLERANCE)
    assert result.n_passes == wanted.n_passes < 100


def test_wide_sparse_rows() -> None:
    """9,000 features, more than Q has rows for."""
    X = sp.random(400, 9000, density=0.004, format="csr", random_state=0)
    y = np.asarray(X @ np.random.default_rng(1).standard_normal(9000)) + 0.3
    for loss, target in [("squared_error", y), ("log_loss", y > 0.3)]:
        assert_sequential(X, target, 3, 20, loss=loss, penalty=penalties.L2(1e-3), schedule=schedules.Constant(0.2))


@pytest.mark.parametrize("rank", [1, 3, 8, 128])
def test_whatever_the_rank(rank: int) -> None:
    X = dense_rows(200, 20)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.3), "penalty": None}
    close(trained(X, y, curved(12, rank=rank, refine=3), 4, **case).coef, sequential(X, y, **case).coef, TOLERANCE)


def test_steps_far_too_large() -> None:
    """Step × |x|² = 8, so that every block ends far from where it would have ended after the others."""
    X = dense_rows(200, 8, scale=1.0)
    y = targets(X, losses.LogLoss())
    for loss in (losses.LogLoss(), losses.Hinge(), losses.ModifiedHuber()):
        case = {"schedule": schedules.Constant(1.0), "penalty": None, "loss": loss, "sample_weight": weights(200)}
        assert_sequential(X, y, 5, 10, n_passes=1, **case)


def test_single_precision() -> None:
    """The chain of float32 weights is rounded, and M carries the rounding on."""
    X = dense_rows(500, 20).astype(np.float32)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.1), "penalty": penalties.L2(1e-3)}
    result, wanted = trained(X, y, curved(16, refine=4), 5, **case), sequential(X, y, **case)
    assert result.coef.dtype == np.float32
    close(result.coef, wanted.coef, 1e-4)


# What goes on from training to training


def test_a_result_goes_on_where_it_ended() -> None:
    """Half the passes and then the other half: storage order starts again with every call."""
    X = dense_rows(300, 9)
    y, strategy = targets(X, losses.LogLoss()), curved(16, refine=2)
    case = {"shuffle": False, "penalty": penalties.L2(0.1), "schedule": SCHEDULES[1]}
    half = trained(X, y, strategy, 3, **case)
    again = trained(X, y, strategy, 3, init=half, **case)
    wanted = sequential(X, y, n_passes=4, **case)
    close(again.coef, wanted.coef, TOLERANCE)
    assert again.t == wanted.t
    start = Start(np.arange(9.0), np.array([0.5]), 20.0)
    assert_sequential(X, y, 3, 16, init=start, **case)


def test_partial_fits() -> None:
    X = dense_rows(300, 9)
    y = targets(X, losses.LogLoss())
    case = {"loss": "log_loss", "learning_rate": "invscaling", "eta0": 0.3, "shuffle": False, "alpha": 1e-3}
    models = [
        SGDClassifier(**case, strategy=strategy, n_jobs=n_jobs)
        for strategy, n_jobs in [(curved(16, refine=2), 3), ("sequential", 1)]
    ]
    for part in (slice(0, 100), slice(100, 101), slice(101, 300)):
        for model in models:
            model.partial_fit(X[part], y[part], classes=[-1, 1])
        close(models[0].coef_, models[1].coef_, TOLERANCE)
        assert models[0].t_ == models[1].t_ == 1 + part.stop


def test_early_stopping_tolerance_and_evaluation() -> None:
    """All that is decided between passes is decided alike."""
    X = dense_rows(400, 9)
    y = targets(X, losses.LogLoss())
    case = {"penalty": penalties.L2(0.01), "schedule": SCHEDULES[0], "n_passes": 60, "patience": 2}
    case |= {"eval_set": (X[:50], y[:50])}
    held_out = np.arange(400) % 5 == 0
    for more in ({"tol": 1e-3}, {"tol": 1e-3, "early_stopping": EarlyStopping(held_out)}, {"tol": None}):
        results = [trained(X, y, curved(16, refine=2), 3, **case, **more), sequential(X, y, **case, **more)]
        assert_same_result(*results, TOLERANCE)
        for result in results:
            assert (result.n_passes < 60) == (more["tol"] is not None) == result.converged
        for found, wanted in zip(results[0].passes, results[1].passes, strict=True):
            assert found.validation_score == pytest.approx(wanted.validation_score)


# One thread, and any number


@pytest.mark.parametrize("penalty", [None, penalties.L2(0.05)], ids=["none", "l2"])
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_one_thread_is_sequential_to_the_bit(loss: Any, penalty: Any) -> None:
    for layout in ("dense", "csr"):
        X = dense_rows(431, 11, density=1.0 if layout == "dense" else 0.3)
        for schedule, strategy in zip(
            SCHEDULES, [curved(), curved(16), curved(1, refine=3), curved(rank=2)], strict=True
        ):
            case = {"loss": loss, "penalty": penalty, "schedule": schedule, "sample_weight": weights(431)}
            result, wanted = (
                trained(laid_out(X, layout), targets(X, loss), chosen, 1, **case) for chosen in (strategy, "sequential")
            )
            assert_array_equal(result.coef, wanted.coef)
            assert_array_equal(result.intercept, wanted.intercept)
            assert [record.loss for record in result.passes] == [record.loss for record in wanted.passes]
            record = result.passes[0]
            assert (record.rows_alone, record.merges, record.sweeps, record.error) == (431, 0, 0, None)
            assert record.mean_block is None


def test_more_threads_agree_in_what_they_predict() -> None:
    X = dense_rows(10_000, 12)
    y = targets(X, losses.LogLoss())
    case = {"penalty": penalties.L2(1e-3), "schedule": schedules.Constant(0.003), "n_passes": 3}
    wanted = sequential(X, y, **case)
    for n_threads in (2, 3, 4, 8, 16):
        result = trained(X, y, curved(), n_threads, **case)
        assert off(result, wanted, X) < 0.02
        assert np.mean((result.decision(X) > 0) == (wanted.decision(X) > 0)) > 0.995
        assert sum(record.merges for record in result.passes) > 0


def test_the_same_bits_whoever_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that grow, rows trained alone, refinement, several classes: all is decided by counts, not by clocks."""
    rng = np.random.default_rng(0)
    X = dense_rows(3000, 20, density=0.5) * rng.pareto(1.5, (3000, 1))
    labels = {"binary": targets(X, losses.LogLoss()), "several": rng.integers(0, 4, 3000)}
    for layout, y in [("dense", labels["binary"]), ("csr", labels["several"])]:
        for strategy in (curved(), MapReduce(Curvature(rank=5, tolerance=0.3), block_size=20)):
            found = set()
            for cores in (1, 2, 5, 5):
                monkeypatch.setattr(strategies, "available_cores", lambda cores=cores: cores)
                result = trained(laid_out(X, layout), y, strategy, 5, schedule=schedules.Constant(0.02))
                records = [(r.loss, r.merges, r.rank, r.sweeps, r.error, r.rows_alone, r.caught) for r in result.passes]
                found.add((result.coef.tobytes(), result.intercept.tobytes(), str(records)))
            assert len(found) == 1


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error"])
def test_rounds_refined_to_the_end_stop_when_the_sequential_run_does(loss: str) -> None:
    """Their objective is followed step by step, whatever the penalty is of it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 8))
    y = X @ rng.standard_normal(8) + rng.standard_normal(2000) > 0
    case: dict[str, Any] = {"loss": loss, "penalty": penalties.L2(0.02), "schedule": schedules.Constant(0.02)}
    case |= {"tol": 1e-4, "n_passes": 60}
    wanted = sequential(X, y, **case)
    found = trained(X, y, curved(50, refine=3), 4, **case)
    assert 3 < wanted.n_passes < 60
    assert found.n_passes == wanted.n_passes
    objectives = [[record.objective for record in result.passes] for result in (found, wanted)]
    np.testing.assert_allclose(objectives[0], objectives[1], rtol=1e-9)
