"""`symsgd.analysis` against the oracle's derivative of a block, against dense linear algebra, and against counting."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from oracle_cases import LOSSES, name, rows, targets
from symsgd import analysis, losses, penalties, reference, schedules

N, F = 9, 6
STEP = 0.4


def block(loss: Any, *, n: int = N, f: int = F) -> tuple[Any, Any, Any]:
    X = rows(n, f, sparse=True)
    return X, targets(X, loss), np.random.default_rng(4).standard_normal(f)


def oracle(X: Any, y: Any, w: Any, loss: Any, penalty: Any, *, drift: float | None = None, **more: Any) -> Any:
    """The oracle's block, run and traced."""
    intercept = more.pop("intercept", None)
    learner = reference.make_learner(
        X,
        y,
        loss=loss,
        penalty=penalty,
        schedule=schedules.Constant(STEP),
        fit_intercept=intercept is not None,
        **more,
    )
    state = reference.start_state(learner, w, intercept or 0.0)
    return reference.run_block(learner, state, range(len(X)), trace=True, drift=drift)


# The combiner


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csr_array, sp.coo_matrix])
@pytest.mark.parametrize("intercept", [None, 0.3])
@pytest.mark.parametrize("penalty", [penalties.NoPenalty(), penalties.L2(0.3), penalties.L2(2.6)], ids=name)
def test_combiner_is_the_oracles(penalty: Any, intercept: float | None, layout: Any) -> None:
    for loss in LOSSES:
        X, y, w = block(loss)
        c = np.linspace(0.0, 2.0, N)
        run = oracle(X, y, w, loss, penalty, intercept=intercept, intercept_decay=0.2, sample_weight=c)
        own = analysis.combiner(
            layout(X),
            y,
            w,
            loss=loss,
            step_size=STEP,
            penalty=penalty,
            intercept=intercept,
            intercept_decay=0.2,
            sample_weight=c,
        )
        states = F + (intercept is not None)
        assert own.n_states == states
        M, D = (part(run)[:states, :states] for part in (reference.derivative, reference.uncoupled_derivative))
        assert_allclose(own.matrix(), M, atol=1e-13)
        assert_allclose(own.rest(), M - D, atol=1e-13)
        assert_allclose(own.coef, run.end.vector[:F], atol=1e-13)
        assert own.intercept == pytest.approx(run.end.intercept, abs=1e-13)
        d = np.random.default_rng(0).standard_normal((states, 2))
        assert_allclose(own.apply(d), M @ d, atol=1e-13)
        assert_allclose(own.apply_rest(d[:, 0]), (M - D) @ d[:, 0], atol=1e-13)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.smooth], ids=name)
def test_soft_curvature(loss: Any) -> None:
    X, y, w = block(loss)
    run = oracle(X, y, w, loss, penalties.NoPenalty(), drift=0.4, intercept=0.1)
    own = analysis.combiner(X, y, w, loss=loss, step_size=STEP, intercept=0.1, soft_curvature=True, drift=0.4)
    assert_allclose(own.matrix(), reference.derivative(run), atol=1e-13)
    assert np.abs(own.rest()).max() > 0.01
    hard = analysis.combiner(X, y, w, loss=loss, step_size=STEP, intercept=0.1)
    assert_array_equal(hard.matrix(), np.eye(F + 1))


def test_step_sizes_by_row_and_labels_of_zero_and_one() -> None:
    X, y, w = block(losses.LogLoss())
    steps = np.linspace(0.1, 0.9, N)
    M = np.eye(F)
    v = w.copy()
    for x, label, step in zip(X, y, steps, strict=True):
        sigma = 1 / (1 + np.exp(-x @ v))
        M = ((1 - 0.3 * step) * np.eye(F) - step * sigma * (1 - sigma) * np.outer(x, x)) @ M
        v = (1 - 0.3 * step) * v - step * (sigma - (label > 0)) * x
    own = analysis.combiner(X, (y > 0).astype(int), w, step_size=steps, penalty=penalties.L2(0.3))
    assert_allclose(own.matrix(), M, atol=1e-13)
    assert_allclose(own.coef, v, atol=1e-13)


