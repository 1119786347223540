"""Strategies in rounds do what `symsgd.reference.rounds` does: every loss, penalty, combiner and layout.

The oracle is given the core's own projections. What is not crossed here (schedule, threads, block, weights, averages,
intercept, order, soft curvature, k) takes its turns, by numbers that have no factor in common.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategy_cases import (
    LOSSES,
    PASSIVE_AGGRESSIVE,
    PENALTIES,
    SCHEDULES,
    assert_same,
    close,
    dense_rows,
    knows_all,
    laid_out,
    messy,
    name,
    oracle,
    targets,
    trained,
    weights,
)
from symsgd import EarlyStopping, Start, losses, penalties, schedules
from symsgd.combiners import AdaGradMean, Exact, Mean, Projected, Sum
from symsgd.strategies import AllReduce, Averaging, MapReduce

N = 43
LAYOUTS = {  # features, share of nonzeros: blocks of a few rows know some features, nearly all, or all
    "compact": (41, 0.09),
    "whole": (7, 0.4),
    "dense": (6, 1.0),
}
COMBINERS = ["matrix", "walk", "projected", "sum", "mean", "adagrad-mean"]
CROSSED = [  # every loss, penalty and combiner together, on one layout or on two
    (LOSSES[a], PENALTIES[b], COMBINERS[c], list(LAYOUTS)[d])
    for a, b, c, d in product(range(len(LOSSES)), range(len(PENALTIES)), range(len(COMBINERS)), range(len(LAYOUTS)))
    if (a + b + c + d) % 2 == 0
]


def is_refused(loss: Any, penalty: Any, combiner: str) -> bool:
    """By the strategy, or (AdaGrad with L1) unknown to the oracle."""
    return combiner == "adagrad-mean" and (penalty.name not in ("none", "l2") or loss.name == "one_class")


def average_of(penalty: Any, combiner: str, average: int) -> int:
    """The step from which iterates are averaged, where that works."""
    return 0 if penalty.name == "lasso" else average


def make_combiner(kind: str, k: int, soft: bool) -> Any:
    match kind:
        case "matrix" | "walk":
            return Exact(form=kind, soft_curvature=soft)  # type: ignore[arg-type]
        case "projected":
            return Projected(k=k, soft_curvature=soft)
        case "sum":
            return Sum()
        case "mean":
            return Mean()
        case _:
            return AdaGradMean(step_size=0.2)


def both(X: Any, y: Any, matrix: Any, *, combiner: Any, block_size: int, n_threads: int, **case: Any) -> Any:
    """The native training, and the oracle's run."""
    average, passes, init = case.pop("average", 0), case.pop("passes", 2), case.pop("init", None)
    class_weight, mask = case.pop("class_weight", None), case.pop("mask", None)
    start = {} if init is None else {"coef": init.coef, "intercept": float(init.intercept[0]), "t": init.t}
    if init is not None and average:
        start |= {"average_coef": init.average_coef, "average_intercept": float(init.average_intercept[0])}
    run = oracle(
        X,
        y,
        matrix,
        combiner=combiner,
        block_size=block_size,
        n_threads=n_threads,
        passes=passes,
        average=average,
        class_weight=class_weight or (1.0, 1.0),
        mask=mask,
        **start,
        **case,
    )
    result = trained(
        matrix,
        y,
        MapReduce(combiner, block_size),
        n_threads=n_threads,
        n_passes=passes,
        average=average or False,
        class_weight=class_weight,
        early_stopping=None if mask is None else EarlyStopping(mask),
        init=init,
        **case,
    )
    return result, run


