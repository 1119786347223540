"""What docs/convergence.md rests on, for logistic regression: h ≤ b_H = 1/4 and |h′| ≤ b₃ = 1/(6√3).

Notation of that page: a block of n rows no longer than R, steps γ, L = b_H R², d how far the round has come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracle_cases import Exact, Projected, rows, targets
from symsgd import losses, penalties, reference, schedules

LOSS = losses.LogLoss()
B_H, B_3 = 1 / 4, 1 / (6 * np.sqrt(3))
N, F, K = 12, 6, 5


class Block:
    """A block without intercept or penalty: S, M = S′ and N = M − I from any start."""

    def __init__(self, gamma: float, seed: int = 0, n: int = N) -> None:
        X = rows(n, F, seed=seed)
        self.rows = range(n)
        self.learner = reference.make_learner(
            X,
            targets(X, LOSS, seed + 1),
            loss=LOSS,
            penalty=penalties.NoPenalty(),
            schedule=schedules.Constant(gamma),
            fit_intercept=False,
        )
        self.gamma, self.R = gamma, float(np.linalg.norm(X, axis=1).max())
        self.L = B_H * self.R**2

    def S(self, w: Any) -> Any:  # noqa: N802
        return self._run(w).end.vector[:-1]

    def M(self, w: Any) -> Any:  # noqa: N802
        return reference.derivative(self._run(w))[:-1, :-1]

    def _run(self, w: Any) -> reference.Block:
        return reference.run_block(self.learner, reference.start_state(self.learner, w), self.rows, trace=True)

    def first_order_error(self, w: Any, d: Any, A: Any) -> Any:
        """FR = N (AAᵀ − I) d."""
        return (self.M(w) - np.eye(F)) @ (A @ (A.T @ d) - d)

    def second_order_error(self, w: Any, d: Any) -> Any:
        """SR = S(w + d) − S(w) − M d."""
        return self.S(w + d) - self.S(w) - self.M(w) @ d


def start(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, 7])
    return rng.standard_normal(F), rng.standard_normal(F)


def slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def test_a_merged_round_is_sgd_with_an_error_after_each_block() -> None:
    """c_p = S_p(c_{p−1}) + FR_p − SR_p with d = c_{p−1} − w: `rounds` is the method that the proof is about."""
    gamma, blocks, n = 0.5, 3, 8
    X = rows(blocks * n, F)
    y, (w, _) = targets(X, LOSS), start()
    more = {"loss": LOSS, "penalty": penalties.NoPenalty(), "schedule": schedules.Constant(gamma)}
    learner = reference.make_learner(X, y, fit_intercept=False, **more)
    drawn = reference.seeded_projections(11)

    def S(p: int, v: Any, trace: bool = False) -> reference.Block:  # noqa: N802
        return reference.run_block(learner, reference.start_state(learner, v), range(p * n, (p + 1) * n), trace=trace)

    c = S(0, w).end.vector[:-1]
    for p in (1, 2):
        d, own = c - w, S(p, w, trace=True)
        M = reference.derivative(own)[:-1, :-1]
        A = drawn(0, p, F + 1, K)[:-1]
        first = (M - np.eye(F)) @ (A @ (A.T @ d) - d)
        second = S(p, c).end.vector[:-1] - own.end.vector[:-1] - M @ d
        c = S(p, c).end.vector[:-1] + first - second
        assert np.linalg.norm(first) > 0.01
        assert np.linalg.norm(second) > 1e-4
    run = reference.rounds(
        X,
        y,
        orders=[np.arange(blocks * n)],
        n_blocks=blocks,
        block_size=n,
        combiner=Projected(k=K),
        projection=drawn,
        coef=w,
        fit_intercept=False,
        **more,
    )
    assert_allclose(run.coef, c, rtol=1e-12)


# What a block can do


@pytest.mark.parametrize("seed", range(5))
def test_blocks_do_not_expand_and_their_combiners_are_near_the_identity(seed: int) -> None:
    """With γL ≤ 2: ‖M‖ ≤ 1, ‖N‖_F ≤ γnL, ‖S(w + d) − S(w)‖ ≤ ‖d‖ and ‖S(w + d) − S(w) − d‖ ≤ γnL ‖d‖."""
    for share in (0.01, 0.1, 1.0):
        block = Block(1.0, seed)
        block = Block(2.0 * share / block.L, seed)
        w, d = start(seed)
        M, bound = block.M(w), block.gamma * N * block.L
        assert np.linalg.norm(M, 2) <= 1.0 + 1e-12
        assert np.linalg.norm(M - np.eye(F)) <= bound
        for length in (0.01, 1.0, 30.0):
            moved = block.S(w + length * d) - block.S(w)
            assert np.linalg.norm(moved) <= np.linalg.norm(length * d) * (1 + 1e-12)
            assert np.linalg.norm(moved - length * d) <= bound * np.linalg.norm(length * d)
        if share == 0.01:
            assert np.linalg.norm(M - np.eye(F)) > 0.05 * bound


def test_a_round_moves_by_the_order_of_its_step() -> None:
    """d = O(γ): it is a lemma, not an assumption."""
    X, (w, _) = rows(4 * N, F), start()
    steps, moved = 0.1 / 2.0 ** np.arange(6), []
    for gamma in steps:
        run = reference.rounds(
            X,
            targets(X, LOSS),
            loss=LOSS,
            penalty=penalties.NoPenalty(),
            schedule=schedules.Constant(gamma),
            orders=[np.arange(4 * N)],
            n_blocks=4,
            block_size=N,
            combiner=Projected(k=K),
            coef=w,
            fit_intercept=False,
        )
        moved.append(np.linalg.norm(run.coef - w))
    assert slope(steps[2:], moved[2:]) == pytest.approx(1.0, abs=0.1)


# The first-order error


@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_first_order_error_has_mean_zero_and_its_second_moment(gamma: float) -> None:
    """E FR = 0 and E‖FR‖² = (‖Nd‖² + ‖d‖²‖N‖²_F) / k ≤ 2 (γnL)² ‖d‖² / k."""
    block, (w, d), draws = Block(gamma), start(), 20_000
    A = reference.sparse_projection(np.random.default_rng(1), draws * F, K).reshape(draws, F, K)
    rest = block.M(w) - np.eye(F)
    projected = np.einsum("afk,ak->af", A, np.einsum("afk,f->ak", A, d))
    errors = (projected - d) @ rest.T
    assert_allclose(errors[0], block.first_order_error(w, d, A[0]), rtol=1e-10, atol=1e-14)

    assert (np.abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(draws)).all()
    squares = np.sum(errors**2, axis=1)
    moment = (np.sum((rest @ d) ** 2) + d @ d * np.sum(rest**2)) / K
    assert abs(squares.mean() - moment) < 4 * squares.std() / np.sqrt(draws)
    assert moment <= 2 * (gamma * N * block.L) ** 2 * (d @ d) / K


def test_first_order_error_shrinks_with_step_and_distance() -> None:
    """The root of its second moment is of first order in γ and in d, so of second order in a round."""
    (w, d), A = start(), reference.sparse_projection(np.random.default_rng(1), F, K)
    steps, lengths = 0.02 / 2.0 ** np.arange(5), 1.0 / 2.0 ** np.arange(5)
    by_step = [np.linalg.norm(Block(gamma).first_order_error(w, d, A)) for gamma in steps]
    by_length = [np.linalg.norm(Block(0.1).first_order_error(w, length * d, A)) for length in lengths]
    assert slope(steps, by_step) == pytest.approx(1.0, abs=0.05)
    assert slope(lengths, by_length) == pytest.approx(1.0, abs=1e-6)


# The second-order error


@pytest.mark.parametrize("seed", range(5))
def test_second_order_error_is_bounded(seed: int) -> None:
    """‖SR‖ ≤ ½ γ n b₃ R³ ‖d‖², and ≤ 2 γ n L ‖d‖ however large d is."""
    largest = 0.0
    for gamma in (0.01, 0.1, 2.0 / Block(1.0, seed).L):
        block, (w, direction) = Block(gamma, seed), start(seed)
        for length in (0.01, 0.3, 3.0, 30.0):
            d = length * direction
            size, norm = np.linalg.norm(block.second_order_error(w, d)), np.linalg.norm(d)
            by_curvature = 0.5 * gamma * N * B_3 * block.R**3 * norm**2
            assert size <= by_curvature * (1 + 1e-9)
            assert size <= 2 * gamma * N * block.L * norm
            largest = max(largest, size / by_curvature)
    assert largest > 0.005  # the bound is not idle


def test_second_order_error_shrinks_with_step_and_square_of_distance() -> None:
    w, d = start()
    steps, lengths = 0.02 / 2.0 ** np.arange(5), 0.02 / 2.0 ** np.arange(5)
    by_step = [np.linalg.norm(Block(gamma).second_order_error(w, d)) for gamma in steps]
    by_length = [np.linalg.norm(Block(0.1).second_order_error(w, length * d)) for length in lengths]
    assert slope(steps, by_step) == pytest.approx(1.0, abs=0.1)
    assert slope(lengths, by_length) == pytest.approx(2.0, abs=0.05)


# Convergence


def minimiser(X: Any, y: Any, alpha: float) -> Any:
    """Newton's method on mean log loss + ½ α ‖w‖²."""
    w = np.zeros(X.shape[1])
    for _ in range(30):
        g, h = reference.gradient(LOSS, X @ w, y), reference.curvature(LOSS, X @ w, y)
        w -= np.linalg.solve((X.T * h) @ X / len(X) + alpha * np.eye(len(w)), X.T @ g / len(X) + alpha * w)
    return w


@pytest.mark.parametrize("combiner", [Exact(), Projected(k=2)], ids=["exact", "projected"])
def test_it_converges(combiner: Any) -> None:
    """Steps with Σγ = ∞ and Σγ² < ∞, from far off; 8 blocks of 8 rows a round."""
    X = rows(128, 4)
    y, alpha = targets(X, LOSS), 0.3
    w, start_at, distances = minimiser(X, y, alpha), np.full(4, 5.0), []
    for passes in (1, 4, 24):
        run = reference.rounds(
            X,
            y,
            loss=LOSS,
            penalty=penalties.L2(alpha),
            schedule=schedules.InvScaling(0.5, power=0.6),
            orders=reference.full_order(128, 5, passes),
            n_blocks=8,
            block_size=8,
            combiner=combiner,
            coef=start_at,
            fit_intercept=False,
        )
        distances.append(np.linalg.norm(run.coef - w) / np.linalg.norm(start_at - w))
    assert 0.5 > distances[0] > 2 * distances[1] > 4 * distances[2]
    assert distances[2] < 0.01
