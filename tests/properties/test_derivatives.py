"""M, the derivative of a block, against finite differences of the block itself; its rank; soft curvature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracle_cases import LOSSES, PASSIVE_AGGRESSIVE, PENALTIES, name, rows, targets
from symsgd import losses, penalties, reference, schedules

N, F = 12, 6
PASSIVE_AGGRESSIVE_LOSSES = [losses.Hinge(), losses.EpsilonInsensitive(epsilon=0.2)]
CASES = [
    *[(loss, penalty, schedules.InvScaling(0.3, power=0.4)) for loss in LOSSES for penalty in PENALTIES],
    *[
        (loss, penalty, schedule)
        for loss in PASSIVE_AGGRESSIVE_LOSSES
        for penalty in PENALTIES
        for schedule in PASSIVE_AGGRESSIVE
    ],
]
LINEAR_STEPS = {"hinge", "perceptron", "epsilon_insensitive", "one_class"}


def ids(case: Any) -> str:
    return "-".join(map(name, case))


def started(
    loss: Any, penalty: Any, schedule: Any, *, sparse: bool, fit_intercept: bool = True, n: int = N, **more: Any
) -> tuple[reference.Learner, reference.State]:
    """A learner with weights and averages, and a state in the midst of a training: weights large and small, none 0."""
    X = rows(n, F, sparse=sparse)
    learner = reference.make_learner(
        X,
        targets(X, loss),
        loss=loss,
        penalty=penalty,
        schedule=schedule,
        sample_weight=np.random.default_rng(2).uniform(0.3, 2.0, n),
        fit_intercept=fit_intercept,
        intercept_decay=0.3,
        average=6,
        touched="nonzero" if sparse else "all",
        **more,
    )
    rng = np.random.default_rng(3)
    state = reference.start_state(learner, rng.standard_normal(F) * np.geomspace(1.0, 0.01, F), 0.2, t=3.0)
    return learner, reference.moved_state(learner, state, state.vector + 0.01 * rng.random(learner.n_states))


def differences(learner: reference.Learner, state: reference.State, step: float = 1e-6) -> tuple[Any, Any]:
    """Central differences of the end and of the sum of iterates by every number of the start."""
    ends, sums = [], []
    for j in range(learner.n_states):
        change = step * np.eye(learner.n_states)[j]
        up, down = (
            reference.run_block(learner, reference.moved_state(learner, state, state.vector + s * change), range(N))
            for s in (+1, -1)
        )
        ends.append((up.end.vector - down.end.vector) / (2 * step))
        sums.append((up.iterates - down.iterates) / (2 * step))
    return np.transpose(ends), np.transpose(sums)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_m_is_the_derivative_of_the_block(case: Any, sparse: bool) -> None:
    learner, state = started(*case, sparse=sparse)
    block = reference.run_block(learner, state, range(N), trace=True)
    of_end, of_iterates = differences(learner, state)
    assert_allclose(reference.derivative(block), of_end, atol=1e-7)
    assert_allclose(reference.derivative_of_iterates(block), of_iterates, atol=1e-6)

    coupled = np.abs(reference.derivative(block) - reference.uncoupled_derivative(block)).max()
    if case[0].name in LINEAR_STEPS and not case[2].passive_aggressive:
        assert coupled == 0.0
    else:
        assert coupled > 0.01


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[2], CASES[4]], ids=ids)
def test_without_an_intercept_b_is_a_constant(case: Any) -> None:
    learner, state = started(*case, sparse=False, fit_intercept=False)
    M = reference.derivative(reference.run_block(learner, state, range(N), trace=True))
    assert_allclose(M[:-1, :-1], differences(learner, state)[0][:-1, :-1], atol=1e-7)
    assert_array_equal(M[-1], np.eye(learner.n_states)[-1])
    assert_array_equal(M[:, -1], np.eye(learner.n_states)[-1])


@pytest.mark.parametrize("penalty", PENALTIES[2:], ids=name)
def test_the_penalty_both_cuts_and_spares(penalty: Any) -> None:
    """Else the finite differences above would say nothing about the rows of M that are masked."""
    learner, state = started(losses.SquaredError(), penalty, schedules.InvScaling(0.3, power=0.4), sparse=True)
    block = reference.run_block(learner, state, range(N), trace=True)
    standing = np.array([step.shape.standing for step in block.steps or ()])
    assert standing.any()
    if penalty.name == "lasso":
        assert not standing.all()
    else:
        assert np.array([step.shape.cut for step in block.steps or ()]).any()


@pytest.mark.parametrize("case", CASES[:5], ids=ids)
def test_a_walk_is_the_matrix_applied(case: Any) -> None:
    learner, state = started(*case, sparse=True)
    block = reference.run_block(learner, state, range(N), trace=True)
    d = np.random.default_rng(4).standard_normal((learner.n_states, 2))
    walked = reference.push(block, d)
    assert_allclose(walked.end, reference.derivative(block) @ d, rtol=1e-12, atol=1e-13)
    assert_allclose(walked.iterates, reference.derivative_of_iterates(block) @ d, rtol=1e-12, atol=1e-13)


def test_a_block_without_a_trace_cannot_be_differentiated() -> None:
    learner, state = started(*CASES[0], sparse=False)
    with pytest.raises(ValueError, match="trace=True"):
        reference.derivative(reference.run_block(learner, state, range(N)))


# D: each feature on its own


@pytest.mark.parametrize("alpha", [0.0, 0.1, 2.0, 30.0])
def test_alone_l2_scales_weights_and_leaves_the_intercept(alpha: float) -> None:
    schedule = schedules.InvScaling(0.3, power=0.4)
    learner, state = started(losses.LogLoss(), penalties.L2(alpha), schedule, sparse=True)
    D = reference.uncoupled_derivative(reference.run_block(learner, state, range(N), trace=True))
    decay = np.prod([max(0.0, 1.0 - alpha * 0.3 / t**0.4) for t in range(3, 3 + N)])
    assert_allclose(D, np.diag([decay] * F + [1.0]), rtol=1e-13)


def test_alone_a_feature_that_no_row_has_keeps_what_l1_was_paid() -> None:
    """A feature of the row ends standing, (dw, dq) → (dw − dq, 0), or cut, (dw, dq) → (0, dq − dw)."""
    X = rows(N, F, sparse=True)
    X[:, 2] = 0.0
    learner = reference.make_learner(
        X, np.ones(N), loss=losses.SquaredError(), penalty=penalties.L1(0.05), schedule=schedules.Constant(0.1),
        touched="nonzero",
    )  # fmt: skip
    state = reference.start_state(learner, [2.0, 2.0, 2.0, 1e-4, -1e-4, -2.0])
    block = reference.run_block(
        learner, state, [int(i) for i in np.flatnonzero(X[:, [0, 3]].all(axis=1))[:1]], trace=True
    )
    D = reference.uncoupled_derivative(block).reshape(learner.n_states, -1)
    pairs = [D[np.ix_([i, F + i], [i, F + i])].tolist() for i in range(F)]
    assert pairs[0] == [[1.0, -1.0], [0.0, 0.0]]
    assert pairs[2] == [[1.0, 0.0], [0.0, 1.0]]
    w = block.end.weights.parts[0]
    for i in np.flatnonzero(X[np.flatnonzero(X[:, [0, 3]].all(axis=1))[0]]):
        assert pairs[i] == ([[1.0, -1.0], [0.0, 0.0]] if w[i] != 0.0 else [[0.0, 0.0], [-1.0, 1.0]])


# Rank


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES[:2], ids=name)
@pytest.mark.parametrize("n", [1, 3, 7])
def test_rank_is_at_most_the_block(penalty: Any, n: int, fit_intercept: bool) -> None:
    """rank(M − Π(1 − αλ) I) ≤ n (the paper says b − a, one less); with L2 it is D that must be taken off, not I."""
    X = rows(n, 12)
    schedule = schedules.InvScaling(0.3, power=0.4)
    learner = reference.make_learner(
        X, targets(X, losses.LogLoss()), loss=losses.LogLoss(), penalty=penalty, schedule=schedule,
        fit_intercept=fit_intercept,
    )  # fmt: skip
    block = reference.run_block(learner, reference.start_state(learner), range(n), trace=True)
    M, D = reference.derivative(block), reference.uncoupled_derivative(block)
    assert np.linalg.matrix_rank(M - D, tol=1e-10) == n
    if penalty.name == "l2":
        assert np.linalg.matrix_rank(M - np.eye(len(M)), tol=1e-10) >= 12


@pytest.mark.parametrize("penalty", PENALTIES[2:], ids=name)
def test_rank_is_at_most_the_block_with_l1_and_lasso(penalty: Any) -> None:
    learner, state = started(losses.SquaredError(), penalty, schedules.InvScaling(0.3, power=0.4), sparse=True)
    for n in (1, 3, 5):
        block = reference.run_block(learner, state, range(n), trace=True)
        rest = reference.derivative(block) - reference.uncoupled_derivative(block)
        assert 1 <= np.linalg.matrix_rank(rest, tol=1e-10) <= n


def test_the_rest_of_m_lives_on_the_features_of_the_block() -> None:
    learner, state = started(losses.SquaredError(), penalties.L1(0.05), schedules.Constant(0.2), sparse=True)
    block = reference.run_block(learner, state, range(2), trace=True)
    rest = reference.derivative(block) - reference.uncoupled_derivative(block)
    unseen = np.append(np.tile((learner.X[:2] == 0.0).all(axis=0), 2), False)
    assert unseen.any()
    assert_array_equal(rest[unseen], 0.0)
    assert_array_equal(rest[:, unseen], 0.0)


# Soft curvature


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.smooth], ids=name)
def test_soft_curvature_tends_to_h(loss: Any) -> None:
    p, y = np.linspace(-3.0, 3.0, 41) + 0.003, 1.0
    h, around = reference.curvature(loss, p, y), [reference.curvature(loss, p + s * 0.02, y) for s in (+1, -1)]
    away = np.abs(around[0] - around[1]) < 0.1  # from jumps of h
    wide, narrow = (np.abs(reference.soft_curvature(loss, p, y, d) - h)[away].max() for d in (1e-2, 1e-4))
    assert wide < 1e-4
    assert narrow < 1e-8


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.smooth], ids=name)
def test_soft_curvature_spreads_the_jump(loss: Any) -> None:
    """∫ h_δ dp is how far g jumps in all, whatever δ, and h_δ is 0 further than δ from a kink."""
    p, width = np.linspace(-8.0, 8.0, 160_001), 16.0 / 160_000
    jump = reference.gradient(loss, 8.0, 1.0) - reference.gradient(loss, -8.0, 1.0)
    for delta in (0.05, 0.5, 2.0):
        soft = reference.soft_curvature(loss, p, 1.0, delta)
        assert soft.min() >= 0.0
        assert soft.sum() * width == pytest.approx(float(jump), rel=2e-3)
        assert soft.max() <= float(jump) / (2 * delta) + 1e-12
    assert_array_equal(reference.soft_curvature(loss, p, 1.0, 0.0), 0.0)
    assert_array_equal(reference.curvature(loss, p, 1.0), 0.0)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.smooth], ids=name)
def test_a_soft_step_never_overshoots(loss: Any) -> None:
    """0 ≥ (∂u/∂p) (‖x‖² + κ) ≥ −1 at any step size, drift and p, and −1 is reached."""
    rng, steepest = np.random.default_rng(0), 0.0
    for _ in range(2000):
        p, eta, length, drift = rng.uniform(-2, 2), 10 ** rng.uniform(-3, 3), rng.uniform(0, 3), rng.uniform(0, 1)
        slope = reference.slope_of_step(loss, 1.0, p, 0.0, eta=eta, c=1.5, length=length, drift=drift * rng.integers(2))
        assert -1.0 - 1e-12 <= slope * length <= 0.0
        steepest = min(steepest, slope * length)
    assert steepest == pytest.approx(-1.0)
    assert reference.slope_of_step(loss, 1.0, 0.99, 0.0, eta=1.0, c=1.0, length=1.0, drift=None) == 0.0
    assert reference.slope_of_step(loss, 1.0, 0.99, 0.0, eta=1.0, c=0.0, length=1.0, drift=0.0) == 0.0


def test_the_width_of_a_soft_step() -> None:
    """δ = max(drift, η c (‖x‖² + κ) / 2); the hinge's slope is −η c / 2δ within δ of its kink at p = 1, else 0."""
    for p, drift, expected in [
        (0.6, 0.0, -0.5),
        (0.4, 0.0, 0.0),
        (0.4, 0.3, 0.0),
        (0.4, 0.8, -0.3125),
        (0.1, 0.8, 0.0),
    ]:
        slope = reference.slope_of_step(losses.Hinge(), 1.0, p, 0.0, eta=0.25, c=2.0, length=2.0, drift=drift)
        assert slope == pytest.approx(expected)


def test_soft_curvature_is_for_kinks_alone() -> None:
    for loss in LOSSES:
        hard, soft = (
            reference.slope_of_step(loss, 1.0, 0.85, 0.7, eta=0.5, c=2.0, length=3.0, drift=drift)
            for drift in (None, 0.5)
        )
        assert hard == -0.7
        assert (soft == hard) is loss.smooth