@pytest.mark.parametrize(
    ("turn", "loss", "penalty", "combiner", "layout"),
    [
        pytest.param(turn, *case, id="-".join(map(name, case)))
        for turn, case in enumerate(CROSSED)
        if not is_refused(*case[:3])
    ],
)
def test_every_loss_penalty_combiner_and_layout(turn: int, loss: Any, penalty: Any, combiner: str, layout: str) -> None:
    f, density = LAYOUTS[layout]
    X = dense_rows(N, f, density=density)
    y, matrix = targets(X, loss), laid_out(X, "dense" if layout == "dense" else ["csr", "csr64"][turn % 2])
    chosen = make_combiner(combiner, k=[1, 7, 15, 4][turn % 4], soft=turn % 5 != 0)
    block_size = [4, 5, 6, 8][turn % 4] if layout == "whole" else [1, 5, 6, 4][turn % 4]
    assert knows_all(matrix, chosen, penalty, block_size) == (
        layout != "compact"
        or combiner in ("matrix", "adagrad-mean")
        or (combiner == "mean" and penalty.name == "lasso")
    )
    result, run = both(
        X,
        y,
        matrix,
        combiner=chosen,
        block_size=block_size,
        n_threads=[2, 3, 5, 16, 4][turn % 5],
        loss=loss,
        penalty=penalty,
        schedule=SCHEDULES[turn % 4],
        sample_weight=weights(N),
        class_weight=(0.7, 1.6) if loss.margin and loss.name != "one_class" else None,
        fit_intercept=turn % 7 != 0,
        average=average_of(penalty, combiner, [0, 1, 20][turn % 11 % 3]),
        shuffle=False if turn % 13 == 0 else "full",
        seed=turn,
    )
    assert abs(run.losses[0] - run.losses[1]) > 1e-6  # the second pass began from another model
    assert_same(result, run)


@pytest.mark.parametrize("combiner", COMBINERS[:5])
@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_passive_aggressive_steps(layout: str, penalty: Any, combiner: str) -> None:
    """Without empty rows, which PA-I passes over."""
    f, density = LAYOUTS[layout]
    turn = COMBINERS.index(combiner) + PENALTIES.index(penalty) + len(layout)
    for loss, schedule in [
        (losses.Hinge(), PASSIVE_AGGRESSIVE[turn % 2]),
        (losses.EpsilonInsensitive(0.2), PASSIVE_AGGRESSIVE[(turn + 1) % 2]),
    ]:
        X = dense_rows(N, f, density=density)
        X[:, 0] = np.where(X.any(axis=1), X[:, 0], 0.25)
        result, run = both(
            X,
            targets(X, loss),
            laid_out(X, "dense" if layout == "dense" else "csr"),
            combiner=make_combiner(combiner, 7, True),
            block_size=5,
            n_threads=3,
            loss=loss,
            penalty=penalty,
            schedule=schedule,
            sample_weight=weights(N),
            average=0 if penalty.name == "lasso" else 9,
        )
        assert_same(result, run)


@pytest.mark.parametrize("average", [0, 9])
@pytest.mark.parametrize("combiner", COMBINERS[:5])
@pytest.mark.parametrize("penalty", [PENALTIES[0], PENALTIES[2]], ids=name)
def test_passive_aggressive_steps_pass_over_rows_of_zeros(penalty: Any, combiner: str, average: int) -> None:
    X, loss = dense_rows(N, 7, density=0.4), losses.Hinge()
    assert not X.any(axis=1).all()
    result, run = both(
        X,
        targets(X, loss),
        laid_out(X, "csr"),
        combiner=make_combiner(combiner, 7, True),
        block_size=5,
        n_threads=3,
        loss=loss,
        penalty=penalty,
        schedule=schedules.PassiveAggressive1(0.3),
        average=average,
    )
    assert_same(result, run)


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@pytest.mark.parametrize("combiner", COMBINERS)
def test_single_precision(combiner: str, penalty: Any) -> None:
    for loss in (losses.LogLoss(), losses.SquaredError()):
        if is_refused(loss, penalty, combiner):
            continue
        for layout, (f, density) in LAYOUTS.items():
            X = dense_rows(N, f, density=density)
            matrix = laid_out(X, "dense" if layout == "dense" else "csr", np.float32)
            result, run = both(
                X,
                targets(X, loss),
                matrix,
                combiner=make_combiner(combiner, 15, True),
                block_size=5,
                n_threads=3,
                loss=loss,
                penalty=penalty,
                schedule=schedules.InvScaling(0.2, power=0.3),
                sample_weight=weights(N).astype(np.float32),
                average=average_of(penalty, combiner, 9),
            )
            assert result.coef.dtype == np.float32
            assert_same(result, run, tolerance=1e-4)


