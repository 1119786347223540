"""Where the rank is that of the data, the curvature combiner is the oracle's: keep exp(−a H) does not depend on the
basis that it is written in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from curvature_cases import ANY_ERROR, curved, oracle, sequential, trained
from strategy_cases import LOSSES, close, dense_rows, laid_out, name, targets, weights
from symsgd import Start, losses, penalties, reference, schedules

F = 6
TOLERANCE = 1e-9


def assert_equals_oracle(
    n: int, layout: str = "dense", *, loss: Any, n_threads: int, block_size: int, **more: Any
) -> None:
    refine, passes, coef = more.pop("refine", "auto"), more.pop("passes", 2), more.pop("coef", None)
    case = {"loss": loss, "penalty": penalties.NoPenalty(), "schedule": schedules.Constant(0.02), **more}
    X = dense_rows(n, F, density=1.0 if layout == "dense" else 0.5)
    matrix, y = laid_out(X, layout), targets(X, loss)
    state, wanted = oracle(
        X, y, matrix, n_threads=n_threads, block_size=block_size, refine=refine, passes=passes, coef=coef, **case
    )
    strategy = curved(block_size, rank=F + 1, refine=refine, tolerance=ANY_ERROR)
    case |= {"n_passes": passes, "init": None if coef is None else Start(coef, np.zeros(1))}
    result = trained(matrix, y, strategy, n_threads, **case)
    close(result.coef[0], state.vector[:-1], TOLERANCE)
    close(result.intercept[0], state.intercept, TOLERANCE)
    close([record.loss for record in result.passes], wanted, TOLERANCE)
    assert result.t == state.t == 1 + passes * n
    assert [record.caught for record in result.passes] == [0] * passes
    # merged, and not by chance what one thread gives
    assert np.abs(result.coef - sequential(matrix, y, **case).coef).max() > 1e-8


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(("n_threads", "block_size"), [(2, 16), (3, 50), (5, 7), (9, 3)])
@pytest.mark.parametrize("loss", [losses.SquaredError(), losses.LogLoss()], ids=name)
def test_rounds(loss: Any, n_threads: int, block_size: int, layout: str) -> None:
    """A first round that is checked, and more that are checked now and then; 233 rows divide by nothing here."""
    assert_equals_oracle(233, layout, loss=loss, n_threads=n_threads, block_size=block_size)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_losses(loss: Any) -> None:
    """Those with kinks by their soft curvature, which at w = 0 most have not, so that it begins elsewhere."""
    case = {"coef": np.linspace(-1.5, 2.0, F), "schedule": schedules.Constant(0.1), "passes": 1}
    case |= {"sample_weight": weights(200)}
    for layout in ("dense", "csr"):
        assert_equals_oracle(200, layout, loss=loss, n_threads=3, block_size=8, **case)


@pytest.mark.parametrize(
    "more",
    [
        {"refine": 0},
        {"refine": 1, "schedule": schedules.Constant(0.2)},
        {"refine": 2, "schedule": schedules.Constant(0.2)},
        {"fit_intercept": False},
        {"sample_weight": weights(250)},
        {"class_weight": (0.4, 1.7)},
        {"penalty": penalties.L2(0.05)},
        {"penalty": penalties.L2(0.05), "fit_intercept": False, "refine": 1},
        {"schedule": schedules.InvScaling(0.1, power=0.4)},
        {"schedule": schedules.Optimal(0.02), "penalty": penalties.L2(0.02)},
        {"schedule": schedules.Adaptive(0.03)},
        {"schedule": schedules.Linear(0.2, n_steps=700), "penalty": penalties.L2(0.02)},
        {"shuffle": False},
    ],
    ids=lambda more: "-".join(more),
)
def test_choices(more: dict[str, Any]) -> None:
    for layout in ("dense", "csr"):
        assert_equals_oracle(250, layout, loss=losses.LogLoss(), n_threads=5, block_size=11, **more)


def test_the_curvature_is_estimated_again() -> None:
    """After a pass and then after twice as many, each time for another model and another order."""
    for loss, n in [(losses.LogLoss(), 500), (losses.Hinge(), 510), (losses.EpsilonInsensitive(0.1), 505)]:
        assert_equals_oracle(n, loss=loss, n_threads=3, block_size=10, passes=5)


def test_a_sample_is_part_of_the_rows() -> None:
    """350 features: 427 of 600 rows. The oracle's H has no rank 128, nor does the core's Q, but for its rows' span."""
    rng = np.random.default_rng(0)
    X = np.zeros((600, 350))
    X[:, ::70] = rng.standard_normal((600, 5)) * 0.3
    y = targets(X, losses.SquaredError())
    case = {"loss": losses.SquaredError(), "penalty": penalties.NoPenalty(), "schedule": schedules.Constant(0.03)}
    state, _ = oracle(X, y, X, n_threads=3, block_size=20, **case)
    result = trained(X, y, curved(20, rank=8, tolerance=ANY_ERROR), 3, **case)
    close(result.coef[0], state.vector[:-1], TOLERANCE)
    assert result.passes[0].rank == 6


