"""The sharpest directions of rows are the eigenvectors of E[x xᵀ]; and how blocks grow and shrink by their error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from symsgd.gpu import directions
from symsgd.gpu.host import MOST_BETWEEN, Host, steer
from symsgd.gpu.machine import Control


def rows(n: int, f: int, falls: float = 0.8, seed: int = 0) -> Any:
    """Rows whose spread along turned axes falls by a factor from one to the next."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((f, f)))
    return rng.standard_normal((n, f)) * falls ** np.arange(f) @ turn


def eigen(X: Any) -> tuple[Any, Any]:
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize(("dtype", "tolerance"), [("f8", 1e-6), ("f4", 1e-3)])
@pytest.mark.parametrize(("n", "f", "rank"), [(500, 40, 8), (500, 40, 1), (300, 12, 12), (300, 12, 64), (500, 1, 4)])
def test_eigenvalues_and_vectors(n: int, f: int, rank: int, dtype: str, tolerance: float) -> None:
    X = rows(n, f).astype(dtype)
    found = directions.find(Host(), X, rank, 0.0)
    values, vectors = eigen(X.astype(np.float64))
    rank = min(rank, f)
    assert found.V.shape == (f, rank + 1)  # the last is the intercept's
    assert found.V.dtype == found.sharpness.dtype == found.turn.dtype == X.dtype
    assert not found.turn.any()
    V = found.V[:, :rank]
    assert_allclose(found.sharpness[:rank], values[:rank], rtol=tolerance, atol=tolerance * values[0])
    assert_allclose(V.T @ V, np.eye(rank), atol=tolerance)
    assert_allclose(np.abs((V * vectors[:, :rank]).sum(axis=0)), 1.0, atol=10 * tolerance)
    assert found.tail == pytest.approx(values[rank:].mean() if f > rank else 0.0, rel=1e-2, abs=tolerance * values[0])


def test_the_typical_product_of_two_rows() -> None:
    """√E[(x·x′)²] outside of V = √Σλ² of the directions that are not followed; rows' own lengths are no part of it."""
    X = rows(1000, 10)
    found = directions.find(Host(), X, 3, 1.0)
    with_intercept = np.hstack([X, np.ones((1000, 1))])
    assert found.squares == pytest.approx(np.sqrt((eigen(with_intercept)[0][4:] ** 2).sum()), rel=0.1)
    along = X @ found.V + found.turn
    products = X @ X.T + 1.0 - along @ along.T
    others = products[~np.eye(1000, dtype=bool)]
    assert found.squares == pytest.approx(np.sqrt(np.mean(others**2)), rel=1e-9)


@pytest.mark.parametrize("kappa", [1.0, 0.01])
def test_the_intercept_is_one_more_feature(kappa: float) -> None:
    """Of rows that are not centred it goes with their mean: directions are those of both together."""
    X = rows(2000, 8) + 0.5
    found = directions.find(Host(), X, 8, kappa)
    both = np.hstack([X, np.full((2000, 1), np.sqrt(kappa))])
    values, vectors = eigen(both)
    assert_allclose(found.sharpness, values, rtol=1e-6)
    all_of_it = np.vstack([found.V, found.turn / np.sqrt(kappa)])
    assert_allclose(np.abs((all_of_it * vectors).sum(axis=0)), 1.0, atol=1e-5)


def test_no_direction_stands_out() -> None:
    """All eigenvalues alike: whatever the directions, they are orthonormal and the values right."""
    X = np.repeat(np.eye(30), 20, axis=0)
    found = directions.find(Host(), X, 5, 0.0)
    assert_allclose(found.sharpness[:5], np.full(5, 1 / 30), rtol=1e-9)
    assert_allclose(found.V[:, :5].T @ found.V[:, :5], np.eye(5), atol=1e-9)
    assert found.tail == pytest.approx(1 / 30)