@pytest.mark.parametrize("k", range(1, 41))
def test_every_k(k: int) -> None:
    """The columns beside a weight fill every part of a vector; losses with loops of their own, and one without."""
    cases = [
        (losses.LogLoss(), penalties.L2(0.05), "compact"),
        (losses.Hinge(), penalties.NoPenalty(), "dense"),
        (losses.SquaredHinge(), penalties.L2(0.05), "whole"),
        (losses.SquaredError(), penalties.L1(0.01), "compact"),
    ]
    for loss, penalty, layout in cases if k in (7, 15) else cases[k % 2 :: 2]:
        f, density = LAYOUTS[layout]
        X = dense_rows(N, f, density=density)
        matrix = laid_out(X, "dense" if layout == "dense" else "csr")
        case = {"combiner": Projected(k), "block_size": 6, "n_threads": 4, "loss": loss, "penalty": penalty}
        assert_same(*both(X, targets(X, loss), matrix, schedule=schedules.Constant(0.2), passes=1, **case))


def test_projected_without_an_intercept() -> None:
    X, loss = dense_rows(N, 6), losses.LogLoss()
    case = {"combiner": Projected(7), "block_size": 6, "n_threads": 4, "loss": loss, "penalty": penalties.L2(0.05)}
    assert_same(*both(X, targets(X, loss), X, schedule=schedules.Constant(0.2), fit_intercept=False, **case))


def test_averages_of_adagrad() -> None:
    X, loss = dense_rows(N, 6), losses.LogLoss()
    case = {"combiner": AdaGradMean(0.2), "block_size": 6, "n_threads": 4, "loss": loss, "penalty": penalties.L2(0.05)}
    assert_same(*both(X, targets(X, loss), X, schedule=schedules.Constant(0.2), average=9, **case))


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("n_classes", [3, 9])
def test_several_classes(n_classes: int, combiner: str) -> None:
    """Each one-vs-rest problem is a run of its own, with its own projection and its own drift."""
    for layout, loss, penalty in [
        ("compact", losses.Hinge(), penalties.L2(0.05)),
        ("dense", losses.LogLoss(), penalties.ElasticNet(0.05, 0.4)),
        ("whole", losses.Perceptron(), penalties.Lasso(0.01)),
    ]:
        if is_refused(loss, penalty, combiner):
            continue
        f, density = LAYOUTS[layout]
        X = dense_rows(N, f, density=density)
        matrix, chosen = laid_out(X, "dense" if layout == "dense" else "csr"), make_combiner(combiner, 7, True)
        y, factors = np.arange(N) % n_classes, np.linspace(0.5, 1.5, n_classes)
        average = average_of(penalty, combiner, 30)
        case = {"loss": loss, "penalty": penalty, "schedule": SCHEDULES[1], "sample_weight": weights(N)}
        result = trained(
            matrix, y, MapReduce(chosen, 6), n_threads=3, class_weight=factors, average=average or False, **case
        )
        for c in range(n_classes) if n_classes == 3 else (0, 4, 8):
            run = oracle(
                X,
                np.where(y == c, 1.0, -1.0),
                matrix,
                combiner=chosen,
                n_threads=3,
                block_size=6,
                class_weight=(1.0, factors[c]),
                average=average,
                class_number=c,
                **case,
            )
            assert_same(result, run, c)


@pytest.mark.parametrize("combiner", COMBINERS)
def test_continuing_and_holding_out(combiner: str) -> None:
    """From a model, a step and means that something else has reached; some rows are in no block."""
    X, loss = dense_rows(N, 9), losses.SquaredError()
    rng = np.random.default_rng(4)
    init = Start(rng.standard_normal((1, 9)), np.array([0.3]), 17.0, rng.standard_normal((1, 9)), np.array([0.1]))
    init = Start(init.coef[0], init.intercept, init.t, init.average_coef[0], init.average_intercept)
    for penalty in PENALTIES:
        if is_refused(loss, penalty, combiner):
            continue
        result, run = both(
            X,
            targets(X, loss),
            X,
            combiner=make_combiner(combiner, 7, True),
            block_size=4,
            n_threads=3,
            loss=loss,
            penalty=penalty,
            schedule=SCHEDULES[1],
            average=average_of(penalty, combiner, 10),
            init=init,
            mask=np.arange(N) % 4 == 1,
        )
        assert [record.rows for record in result.passes] == [32, 32]
        assert_same(result, run)