def test_repeated_features_add_up() -> None:
    X, y, w = block(losses.LogLoss())
    csr = sp.csr_matrix(X)
    twice = sp.csr_matrix((np.repeat(csr.data, 2) / 2, np.repeat(csr.indices, 2), 2 * csr.indptr), shape=X.shape)
    expected = analysis.combiner(X, y, w, step_size=STEP).matrix()
    assert_allclose(analysis.combiner(twice, y, w, step_size=STEP).matrix(), expected, atol=1e-13)
    assert len(twice.data) == 2 * len(csr.data)


def test_a_million_features() -> None:
    """Nothing of features × features is formed; M d is what the oracle finds on the features that the rows have."""
    X, y, w = block(losses.LogLoss())
    places = np.sort(np.random.default_rng(0).choice(1_000_000, F, replace=False))
    wide = sp.csr_matrix((N, 1_000_000))
    csr = sp.csr_matrix(X)
    wide = sp.csr_matrix((csr.data, places[csr.indices], csr.indptr), shape=(N, 1_000_000))
    start, d = np.zeros(1_000_000), np.random.default_rng(1).standard_normal(1_000_000)
    start[places] = w
    own = analysis.combiner(wide, y, start, step_size=STEP)
    expected = d.copy()
    expected[places] = analysis.combiner(X, y, w, step_size=STEP).matrix() @ d[places]
    assert_allclose(own.apply(d), expected, atol=1e-13)
    with pytest.raises(ValueError, match="too large; use apply"):
        own.matrix()
    values = analysis.singular_values(wide, y, start, block_sizes=[N], step_size=STEP)[0]
    assert (len(values.M), values.n_states) == (min(N, F), 1_000_000)


# Singular values


@pytest.mark.parametrize("f", [4, 30])
@pytest.mark.parametrize("intercept", [None, 0.3])
@pytest.mark.parametrize("penalty", [None, penalties.L2(0.3)])
def test_singular_values_are_those_of_the_dense_matrices(penalty: Any, intercept: float | None, f: int) -> None:
    """More rows than features, and fewer; step sizes and weights follow their rows."""
    X, y, w = block(losses.LogLoss(), n=12, f=f)
    choices = {"penalty": penalty, "intercept": intercept, "intercept_decay": 0.2}
    per_row = {"step_size": np.linspace(0.2, 0.7, 12), "sample_weight": np.linspace(0.5, 1.5, 12)}
    results = analysis.singular_values(sp.csr_matrix(X), y, w, block_sizes=(3, 12), **choices, **per_row)
    assert [result.block_size for result in results] == [3, 12]
    for result in results:
        n = result.block_size
        own = analysis.combiner(X[:n], y[:n], w, **choices, **{key: value[:n] for key, value in per_row.items()})
        others = result.n_states - len(result.M)
        of_m = np.sort(np.append(result.M, np.full(others, result.decay)))
        assert_allclose(of_m, np.sort(np.linalg.svd(own.matrix(), compute_uv=False)), atol=1e-12)
        of_n = np.append(result.N, np.zeros(others))
        assert_allclose(of_n, np.linalg.svd(own.rest(), compute_uv=False), atol=1e-12)
        assert len(result.N) <= n + (intercept is not None)
        assert (np.diff(result.M) <= 0).all()


def test_the_papers_figure() -> None:
    """Close to 1 for M and to 0 for N; N grows with the block and with the step."""
    X = sp.csr_matrix(rows(128, 100, sparse=True, scale=0.2))
    y, w = targets(X.toarray(), losses.LogLoss()), np.zeros(100)
    small = analysis.singular_values(X, y, w, step_size=0.01, block_sizes=(16, 32, 64, 128))
    large = analysis.singular_values(X, y, w, step_size=0.05, block_sizes=(16, 32, 64, 128))
    largest = [result.N.max() for result in small]
    assert largest == sorted(largest)
    assert all(big.N.max() > 3 * little.N.max() for big, little in zip(large, small, strict=True))
    for result in small:
        assert result.decay == 1.0
        assert_allclose(result.M.min(), 1.0 - result.N.max(), atol=0.01)