@given(
    st.integers(1, 12), st.integers(1, 20), st.integers(1, 24), st.sampled_from(["f4", "f8"]),
    st.sampled_from(["none", "zero", "constant", "twice", "tiny", "huge"]),
)  # fmt: skip
def test_whatever_the_rows(n: int, f: int, rank: int, dtype: str, spoiled: str) -> None:
    """Fewer rows than directions, columns of zeros, of ones, one twice, of another scale: finite numbers, none sharper
    than the sharpest there is, and rows are no longer along the directions than they are."""
    X = rows(n, f, falls=1.0, seed=n)
    match spoiled:
        case "zero":
            X[:, 0] = 0.0
        case "constant":
            X[:, -1] = 1.0
        case "twice":
            X[:, -1] = X[:, 0]
        case "tiny":
            X *= 1e-6
        case "huge":
            X[:, 0] *= 1e6
    X = X.astype(dtype)
    found = directions.find(Host(), X, rank, 0.0)
    values = eigen(X.astype(np.float64))[0]
    slack = 1e-3 * values[0]
    for number in (found.V, found.sharpness, found.tail, found.squares):
        assert np.isfinite(number).all()
    assert (found.sharpness >= 0).all()
    assert found.tail >= 0.0
    assert np.linalg.norm(X @ found.V) <= 1.001 * np.linalg.norm(X)
    assert_allclose(
        found.sharpness,
        np.append(np.maximum(values[: len(found.sharpness) - 1], 0.0), 0.0),
        atol=slack + 0.1 * values[0],
    )
    assert found.sharpness.sum() <= values.sum() + slack
    assert found.sharpness[0] == pytest.approx(values[0], rel=0.1)


def test_rows_of_zeros() -> None:
    found = directions.find(Host(), np.zeros((20, 5)), 3, 0.0)
    assert (found.sharpness == 0).all()
    assert (found.tail, found.squares) == (0.0, 0.0)
    assert np.isfinite(found.V).all()


# How large blocks are


def control(rows: int = 8, **more: Any) -> Control:
    return Control(**{"rows": rows, "adapts": True, "most": 32, "tolerance": 0.01, **more})


def test_blocks_double_below_half_of_the_tolerance() -> None:
    own = control()
    steer(own, 0.0049)
    assert own.rows == 16
    steer(own, 0.0051)
    assert own.rows == 16
    steer(own, 0.0)
    steer(own, 0.0)
    assert own.rows == 32  # the most
    assert own.errors == pytest.approx(0.01)
    assert own.checks == 4


def test_blocks_halve_until_the_error_would_be_within_the_tolerance() -> None:
    own = control(rows=32)
    steer(own, 0.07)
    assert own.rows == 4
    assert own.too_large == 32


def test_a_slight_excess_needs_a_witness() -> None:
    own = control()
    steer(own, 0.015)
    assert own.rows == 8
    steer(own, 0.015)
    assert own.rows == 4
    again = control()
    steer(again, 0.015)
    steer(again, 0.008)
    steer(again, 0.015)
    assert again.rows == 8


def test_a_size_that_was_too_large_is_tried_again_by_a_wider_margin() -> None:
    own = control(rows=16)
    steer(own, 0.03)
    assert own.rows == 4
    steer(own, 0.004)
    assert own.rows == 8
    steer(own, 0.004)
    assert own.rows == 8
    steer(own, 0.002)
    assert own.rows == 16


def test_checks_become_rarer_while_all_is_well() -> None:
    own = control(rows=32)
    between = []
    for _ in range(8):
        steer(own, 0.006)
        between.append(own.between)
    assert between == [2, 4, 8, 16, 32, 64, 64, 64]
    assert MOST_BETWEEN == 64
    steer(own, 0.015)
    assert own.between == 1


def test_blocks_of_one_row_that_are_too_large_get_stuck() -> None:
    own = control(rows=1)
    for turn in range(1, 4):
        steer(own, 1.0)
        assert (own.rows, own.stuck) == (1, turn)


@given(st.lists(st.floats(0.0, 1.0), max_size=40), st.sampled_from([1, 8, 32]))
def test_blocks_keep_within_their_bounds(errors: list[float], first: int) -> None:
    own = control(rows=first)
    for error in errors:
        steer(own, error)
        assert 1 <= own.rows <= own.most
        assert 1 <= own.between <= MOST_BETWEEN
    assert own.checks == len(errors)
    assert own.errors == pytest.approx(sum(errors))
