"""Strategies in rounds: what equals the sequential run exactly, how near the rest comes to it, and the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracle_cases import LOSSES, PASSIVE_AGGRESSIVE, PENALTIES, Exact, Plain, Projected, error, name, rows, targets
from symsgd import losses, penalties, reference, schedules

N, F = 61, 6
OLS = losses.SquaredError()
NONE = penalties.NoPenalty()
SCHEDULE = schedules.InvScaling(0.1, power=0.3)
COMBINERS = [Exact(), Projected(k=3), Plain("sum"), Plain("mean"), Plain("adagrad-mean")]


def both(X: Any, y: Any, combiner: Any, n_blocks: int, block_size: int, *, projection: Any = None, **more: Any) -> Any:
    """The run in rounds and the sequential one."""
    arguments = {"penalty": NONE, "schedule": SCHEDULE, "orders": [np.arange(len(X))], **more}
    in_rounds = reference.rounds(
        X, y, n_blocks=n_blocks, block_size=block_size, combiner=combiner, projection=projection, **arguments
    )
    return in_rounds, reference.sequential(X, y, **arguments)


def problem(loss: Any, n: int = N, **more: Any) -> tuple[Any, Any]:
    X = rows(n, F, **more)
    return X, targets(X, loss)


# What is exact


@pytest.mark.parametrize("penalty", [NONE, penalties.L2(0.1)], ids=name)
@pytest.mark.parametrize("block_size", [1, 5, 7])
@pytest.mark.parametrize("n_blocks", [2, 3, 8, 16, 100])
def test_least_squares_with_the_exact_combiner_is_sequential(n_blocks: int, block_size: int, penalty: Any) -> None:
    X, y = problem(OLS)
    weights = np.where(np.arange(N) % 7 == 0, 0.0, np.linspace(0.0, 2.0, N))
    run, expected = both(
        X,
        y,
        Exact(),
        n_blocks,
        block_size,
        loss=OLS,
        penalty=penalty,
        orders=reference.full_order(N, 3, 3),
        sample_weight=weights,
        average=40,
        coef=np.arange(F),
        intercept=0.5,
        intercept_decay=0.3,
    )
    assert error(run, expected) < 1e-12
    assert run.t == expected.t


@pytest.mark.parametrize("masked", [False, True])
def test_held_out_rows_are_in_no_block(masked: bool) -> None:
    X, y = problem(OLS)
    mask = np.arange(N) % 3 == 0
    more = {"mask": mask} if masked else {"orders": [np.flatnonzero(~mask)]}
    run, expected = both(X, y, Exact(), 3, 4, loss=OLS, **more)
    assert error(run, expected) < 1e-12
    assert run.t == 1 + (~mask).sum()


@pytest.mark.parametrize(
    "penalty", [penalties.L1(0.05), penalties.ElasticNet(0.05, 0.4), penalties.Lasso(0.3)], ids=name
)
@pytest.mark.parametrize("sparse", [False, True])
def test_so_it_is_with_l1_and_lasso_where_no_weight_changes_side(penalty: Any, sparse: bool) -> None:
    """Large weights stay standing and the other halves cut: there the steps are linear in (w, q) and in (w₊, w₋)."""
    X = rows(N, F, sparse=sparse, scale=0.4)
    start = np.array([4.0, -4.0, 5.0, -5.0, 6.0, -6.0])
    y = X @ start + 0.2 * np.sin(np.arange(N))
    more = {"coef": start, "average": 9, "touched": "nonzero" if sparse else "all", "penalty": penalty}
    run, expected = both(X, y, Exact(), 3, 5, loss=OLS, **more)
    assert error(run, expected) < 1e-12
    wrong, _ = both(X, y, Plain("sum"), 3, 5, loss=OLS, **more)
    assert error(wrong, expected) > 1e-4


def test_so_it_is_with_passive_aggressive_steps_that_are_linear() -> None:
    """PA-II without a tube steps by −(p − y) / (‖x‖² + 1 / 2C). PA-I then counts no rows of zeros, in no block."""
    loss = losses.EpsilonInsensitive(epsilon=0.0)
    X, y = problem(loss)
    X[[3, 4, 20, 33]] = 0.0
    run, expected = both(X, y, Exact(), 4, 5, loss=loss, schedule=schedules.PassiveAggressive2(0.2), average=10)
    assert error(run, expected) < 1e-12
    run, expected = both(X, y, Exact(), 4, 5, loss=loss, schedule=schedules.PassiveAggressive1(50.0), average=10)
    assert error(run, expected) < 1e-12
    assert run.t == expected.t == 1 + N - 4


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("combiner", COMBINERS[:4], ids=name)
def test_one_block_a_round_is_sequential(combiner: Any, penalty: Any) -> None:
    for loss in LOSSES:
        X, y = problem(loss, 23)
        run, expected = both(X, y, combiner, 1, 5, loss=loss, penalty=penalty, average=4)
        assert error(run, expected) < 1e-13
        assert_allclose(run.losses, expected.losses, rtol=1e-13)
        assert_allclose(run.objectives, expected.objectives, rtol=1e-13)


# How near the rest comes


@pytest.mark.parametrize("penalty", [NONE, penalties.L2(0.1)], ids=name)
def test_the_error_of_the_exact_combiner_falls_with_the_cube_of_the_step(penalty: Any) -> None:
    """S″ is of first order in the step and d, twice, too: docs/convergence.md. Adding up is of second order."""
    loss = losses.LogLoss()
    for seed in range(3):
        X = rows(64, 8, seed=seed)
        y, start = targets(X, loss, seed + 10), np.random.default_rng(seed).standard_normal(8)
        steps = 0.01 / 2.0 ** np.arange(5)
        for combiner, order in [(Exact(), 3.0), (Plain("sum"), 2.0)]:
            errors = []
            for step in steps:
                more = {"loss": loss, "penalty": penalty, "schedule": schedules.Constant(step), "coef": start}
                run, expected = both(X, y, combiner, 4, 16, **more)
                errors.append(np.linalg.norm(run.coef - expected.coef))
            assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(order, abs=0.2)


@pytest.mark.parametrize("loss", [losses.LogLoss(), OLS, losses.SquaredHinge(), losses.Huber(0.8)], ids=name)
@pytest.mark.parametrize("penalty", PENALTIES[:4], ids=name)
def test_exact_is_nearer_than_adding_up(loss: Any, penalty: Any) -> None:
    """Not so with the Lasso from zero: whatever moved a half that the block cuts is forgotten, by M and D alike."""
    X, y = problem(loss, 240)
    more = {"loss": loss, "penalty": penalty, "schedule": schedules.Constant(0.02), "orders": [np.arange(240)] * 2}
    exact, expected = both(X, y, Exact(), 8, 8, **more)
    added, _ = both(X, y, Plain("sum"), 8, 8, **more)
    assert error(exact, expected) < 0.3 * error(added, expected)


@pytest.mark.parametrize("step", [0.1, 0.5])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.smooth], ids=name)
def test_soft_curvature_brings_losses_with_kinks_nearer(loss: Any, step: float) -> None:
    soft, hard = [], []
    for seed in range(4):
        X = rows(256, 8, seed=seed)
        y = targets(X, loss, seed + 10)
        more = {"loss": loss, "penalty": penalties.L2(0.01), "schedule": schedules.Constant(step)}
        soft.append(error(*both(X, y, Exact(soft_curvature=True), 8, 16, **more)))
        hard.append(error(*both(X, y, Exact(soft_curvature=False), 8, 16, **more)))
    assert np.mean(soft) < 0.7 * np.mean(hard)


def test_projected_is_exact_on_average() -> None:
    """In a round of two blocks; the averages of the iterates too."""
    X, y = problem(OLS, 20)
    exact, _ = both(X, y, Exact(), 2, 10, loss=OLS, penalty=penalties.L2(0.3), average=5)
    runs = [
        both(
            X,
            y,
            Projected(k=5),
            2,
            10,
            loss=OLS,
            penalty=penalties.L2(0.3),
            average=5,
            projection=reference.seeded_projections(seed),
        )[0]
        for seed in range(300)
    ]
    for part in ("coef", "average_coef"):
        drawn = np.array([getattr(run, part) for run in runs])
        spread = drawn.std(axis=0) / np.sqrt(len(runs))
        assert (np.abs(drawn.mean(axis=0) - getattr(exact, part)) < 4.5 * spread).all()
        assert drawn.std(axis=0).min() > 1e-4


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_projected_with_the_identity_is_exact(penalty: Any, sparse: bool) -> None:
    """A = I, as many columns as states: all of M is known. Blocks are numbered over the pass, passes from 0."""
    asked = []

    def identity(pass_: int, block: int, n_states: int, k: int) -> Any:
        asked.append((pass_, block))
        assert n_states == k
        return np.eye(n_states)

    X, y = problem(OLS, 31, sparse=sparse)
    n_states = F + 1 if penalty.name in ("none", "l2") else 2 * F + 1
    more = {"loss": OLS, "penalty": penalty, "average": 5, "orders": [np.arange(31)] * 2}
    more["touched"] = "nonzero" if sparse else "all"
    exact, _ = both(X, y, Exact(), 3, 4, **more)
    run, _ = both(X, y, Projected(k=n_states), 3, 4, projection=identity, **more)
    assert error(run, exact) < 1e-12
    assert asked == [(pass_, block) for pass_ in (0, 1) for block in (1, 2, 4, 5, 7)]


def test_features_that_a_sparse_block_has_not_are_not_projected() -> None:
    """Else the d of a feature that no row of the block has would scatter over those that they have."""
    X = np.zeros((8, 4))
    X[:4, :2], X[4:, 2:] = rows(4, 2, seed=1), rows(4, 2, seed=2)
    y = np.ones(8)
    more = {"loss": OLS, "fit_intercept": False}
    run, expected = both(X, y, Projected(k=9), 2, 4, touched="nonzero", **more)
    assert error(run, expected) < 1e-13
    for alike in ({"touched": "all"}, {"touched": "nonzero", "whole": True}):
        in_rounds = reference.rounds(
            X,
            y,
            n_blocks=2,
            block_size=4,
            combiner=Projected(k=9),
            penalty=NONE,
            schedule=SCHEDULE,
            orders=[np.arange(8)],
            **more,
            **alike,
        )
        assert error(in_rounds, expected) > 1e-3


def test_halves_of_the_lasso_stay_above_zero_and_unseen_ones_shrink_from_where_they_are() -> None:
    """Feature 0 is in the first block alone and rises from zero there; the second block, which would have cut it, has
    not seen it and shrinks it from where the first has left it. So the merge is exact, unless the block knows it."""
    X, y = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3), np.full(6, 5.0)
    more = {"loss": OLS, "penalty": penalties.Lasso(0.1), "fit_intercept": False, "touched": "nonzero"}
    more["schedule"] = schedules.Constant(0.1)
    run, expected = both(X, y, Exact(), 2, 3, **more)
    assert expected.coef[0] > 1.0
    assert error(run, expected) < 1e-13
    whole = reference.rounds(
        X, y, n_blocks=2, block_size=3, combiner=Exact(), orders=[np.arange(6)], whole=True, **more
    )
    assert whole.coef[0] == 0.0

    X, y = problem(OLS, 60, sparse=True)
    more["schedule"] = schedules.Constant(1.2)  # far too large: merges overshoot
    learner = reference.make_learner(
        X, y, **{key: more[key] for key in ("loss", "penalty", "schedule", "fit_intercept", "touched")}
    )
    start = reference.start_state(learner, np.full(F, 0.3))
    one, two = (reference.run_block(learner, start, part, trace=True) for part in (range(6), range(6, 12)))
    merged = two.end.vector + reference.derivative(two) @ (one.end.vector - start.vector)
    run, _ = both(X, y, Exact(), 2, 6, **more, coef=np.full(F, 0.3), orders=[np.arange(12)])
    assert merged.min() < -0.1
    halves = np.maximum(0.0, merged[:-1])
    assert_allclose(run.coef, halves[:F] - halves[F:], atol=1e-13)


def test_a_mean_of_blocks_under_l1_counts_what_is_owed_from_the_start_of_the_round() -> None:
    """Two blocks of three rows: each has paid for three steps, and so has the mean, and the next round goes on."""
    X, y = problem(OLS, 9)
    learner = reference.make_learner(
        X, y, loss=OLS, penalty=penalties.L1(0.3), schedule=schedules.Constant(0.1), fit_intercept=False
    )
    start = reference.start_state(learner, np.full(F, 2.0))
    ends = [reference.run_block(learner, start, range(i, i + 3)).end for i in (0, 3)]
    assert ends[0].weights.owed == pytest.approx(0.09)
    middle = reference.moved_state(learner, ends[0], np.mean([end.vector for end in ends], axis=0))
    expected = reference.run_block(learner, middle, range(6, 9)).end
    run, _ = both(
        X,
        y,
        Plain("mean"),
        2,
        3,
        loss=OLS,
        penalty=penalties.L1(0.3),
        schedule=schedules.Constant(0.1),
        fit_intercept=False,
        coef=np.full(F, 2.0),
    )
    assert_allclose(run.coef, expected.weights.parts[0], rtol=1e-13)


# Definitions


def test_the_blocks_of_a_round_start_from_one_state_at_their_own_place() -> None:
    """Sum and mean by hand, of a ragged round: each block is a sequential run that starts with its own t."""
    X, y = problem(OLS, 13)
    parts, start = [range(0, 5), range(5, 10), range(10, 13)], np.arange(F) / 10
    more = {"loss": OLS, "penalty": penalties.L2(0.5), "schedule": SCHEDULE, "coef": start, "intercept": 0.3}
    alone = [reference.sequential(X, y, orders=[np.array(part)], t=1.0 + part[0], **more) for part in parts]
    total, _ = both(X, y, Plain("sum"), 3, 5, **more)
    mean, _ = both(X, y, Plain("mean"), 3, 5, **more)
    assert_allclose(mean.coef, np.mean([run.coef for run in alone], axis=0), rtol=1e-13)
    assert_allclose(mean.intercept, np.mean([run.intercept for run in alone]), rtol=1e-13)
    chain = alone[0].coef
    for run, part in zip(alone[1:], parts[1:], strict=True):
        decay = np.prod([1 - 0.5 * 0.1 / (1.0 + i) ** 0.3 for i in part])
        chain = run.coef + decay * (chain - start)
    assert_allclose(total.coef, chain, rtol=1e-13)
    assert total.intercept == pytest.approx(0.3 + sum(run.intercept - 0.3 for run in alone), rel=1e-13)
    assert_allclose(total.losses, [np.average([run.losses[0] for run in alone], weights=[5, 5, 3])], rtol=1e-13)


def test_the_drift_of_the_last_round_is_the_width_of_the_next() -> None:
    """Two rounds of hinge by hand: δ is at least the root mean square of x·d + d_b over rows 0, s, 2s, … of a block."""
    loss, schedule, block_size = losses.Hinge(), schedules.Constant(0.05), 40
    X, y = problem(loss, 4 * block_size)
    learner = reference.make_learner(X, y, loss=loss, penalty=NONE, schedule=schedule)
    start, drift = reference.start_state(learner), 0.0
    for first in (0, 2 * block_size):
        one, two = range(first, first + block_size), range(first + block_size, first + 2 * block_size)
        c = reference.run_block(learner, start, one).end.vector
        block = reference.run_block(learner, start, two, trace=True, drift=drift)
        d = c - start.vector
        merged = block.end.vector + reference.derivative(block) @ d
        drift = float(np.sqrt(np.mean((X[list(two)[::2]] @ d[:-1] + d[-1]) ** 2)))
        start = reference.moved_state(learner, block.end, merged)
    assert drift > 0.01
    run, _ = both(X, y, Exact(), 2, block_size, loss=loss, schedule=schedule)
    assert_allclose(np.append(run.coef, run.intercept), start.vector, rtol=1e-12)


@pytest.mark.parametrize("loss", [losses.LogLoss(), losses.OneClass(nu=0.3)], ids=name)
def test_adagrad_by_hand(loss: Any) -> None:
    X, y = problem(loss, 11, sparse=True)
    X[:, 2] = 0.0  # no gradient ever: decayed alone
    eta, alpha, kappa = 0.4, 0.2, 0.3
    start = np.arange(1.0, F + 1) / 10
    w, G, b, Gb = start.copy(), np.zeros(F), 0.0, 0.0
    nu = getattr(loss, "nu", 0.0)
    for parts in [[range(0, 4), range(4, 8)], [range(8, 11)]]:
        ends = []
        for part in parts:
            v, a, S, Sb = w.copy(), b, G.copy(), Gb
            for i in part:
                g = 2.0 * float(reference.gradient(loss, X[i] @ v + a, 1.0 if nu else y[i]))
                for j in range(F):
                    S[j] += (g * X[i, j]) ** 2
                    v[j] *= 1 - eta * alpha
                    if S[j] > 0:
                        v[j] -= eta * g * X[i, j] / np.sqrt(S[j])
                Sb += g**2
                a -= kappa * eta * ((g / np.sqrt(Sb) if Sb > 0 else 0.0) + nu)
            ends.append((v, S, a, Sb))
        total = sum(S for _, S, _, _ in ends)
        safe = np.where(total > 0, total, 1.0)
        mean = np.mean([v for v, _, _, _ in ends], axis=0)
        w = np.where(total > 0, sum(S * v for v, S, _, _ in ends) / safe, mean)
        G = sum(S**2 for _, S, _, _ in ends) / safe
        b, Gb = (
            sum(Sb * a for _, _, a, Sb in ends) / sum(Sb for *_, Sb in ends),
            sum(Sb**2 for *_, Sb in ends) / sum(Sb for *_, Sb in ends),
        )
    run = reference.rounds(
        X,
        y,
        loss=loss,
        penalty=penalties.L2(alpha),
        schedule=SCHEDULE,
        orders=[np.arange(11)],
        n_blocks=2,
        block_size=4,
        combiner=Plain("adagrad-mean", step_size=eta),
        sample_weight=np.full(11, 2.0),
        intercept_decay=kappa,
        coef=start,
    )
    assert_allclose(run.coef, w, rtol=1e-12)
    assert run.intercept == pytest.approx(b, rel=1e-12)
    assert run.coef[2] == pytest.approx(start[2] * (1 - eta * alpha) ** 7)  # four rows in a round, then three
    assert run.t == 12


def test_split_drops_nothing() -> None:
    for n, n_blocks, block_size in [(10, 3, 2), (10, 3, 4), (1, 5, 5), (7, 1, 3), (12, 2, 3)]:
        order = np.random.default_rng(0).permutation(n)
        parts = reference.split(order, n_blocks, block_size)
        assert_array_equal(np.concatenate([block for blocks in parts for block in blocks]), order)
        sizes = [len(block) for blocks in parts for block in blocks]
        assert all(size == block_size for size in sizes[:-1])
        assert all(len(blocks) == n_blocks for blocks in parts[:-1])


def test_what_makes_no_sense_says_why() -> None:
    X, y = problem(OLS)
    with pytest.raises(ValueError, match="no combiner 'median'; it has exact, projected"):
        both(X, y, Plain("median"), 2, 5, loss=OLS)
    with pytest.raises(ValueError, match="AdaGrad rates go with no penalty or L2"):
        both(X, y, Plain("adagrad-mean"), 2, 5, loss=OLS, penalty=penalties.L1(0.1))
    with pytest.raises(ValueError, match="AdaGrad"):
        both(X, y, Plain("adagrad-mean"), 2, 5, loss=losses.Hinge(), schedule=PASSIVE_AGGRESSIVE[0])
    with pytest.raises(ValueError, match="block_size=0"):
        both(X, y, Exact(), 2, 0, loss=OLS)


def test_the_callers_arrays_are_left_alone() -> None:
    X, y = problem(OLS)
    coef, average = np.ones(F), np.ones(F)
    before = [array.copy() for array in (X, y, coef, average)]
    for combiner in COMBINERS:
        both(X, y, combiner, 3, 5, loss=OLS, coef=coef, average_coef=average, average=3)
    for array, copy in zip((X, y, coef, average), before, strict=True):
        assert_array_equal(array, copy)
