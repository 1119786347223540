"""The merge as a pure function: associative, right where M is known, and without a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symsgd.dask import held, worker
from symsgd.dask.merging import Curvature, Movement, Stretch, advanced, joined, movement_of, reduced, stretch_of, tree
from symsgd.dask.packing import Packed, pack

F, PLACES, RANK = 30, np.array([0, 2, 3, 7, 11, 20]), 3


def curvature(rng: np.random.Generator, models: int = 2) -> Curvature:
    Q, _ = np.linalg.qr(rng.standard_normal((len(PLACES) + 1, RANK)))
    known = np.array([0, 2, 5, 7, 12, 20])
    return Curvature(
        PLACES, Q, rng.uniform(0, 0.3, (models, RANK)), known, rng.uniform(0, 0.1, (models, len(known) + 1)), 0.1
    )


def movement(rng: np.random.Generator, models: int = 2, density: float = 0.3) -> Movement:
    change = rng.standard_normal((models, F)) * (rng.random(F) < density)
    return Movement(
        pack(change), rng.standard_normal(models), -rng.uniform(0, 0.1, models), rng.uniform(1, 5, models),
        rng.uniform(0, 9, models), 7,
    )  # fmt: skip


def applied(coef: Any, intercept: Any, stretch: Stretch, shape: Curvature) -> tuple[Any, Any]:
    return advanced(coef, intercept, movement_of(stretch, shape), range(len(coef)))


def same(one: Stretch, other: Stretch) -> None:
    for name in ("log_kept", "steps", "along", "intercept", "lost"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(one.rest.dense(), other.rest.dense(), rtol=1e-5, atol=1e-6)
    assert (one.rows, one.blocks) == (other.rows, other.blocks)


@pytest.mark.parametrize("seed", range(5))
def test_any_grouping_gives_the_same_stretch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = curvature(rng)
    a, b, c, d = (stretch_of(movement(rng), shape) for _ in range(4))
    left = joined(joined(joined(a, b, shape), c, shape), d, shape)
    right = joined(a, joined(b, joined(c, d, shape), shape), shape)
    middle = joined(joined(a, b, shape), joined(c, d, shape), shape)
    same(left, right)
    same(left, middle)
    same(left, reduced([a, b, c, d], shape))


def test_order_matters() -> None:
    rng = np.random.default_rng(0)
    shape = curvature(rng)
    a, b = (stretch_of(movement(rng), shape) for _ in range(2))
    forth, back = joined(a, b, shape), joined(b, a, shape)
    assert np.abs(forth.along - back.along).max() > 1e-3


def test_a_chain_of_blocks_is_the_chain_of_their_maps() -> None:
    """keep (Q e^{−aΛ} Qᵀ + diag(e^{−ac}) (I − QQᵀ)) applied to d, block after block, by dense matrices."""
    rng = np.random.default_rng(1)
    models = 1
    Q, _ = np.linalg.qr(rng.standard_normal((F + 1, RANK)))
    shape = Curvature(
        np.arange(F), Q, rng.uniform(0, 0.3, (models, RANK)), np.arange(F), rng.uniform(0, 0.1, (models, F + 1)), 0.1
    )
    blocks = [movement(rng, models, density=1.0) for _ in range(5)]
    w, b = rng.standard_normal((models, F)), rng.standard_normal(models)
    u, v, kept = np.zeros(RANK), np.zeros(F + 1), 1.0
    for block in blocks:
        keep = np.append(np.full(F, np.exp(block.log_kept[0])), 1.0)
        s = np.append(block.change.dense(np.float64)[0], block.intercept[0] / 0.1)
        fade_u = keep[0] * np.exp(-block.steps[0] * shape.sharpness[0])
        fade_v = keep * np.exp(-block.steps[0] * shape.rest[0])
        u = Q.T @ s + fade_u * u
        v = s - Q @ (Q.T @ s) + fade_v * v
        kept *= keep[0]
    expected = np.append(kept * w[0], b[0] / 0.1) + Q @ u + v
    stretches = [stretch_of(block, shape) for block in blocks]
    coef, intercept = applied(w, b, reduced(stretches, shape), shape)
    np.testing.assert_allclose(coef[0], expected[:-1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(intercept, 0.1 * expected[-1:], rtol=1e-6)
    ends = reduced(stretches[:-1], shape), stretches[-1]
    kept_rest = [end.rest.values.copy() for end in ends]
    root = worker.finish_round("a chain", 0, *ends, shape)  # as a worker does, which others still need the ends of
    held.forget("a chain")
    np.testing.assert_array_equal(advanced(w, b, root, [0])[0], coef)
    for end, values in zip(ends, kept_rest, strict=True):
        np.testing.assert_array_equal(end.rest.values, values)


def test_without_curvature_movements_add_up() -> None:
    rng = np.random.default_rng(2)
    flat = Curvature.flat(2, 0.1)
    blocks = [movement(rng) for _ in range(3)]
    coef, intercept = applied(
        np.zeros((2, F)), np.zeros(2), reduced([stretch_of(block, flat) for block in blocks], flat), flat
    )
    kept = [np.exp(sum(later.log_kept for later in blocks[i + 1 :]) + np.zeros(2))[:, None] for i in range(3)]
    np.testing.assert_allclose(
        coef, sum(k * block.change.dense() for k, block in zip(kept, blocks, strict=True)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(intercept, sum(block.intercept for block in blocks))


def test_sharp_directions_keep_the_last_word() -> None:
    shape = Curvature(np.arange(F), np.eye(F + 1)[:, :1], np.full((1, 1), 1e9), np.zeros(0, int), np.zeros((1, 1)), 1.0)
    rng = np.random.default_rng(3)
    first, last = movement(rng, 1, 1.0), movement(rng, 1, 1.0)
    coef, _ = applied(
        np.zeros((1, F)), np.zeros(1), reduced([stretch_of(m, shape) for m in (first, last)], shape), shape
    )
    np.testing.assert_allclose(coef[0, 0], last.change.dense()[0, 0], rtol=1e-6)
    assert abs(coef[0, 1] - last.change.dense()[0, 1]) > 1e-3


def test_what_diverged_stays_so() -> None:
    rng = np.random.default_rng(4)
    shape = curvature(rng)
    fine = movement(rng)
    bad = Movement(fine.change, fine.intercept, fine.log_kept, fine.steps, fine.lost, 1, diverged=True)
    assert joined(stretch_of(bad, shape), stretch_of(fine, shape), shape).diverged


@given(st.integers(1, 200))
def test_the_tree_has_every_block_but_the_last_once_and_in_order(n_blocks: int) -> None:
    parts = [[i] for i in range(n_blocks - 1)]
    for level in tree(n_blocks):
        assert [i for group in level for i in group] == list(range(len(parts)))
        parts = [[block for i in group for block in parts[i]] for group in level]
    assert parts == ([list(range(n_blocks - 1))] if n_blocks > 1 else [])


@given(st.lists(st.integers(0, 99), unique=True), st.lists(st.integers(0, 99), unique=True), st.integers(1, 3))
def test_vectors_travel_as_what_is_smaller_and_add_up(first: list[int], second: list[int], lines: int) -> None:
    from symsgd.dask.packing import added

    rng = np.random.default_rng(0)
    one, other = np.zeros((lines, 100), np.float32), np.zeros((lines, 100), np.float32)
    one[:, first], other[:, second] = rng.standard_normal((lines, len(first))), 1.0
    a, b = pack(one), pack(other)
    np.testing.assert_array_equal(a.dense(), one)
    np.testing.assert_allclose(added(a, b).dense(), one + other, rtol=1e-6)
    np.testing.assert_array_equal(a.at(np.arange(100)), one)
    assert a.nbytes <= min(one.nbytes, max(4, len(first) * 4 * (1 + lines)) + 1)


def test_a_billion_features_are_not_made_dense() -> None:
    huge = Packed(10**9, np.ones((1, 2), np.float32), np.array([5, 10**9 - 1], np.int32))
    flat = Curvature.flat(1, 0.0)
    block = Movement(huge, np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 1)
    whole = reduced([stretch_of(block, flat)] * 3, flat)
    assert whole.rest.indices is not None
    np.testing.assert_array_equal(whole.rest.values, [[3.0, 3.0]])


@given(st.integers(1, 3), st.sampled_from([1, 255, 257, 1000]), st.sampled_from([np.float32, np.float64]))
def test_a_movement_is_what_rounding_does_not_explain(lines: int, n_features: int, dtype: type) -> None:
    from symsgd.dask.packing import ROUNDING, moved

    rng = np.random.default_rng(n_features)
    start = rng.standard_normal((lines, n_features)).astype(dtype)
    kept = np.linspace(0.5, 0.9, lines).astype(dtype)
    stays = rng.random((lines, n_features)) < 0.5
    end = start * kept[:, None] + np.where(stays, 0.3 * ROUNDING * start, 0.1).astype(dtype)
    expected = np.where(stays, 0.0, end - start * kept[:, None])
    before = start.copy()
    np.testing.assert_array_equal(moved(start, kept, end).dense(), expected.astype(np.float32))
    np.testing.assert_array_equal(start, before)


def test_what_is_not_finite_is_seen() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        values = np.zeros((1, 5), np.float32)
        assert Packed(5, values).finite
        values[0, 2] = bad
        assert not Packed(5, values).finite
    assert Packed(5, np.zeros((1, 0), np.float32), np.zeros(0, np.int32)).finite
    assert Packed(2, np.full((1, 2), np.finfo(np.float32).max)).finite