def test_sums_of_steps_are_near() -> None:
    """By Simpson's rule, but for the first steps of all, which bend most: the first block's sum is not needed."""
    X = dense_rows(3, 2)
    for schedule in (schedules.Optimal(0.02), schedules.InvScaling(0.1, power=0.4), schedules.Linear(0.3, 10**6)):
        learner = reference.make_learner(
            X, np.ones(3), loss=losses.LogLoss(), penalty=penalties.L2(0.02), schedule=schedule
        )
        for t, count, tolerance in [(1, 1, 1e-12), (65, 64, 1e-3), (1025, 1024, 3e-3), (10**5, 4096, 1e-6)]:
            sizes = [reference.step_size(schedule, losses.LogLoss(), t + i) for i in range(count)]
            assert reference.steps_of(learner, t, count) == pytest.approx(np.sum(sizes), rel=tolerance)


# The oracle itself


def test_the_derivative_of_a_long_block_is_an_exponential() -> None:
    """For least squares M is the product of its steps, and small steps on rows that come again and again commute."""
    X = dense_rows(20, 4)
    learner = reference.make_learner(
        X, X @ np.ones(4), loss=losses.SquaredError(), penalty=penalties.L2(0.5), schedule=schedules.Constant(1e-4),
        intercept_decay=0.25,
    )  # fmt: skip
    rows, start = np.tile(np.arange(20), 50), reference.start_state(learner)
    exact = reference.derivative(reference.run_block(learner, start, rows, trace=True))
    a, keep = reference.steps_of(learner, 1.0, len(rows)), reference.kept(learner, 1.0, len(rows))
    found = reference.mean_derivative(reference.mean_curvature(learner, start, rows), a, keep, learner.kappa)
    assert (a, keep) == (pytest.approx(0.1), pytest.approx((1 - 0.5e-4) ** 1000, rel=1e-5))
    assert np.abs(found[:-1, :-1] - exact[:-1, :-1]).max() < 1e-4
    # the decay is not the intercept's, which is the one thing left out
    assert np.abs(found - exact).max() < 1.1 * (1 - keep)
    assert np.abs(exact - np.eye(5)).max() > 0.06


def test_the_curvature_of_kinks_is_that_of_their_steps() -> None:
    """A step on a row of its own mean has the derivative 1 − η H, kinks and all."""
    X = dense_rows(8, 3)
    for loss in LOSSES:
        learner = reference.make_learner(
            X, targets(X, loss), loss=loss, penalty=penalties.NoPenalty(), schedule=schedules.Constant(0.3)
        )
        start = reference.start_state(learner, coef=[0.5, -1.0, 0.7])
        for row in range(8):
            step = reference.run_block(learner, start, [row], trace=True, drift=0.4)
            H = reference.mean_curvature(learner, start, [row], 0.4)
            close(np.eye(4) - 0.3 * H, reference.derivative(step), 1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_sweeps_end_at_the_sequential_run(loss: Any) -> None:
    """Whatever H says, and by one block at least with every sweep."""
    X = dense_rows(50, 4)
    learner = reference.make_learner(
        X, targets(X, loss), loss=loss, penalty=penalties.L2(0.1), schedule=schedules.InvScaling(0.5, power=0.2)
    )
    start, rows = reference.start_state(learner), [np.arange(b, b + 10) for b in range(0, 50, 10)]
    wanted = reference.run_block(learner, start, np.arange(50)).end
    for H in (reference.mean_curvature(learner, start, np.arange(50)), np.zeros((5, 5))):
        run = reference.curvature_round(learner, start, rows, H, sweeps=9)
        assert len(run.merged) == 5
        close(run.end.vector, wanted.vector, 1e-10)
        assert run.end.t == wanted.t
        for sweeps in range(4):
            blocks = reference.curvature_round(learner, start, rows, H, sweeps=sweeps).blocks
            reached = reference.run_block(learner, start, np.arange(10 * (sweeps + 1))).end
            close(blocks[sweeps].end.vector, reached.vector, 1e-10)