def test_plot() -> None:
    pytest.importorskip("matplotlib")
    X, y, w = block(losses.LogLoss())
    figure = analysis.plot_singular_values(analysis.singular_values(X, y, w, block_sizes=[2, 8], step_size=STEP))
    of_m, of_n = figure.axes
    assert [line.get_label() for line in of_m.lines] == ["2 rows", "8 rows"]
    assert of_n.lines[1].get_ydata().max() == pytest.approx(1.0 - of_m.lines[1].get_ydata().min(), abs=0.1)


def test_plot_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    X, y, w = block(losses.LogLoss())
    values = analysis.singular_values(X, y, w, block_sizes=[2], step_size=STEP)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        analysis.plot_singular_values(values)


# The variance of the projection


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("intercept", [None, 0.3])
@pytest.mark.parametrize("penalty", [None, penalties.L2(0.3)])
def test_projection_variance(penalty: Any, intercept: float | None, observed: bool) -> None:
    X, y, w = block(losses.LogLoss(), n=4, f=12)
    X[:, 5:9] = 0.0
    states = 12 + (intercept is not None)
    d = np.random.default_rng(2).standard_normal(states)
    choices = {"step_size": STEP, "penalty": penalty, "intercept": intercept}
    found = analysis.projection_variance(X, y, w, d, k=7, draws=1500, observed=observed, **choices)
    N_ = analysis.combiner(X, y, w, **choices).rest()
    counted = np.append((X != 0).any(axis=0), True)[:states] if observed else np.ones(states, bool)
    sigma = np.linalg.svd(N_, compute_uv=False)
    length = np.sum(d[counted] ** 2)
    assert found.exact == pytest.approx((np.sum((N_ @ d) ** 2) + length * np.sum(N_**2)) / 7)
    assert found.lower == pytest.approx(length * np.sum(sigma**2) / 7)
    assert found.upper == pytest.approx(length * (np.sum(sigma**2) + sigma[0] ** 2) / 7)
    assert found.lower <= found.exact <= found.upper
    assert abs(found.measured - found.exact) < 4 * found.standard_error
    assert found.standard_error < 0.1 * found.exact
    assert (found.k, found.draws) == (7, 1500)
    again = analysis.projection_variance(X, y, w, d, k=7, draws=20, seed=3, **choices)
    assert again == analysis.projection_variance(X, y, w, d, k=7, draws=20, seed=3, **choices)
    assert again.measured != analysis.projection_variance(X, y, w, d, k=7, draws=20, seed=4, **choices).measured


# Frequent features


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_frequent_features(layout: Any) -> None:
    X = np.zeros((40, 5))
    X[:, 0] = 1.0
    X[:4, 1] = -1.0
    X[:3, 2] = 1.0
    X[:20, 3] = 2.0
    assert analysis.frequent_features(layout(X)).tolist() == [0, 1, 3]
    assert analysis.frequent_features(layout(X), threshold=0.5).tolist() == [0, 3]
    assert analysis.frequent_features(layout(X), threshold=0.0).tolist() == [0, 1, 2, 3, 4]
    shares = (X != 0) @ np.array([1, 1, 0, 1, 0]) / (X != 0).sum(axis=1)
    assert analysis.nfnz_ratio(layout(X)) == pytest.approx(shares.mean())


def test_frequent_features_of_a_sample() -> None:
    """A feature in a third of the rows is found at 20 % from 200 of them, one in a tenth is not."""
    X = np.zeros((5000, 2))
    X[::3, 0], X[::10, 1] = 1.0, 1.0
    assert analysis.frequent_features(X, threshold=0.2, sample=200, seed=1).tolist() == [0]
    drawn = {tuple(analysis.frequent_features(X, threshold=0.1, sample=30, seed=seed)) for seed in range(20)}
    assert drawn == {(0,), (0, 1)}


def test_stored_zeros_and_empty_rows_do_not_count() -> None:
    X = sp.csr_matrix(np.array([[1.0, 2.0], [1.0, 2.0], [5.0, 0.0], [1.0, 0.0]]))
    X.data[X.data == 5.0] = 0.0
    assert analysis.frequent_features(X, threshold=0.7).tolist() == [0]
    assert analysis.nfnz_ratio(X, threshold=0.7) == pytest.approx(np.mean([0.5, 0.5, 1.0]))
    assert X.nnz == 6