@pytest.mark.parametrize("combiner", ["projected", "mean"])
def test_the_window_order(combiner: str) -> None:
    n = 16 * 512 + 13
    X, loss = dense_rows(n, 30, density=0.08), losses.LogLoss()
    result, run = both(
        X,
        targets(X, loss),
        laid_out(X, "csr"),
        combiner=make_combiner(combiner, 7, True),
        block_size=700,
        n_threads=5,
        loss=loss,
        penalty=penalties.L2(1e-3),
        schedule=schedules.Constant(0.05),
        shuffle=True,
        passes=1,
    )
    assert result.passes[0].merges == 12
    assert_same(result, run)


def test_more_features_in_a_block_than_a_replica_has_room_for_at_first() -> None:
    """4,096 of them; later blocks have more and more, so that it has to grow twice."""
    n, f = 15, 14_000
    rng = np.random.default_rng(0)
    X = np.zeros((n, f))
    for i in range(n):
        X[i, rng.choice(f, 200 + 250 * i, replace=False)] = 0.05
    y, case = targets(X, losses.LogLoss()), {"loss": losses.LogLoss(), "penalty": penalties.L2(0.05)}
    for combiner in (Projected(3), Exact(form="walk"), Mean()):
        assert_same(
            *both(
                X,
                y,
                laid_out(X, "csr"),
                combiner=combiner,
                block_size=3,
                n_threads=2,
                schedule=schedules.Constant(0.2),
                shuffle=False,
                passes=1,
                **case,
            )
        )


@pytest.mark.parametrize(
    ("combiner", "repeat", "loss"),
    [
        *[(combiner, False, losses.LogLoss()) for combiner in COMBINERS],
        *[(combiner, False, losses.Hinge()) for combiner in COMBINERS],
        *[(combiner, True, losses.LogLoss()) for combiner in COMBINERS[:5]],
        *[(combiner, True, losses.Hinge()) for combiner in COMBINERS],
        ("adagrad-mean", True, losses.LogLoss()),
    ],
    ids=name,
)
def test_unsorted_and_repeated_indices(combiner: str, repeat: bool, loss: Any) -> None:
    for layout in ("compact", "whole"):
        f, density = LAYOUTS[layout]
        X = dense_rows(N, f, density=density)
        matrix = messy(X, repeat=repeat)
        for penalty in PENALTIES:
            if is_refused(loss, penalty, combiner):
                continue
            # where entries count by themselves the core sums up and sorts them first
            soft = loss.name == "hinge" and combiner in COMBINERS[:3]
            apart = penalty.name == "lasso" or combiner == "adagrad-mean" or soft
            known = laid_out(X, "csr") if apart else matrix
            chosen = make_combiner(combiner, 7, True)
            case = {"loss": loss, "penalty": penalty, "schedule": SCHEDULES[0], "sample_weight": weights(N)}
            run = oracle(X, targets(X, loss), known, combiner=chosen, n_threads=3, block_size=5, **case)
            result = trained(matrix, targets(X, loss), MapReduce(chosen, 5), n_threads=3, **case)
            assert_same(result, run)


