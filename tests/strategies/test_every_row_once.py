"""Whatever the strategy, the threads and the shapes: every row is trained once a pass, and nothing crashes.

Rows with one feature each, no feature twice, do not know of one another: what a pass does to weight i of least squares,

    w_i ← (1 − η λ)^(steps before) … + η c_i x_i (y_i − x_i w_i) …

is the same in every interleaving, so that the result of even a racy training is known exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategy_cases import ASYNC_CURVATURE, CURVATURE, IN_ROUNDS, RACY, close, dense_rows, targets
from symsgd import EarlyStopping, losses, penalties, schedules, strategies, train
from symsgd.combiners import AdaGradMean, Exact, Mean, Projected, Sum
from symsgd.strategies import (
    AllReduce,
    Async,
    Averaging,
    HogBatch,
    Hogwild,
    MapReduce,
    ParameterServer,
    RoundRobin,
)

QUICK = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

counts = st.integers(1, 40)
CHAINED = st.one_of(
    st.builds(MapReduce, st.builds(Projected, st.integers(1, 20), st.booleans()), counts),
    st.builds(MapReduce, st.sampled_from([Exact("matrix"), Exact("walk"), Exact(), Sum()]), counts),
)
RACING = st.one_of(
    st.just(Hogwild()),
    st.builds(HogBatch, counts),
    st.builds(RoundRobin, counts),
    st.builds(ParameterServer, counts),
    st.builds(
        Async,
        st.one_of(st.builds(Projected, st.integers(1, 20), st.booleans()), st.sampled_from([Exact(), Sum()])),
        counts,
        st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
        st.sampled_from([1, 10, 1000]),
    ),
)
MEANS = st.one_of(
    st.just(Averaging()),
    st.builds(AllReduce, st.sampled_from([0.01, 0.1])),
    st.builds(MapReduce, st.sampled_from([Mean(), AdaGradMean(0.1)]), counts),
)


@pytest.fixture(autouse=True, scope="module")
def _as_many_cores_as_threads() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies, "available_cores", lambda: 16)
        yield


def one_hot(n: int, f: int, seed: int, layout: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """n rows with a feature each, of f ≥ n; which feature, and the values."""
    rng = np.random.default_rng(seed)
    features, values = rng.permutation(f)[:n], rng.uniform(0.5, 1.5, n)
    X = sp.csr_matrix((values, features, np.arange(n + 1)), shape=(n, f))
    return X.toarray() if layout == "dense" else X, features, values


@QUICK
@given(
    strategy=st.one_of(CHAINED, RACING),
    n=st.integers(1, 120),
    spare=st.integers(0, 30),
    n_threads=st.integers(1, 12),
    layout=st.sampled_from(["csr", "dense"]),
    passes=st.integers(1, 3),
    strength=st.sampled_from([0.0, 0.01]),
    shuffle=st.sampled_from([False, "full"]),
    held=st.booleans(),
    seed=st.integers(0, 100),
)
def test_rows_that_share_no_feature(
    strategy: Any, n: int, spare: int, n_threads: int, layout: str, passes: int, strength: float, shuffle: Any,
    held: bool, seed: int,
) -> None:  # fmt: skip
    """As if each were the only one. Under L2 the weights decay at every row, so that is compared with sequential.

    A projection mixes features that a block knows and others have moved: here none, if it knows its own alone. Where
    blocks are merged as they end, what comes first decays with what comes later."""
    if isinstance(strategy, (ParameterServer, Async)):
        strength = 0.0
    if isinstance(getattr(strategy, "combiner", None), Projected):
        layout, strength, n, spare = "csr", 0.0, n + 1, spare + 41
        if isinstance(strategy, Async):
            strategy = replace(strategy, frequent_threshold=1.0, frequent_sample=1000)
    X, features, x = one_hot(n, n + spare, seed, layout)
    rng = np.random.default_rng(seed + 1)
    y, c, step = rng.standard_normal(n), rng.uniform(0.0, 2.0, n), 0.3
    c[0] = 1.0
    held_out = rng.random(n) < 0.3
    stopping = EarlyStopping(held_out) if held and held_out.any() and not held_out.all() else None
    result = train(
        X, y, strategy=strategy, n_threads=n_threads, n_passes=passes, loss="squared_error", sample_weight=c,
        schedule=schedules.Constant(step), penalty=penalties.L2(strength), fit_intercept=False, shuffle=shuffle,
        early_stopping=stopping, patience=99, seed=seed,
    )  # fmt: skip
    taken = np.zeros(n, bool) if stopping is None else held_out
    assert [record.rows for record in result.passes] == [np.count_nonzero(~taken)] * passes
    assert result.t == 1 + passes * np.count_nonzero(~taken)
    expected = np.zeros(n + spare)
    if strength == 0.0:
        expected[features] = np.where(taken, 0.0, y / x * (1 - (1 - step * c * x**2) ** passes))
    else:
        expected = train(
            X, y, strategy="sequential", n_passes=passes, loss="squared_error", sample_weight=c,
            schedule=schedules.Constant(step), penalty=penalties.L2(strength), fit_intercept=False, shuffle=shuffle,
            early_stopping=stopping, patience=99, seed=seed,
        ).coef[0]  # fmt: skip
    close(result.coef[0], expected, 1e-9)


@pytest.mark.parametrize("n_threads", [2, 5, 16])
@pytest.mark.parametrize(
    "strategy", [key for key in (IN_ROUNDS | RACY) if key not in ("mean", "averaging", *CURVATURE, *ASYNC_CURVATURE)]
)
def test_many_rows_that_share_no_feature(strategy: str, n_threads: int) -> None:
    """Long enough for the threads to be at work at once, in the window order; AdaGrad's first step is ±η. (Not for the
    curvature combiner, to which blocks are alike.)"""
    X, features, x = one_hot(30_000, 31_000, 0, "csr")
    y = np.random.default_rng(1).standard_normal(30_000)
    larger = {"adagrad-mean": MapReduce(AdaGradMean(0.1), 1000), "round-robin": RoundRobin(30)}
    result = train(
        X,
        y,
        strategy=larger.get(strategy, (IN_ROUNDS | RACY)[strategy]),
        n_threads=n_threads,
        n_passes=1,
        loss="squared_error",
        schedule=schedules.Constant(0.3),
        penalty=None,
        fit_intercept=False,
    )
    assert result.passes[0].rows == 30_000
    expected = np.zeros(31_000)
    expected[features] = 0.1 * np.sign(y) if strategy in ("allreduce", "adagrad-mean") else 0.3 * x * y
    close(result.coef[0], expected, 1e-12)


@QUICK
@given(
    strategy=st.one_of(CHAINED, RACING, MEANS),
    n=st.integers(1, 150),
    f=st.integers(1, 60),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    n_threads=st.integers(1, 16),
    loss=st.sampled_from(["log_loss", "hinge", "squared_error", "huber", "perceptron", "epsilon_insensitive"]),
    penalty=st.sampled_from([None, "l2"]),
    schedule=st.sampled_from([schedules.Constant(1e-3), schedules.InvScaling(1e-2), schedules.Adaptive(1e-3)]),
    n_classes=st.integers(2, 6),
    single=st.booleans(),
    sparse=st.booleans(),
    tol=st.sampled_from([None, 1e-3]),
    seed=st.integers(0, 100),
)
def test_nothing_crashes_or_becomes_nan(
    strategy: Any, n: int, f: int, density: float, n_threads: int, loss: str, penalty: Any, schedule: Any,
    n_classes: int, single: bool, sparse: bool, tol: float | None, seed: int,
) -> None:  # fmt: skip
    X = dense_rows(n, f, density=density, scale=1.0, seed=seed).astype(np.float32 if single else np.float64)
    rng = np.random.default_rng(seed)
    margin = losses.LOSSES[loss].margin
    y: Any = rng.integers(0, n_classes, n) if margin else rng.standard_normal(n)
    result = train(
        sp.csr_matrix(X) if sparse else X, y, strategy=strategy, n_threads=n_threads, n_passes=3, loss=loss,
        classes=np.arange(n_classes) if margin else None, penalty=penalty, schedule=schedule, tol=tol, patience=1,
        seed=seed, sample_weight=rng.uniform(0.1, 2.0, n),
    )  # fmt: skip
    assert result.coef.shape == (n_classes if margin and n_classes > 2 else 1, f)
    assert np.isfinite(result.coef).all()
    assert np.isfinite(result.intercept).all()
    assert {record.rows for record in result.passes} == {n}
    assert result.t == 1 + n * result.n_passes
    assert all(np.isfinite(record.loss) for record in result.passes)
    size = getattr(strategy, "block_size", None)
    if size is not None:
        assert {record.merges for record in result.passes} == {-(-n // size)}


@QUICK
@given(
    strategy=st.one_of(CHAINED, RACING),
    n=st.integers(2, 200),
    n_threads=st.integers(2, 16),
    loss=st.sampled_from([losses.LogLoss(), losses.SquaredError(), losses.Hinge()]),
    seed=st.integers(0, 50),
)
def test_tiny_steps_add_up(strategy: Any, n: int, n_threads: int, loss: Any, seed: int) -> None:
    """To first order in the step every strategy is sequential; the rest is of second order. No update is ever lost but
    by Hogwild! and HogBatch, and by Async's rare features."""
    X = dense_rows(n, 6, density=0.6, seed=seed)
    y, step = targets(X, loss), 1e-7
    case = {"loss": loss, "penalty": None, "schedule": schedules.Constant(step), "n_passes": 1, "seed": seed}
    wanted = train(sp.csr_matrix(X), y, strategy="sequential", **case).coef
    found = train(sp.csr_matrix(X), y, strategy=strategy, n_threads=n_threads, **case).coef
    if isinstance(strategy, (Hogwild, HogBatch, Async)):
        assert np.abs(found).max() <= 2 * step * n
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=n * n * step**2 * 10)