# Bad input


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step_size": 0.0}, r"step_size=.*0.0.* is not accepted; it must be a finite number > 0"),
        ({"step_size": [0.1, 0.2]}, r"step_size has shape \(2,\); accepted are a number, or 9 of them"),
        ({"penalty": "l1"}, "penalty='l1' is not accepted; 'none' and 'l2' are"),
        ({"loss": "logistic"}, "loss='logistic' is not known; accepted are 'epsilon_insensitive'"),
        ({"w": np.zeros(F + 1)}, r"w has shape \(7,\); accepted is \(6,\)"),
        ({"w": np.full(F, np.nan)}, "w contains NaN"),
        ({"y": np.arange(N)}, r"y has labels other than ±1"),
        ({"y": np.ones(N - 1)}, "y has 8 targets, but there are 9 rows"),
        ({"sample_weight": -np.ones(N)}, "negative"),
        ({"X": np.full((N, F), np.inf)}, "infinity"),
        ({"X": np.zeros((0, F)), "y": np.zeros(0)}, "minimum of 1"),
        ({"intercept": np.nan}, "intercept=nan is not accepted"),
        ({"intercept": 0.0, "intercept_decay": -1.0}, "intercept_decay=-1.0 is not accepted"),
        ({"drift": -1.0}, "drift=-1.0 is not accepted"),
    ],
    ids=lambda case: "-".join(case) if isinstance(case, dict) else "",
)
def test_bad_input_says_what_is_accepted(changed: dict[str, Any], message: str) -> None:
    X, y, w = block(losses.LogLoss())
    arguments = {"X": X, "y": y, "w": w, "step_size": STEP, **changed}
    with pytest.raises(ValueError, match=message):
        analysis.combiner(**arguments)


def test_more_bad_input() -> None:
    X, y, w = block(losses.LogLoss())
    with pytest.raises(ValueError, match=r"block_sizes=\(64, 128, 256, 512\) are not accepted; X has 9 rows"):
        analysis.singular_values(X, y, w, step_size=STEP)
    with pytest.raises(ValueError, match="block_sizes=0 is not accepted"):
        analysis.singular_values(X, y, w, step_size=STEP, block_sizes=[0])
    with pytest.raises(ValueError, match=r"d has shape \(2,\); accepted is \(6,\)"):
        analysis.projection_variance(X, y, w, [1.0, 2.0], step_size=STEP)
    with pytest.raises(ValueError, match="k=0 is not accepted"):
        analysis.projection_variance(X, y, w, w, step_size=STEP, k=0)
    with pytest.raises(ValueError, match=r"d has shape \(5,\); accepted is \(6,\) or \(6, k\)"):
        analysis.combiner(X, y, w, step_size=STEP).apply(np.zeros(5))
    with pytest.raises(ValueError, match=r"threshold=1\.5 is not accepted"):
        analysis.frequent_features(X, threshold=1.5)
    with pytest.raises(ValueError, match="sample=0 is not accepted"):
        analysis.frequent_features(X, sample=0)
    with pytest.raises(ValueError, match="no nonzero value"):
        analysis.nfnz_ratio(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="values is empty"):
        analysis.plot_singular_values([])
    with pytest.raises(TypeError, match="unexpected keyword argument 'step'"):
        analysis.singular_values(X, y, w, block_sizes=[2], step=STEP)


def test_the_callers_arrays_are_left_alone() -> None:
    X, y, w = block(losses.LogLoss())
    sparse, d = sp.csr_matrix(X), np.ones(F)
    before = [array.copy() for array in (X, y, w, sparse.data, d)]
    analysis.projection_variance(sparse, y, w, d, step_size=STEP, draws=2)
    analysis.singular_values(X, y, w, step_size=STEP, block_sizes=[4])
    analysis.nfnz_ratio(sparse)
    for array, copy in zip((X, y, w, sparse.data, d), before, strict=True):
        assert_array_equal(array, copy)