@pytest.mark.parametrize("strength", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("average", [0, 1])
@pytest.mark.parametrize("combiner", COMBINERS[:5])
def test_strong_decay(combiner: str, average: int, strength: float) -> None:
    """step × strength = 0.5, 1 and 2.5: a scale that shrinks fast, one that is 0, and one held at 0."""
    for penalty in (penalties.L2(strength), penalties.ElasticNet(strength, 0.2)):
        for layout in ("compact", "whole") if average else ("compact", "dense"):
            f, density = LAYOUTS[layout]
            X, loss = dense_rows(N, f, density=density), losses.SquaredError()
            result, run = both(
                X,
                targets(X, loss),
                laid_out(X, "dense" if layout == "dense" else "csr"),
                combiner=make_combiner(combiner, 7, True),
                block_size=6,
                n_threads=3,
                loss=loss,
                penalty=penalty,
                schedule=schedules.Constant(0.5),
                average=average,
            )
            assert_same(result, run)


# Once a pass


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5, 16, 50])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_averaging_and_allreduce_are_rounds_of_one_block_a_thread(layout: str, n_threads: int) -> None:
    """A pass of n rows is cut into blocks of ⌈n / threads⌉ rows, which may be fewer than there are threads."""
    f, density = LAYOUTS[layout]
    X, loss = dense_rows(N, f, density=density), losses.LogLoss()
    y, matrix = targets(X, loss), laid_out(X, "dense" if layout == "dense" else "csr")
    block_size = -(-N // n_threads)
    for strategy, combiner in [(Averaging(), Mean()), (AllReduce(0.3), AdaGradMean(0.3))]:
        case = {"loss": loss, "penalty": penalties.L2(0.05), "schedule": SCHEDULES[1], "sample_weight": weights(N)}
        result = trained(matrix, y, strategy, n_threads=n_threads, **case)
        run = oracle(X, y, matrix, combiner=combiner, n_threads=n_threads, block_size=block_size, **case)
        assert_same(result, run)
        assert {record.merges for record in result.passes} == {-(-N // block_size)}


# Objectives


@pytest.mark.parametrize("loss", [losses.SquaredError(), losses.OneClass(0.3)], ids=name)
@pytest.mark.parametrize("penalty", PENALTIES[:4], ids=name)
@pytest.mark.parametrize("combiner", COMBINERS)
def test_the_objective_has_the_penalty_of_the_model_at_the_end_of_the_pass(
    combiner: str, penalty: Any, loss: Any
) -> None:
    """Blocks do not know the norm of the model they are part of."""
    if is_refused(loss, penalty, combiner):
        return
    X = dense_rows(N, 9)
    l1_ratio = 1.0 if penalty.name == "l1" else getattr(penalty, "l1_ratio", 0.0)
    result = trained(
        X, targets(X, loss), MapReduce(make_combiner(combiner, 7, True), 5), n_threads=3, tol=0.0, patience=99,
        loss=loss, penalty=penalty, schedule=SCHEDULES[0],
    )  # fmt: skip
    w, record = result.coef[0], result.passes[-1]
    cost = getattr(penalty, "alpha", 0.0) * ((1 - l1_ratio) * 0.5 * w @ w + l1_ratio * np.abs(w).sum())
    close(record.objective, record.loss + cost + getattr(loss, "nu", 0.0) * result.intercept[0], 1e-12)


# Random corners


@st.composite
def corners(draw: Any) -> dict[str, Any]:
    loss = draw(st.sampled_from(LOSSES))
    penalty = draw(st.sampled_from(PENALTIES))
    combiner = draw(st.sampled_from([kind for kind in COMBINERS if not is_refused(loss, penalty, kind)]))
    passive = loss.name in ("hinge", "epsilon_insensitive") and combiner != "adagrad-mean" and draw(st.booleans())
    return {
        "n": draw(st.integers(2, 40)),
        "f": draw(st.integers(1, 25)),
        "density": draw(st.sampled_from([0.1, 0.3, 0.7, 1.0])),
        "layout": draw(st.sampled_from(["csr", "csr64", "dense"])),
        "data_seed": draw(st.integers(0, 1000)),
        "combiner": make_combiner(combiner, draw(st.integers(1, 20)), draw(st.booleans())),
        "block_size": draw(st.integers(1, 12)),
        "n_threads": draw(st.integers(1, 12)),
        "loss": loss,
        "penalty": penalty,
        "schedule": draw(st.sampled_from(PASSIVE_AGGRESSIVE if passive else SCHEDULES)),
        "average": average_of(penalty, combiner, draw(st.sampled_from([0, 0, 1, 15]))),
        "fit_intercept": draw(st.booleans()),
        "shuffle": draw(st.sampled_from([False, "full"])),
        "seed": draw(st.integers(0, 2**32 - 1)),
        "passes": draw(st.integers(1, 3)),
    }


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(corners())
def test_random_corners(case: dict[str, Any]) -> None:
    n, f, density, layout = (case.pop(key) for key in ("n", "f", "density", "layout"))
    X = dense_rows(n, f, density=density, seed=case.pop("data_seed"))
    if case["schedule"].name == "pa1":
        X[:, 0] = np.where(X.any(axis=1), X[:, 0], 0.25)
    y = targets(X, case["loss"])
    result, run = both(X, y, laid_out(X, layout), sample_weight=weights(n), **case)
    assert_same(result, run)
