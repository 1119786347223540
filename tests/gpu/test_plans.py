"""How a launch is cut to a device, and where a pass is cut: plain arithmetic that no kernel checks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symsgd.gpu.planning import (
    MOST_ROWS,
    gram_rows,
    models_at_once,
    parts_of_rounds,
    plan_exact,
    plan_rounds,
    stretches,
)

H100, A100, RTX = 232_448, 166_912, 101_376  # bytes of shared memory that a block may have

features, models, ranks = st.integers(1, 5000), st.integers(1, 60), st.integers(1, 128)
itemsizes = st.sampled_from([4, 8])


@given(features, models, itemsizes, st.sampled_from([16, 80, 132]))
def test_workers_have_all_features_once_and_fit_on_the_device(n: int, m: int, itemsize: int, processors: int) -> None:
    if m >= processors:
        with pytest.raises(ValueError, match="too many for"):
            plan_exact(n, m, itemsize, processors, H100, 128)
        return
    plan = plan_exact(n, m, itemsize, processors, H100, 128)
    assert (plan.workers - 1) * plan.slice < n <= plan.workers * plan.slice
    assert plan.slice % 4 == 0  # a worker's copies are of 16 bytes
    assert m + plan.workers <= processors  # all of them run at once, or the first would wait for ever
    assert plan.block == 128


@given(features, st.integers(1, 30), itemsizes)
def test_what_workers_keep_fits_where_they_have_room_for_it(n: int, m: int, itemsize: int) -> None:
    block = gram_rows(n, m, itemsize, 132, H100)
    plan = plan_exact(n, m, itemsize, 132, H100, block)
    rows = itemsize * 4 * block * (plan.slice + 4)
    assert plan.shared <= H100 or not plan.staged
    if plan.staged:
        assert plan.shared >= rows


@given(features, st.integers(1, 25), itemsizes, st.sampled_from([RTX, A100, H100]))
def test_exact_blocks_fit_into_shared_memory_or_are_refused(n: int, m: int, itemsize: int, shared: int) -> None:
    """A launch with more fails with CUDA's own words."""
    if plan_exact(n, m, itemsize, 100, shared, 32).shared > shared:
        with pytest.raises(ValueError, match=f"{m} model.* of {n} features"):
            gram_rows(n, m, itemsize, 100, shared)
        return
    block = gram_rows(n, m, itemsize, 100, shared)
    assert plan_exact(n, m, itemsize, 100, shared, block).shared <= shared
    assert block == 128 or plan_exact(n, m, itemsize, 100, shared, 2 * block).shared > shared


@given(features, models, ranks, itemsizes, st.sampled_from([RTX, A100, H100]))
def test_rounds_fit_into_shared_memory_or_are_refused(n: int, m: int, rank: int, itemsize: int, shared: int) -> None:
    in_small_blocks = parts_of_rounds(n, m, rank, itemsize, 4)[1] + itemsize * 4 * (-(-n // 4) * 4)
    if min(in_small_blocks, parts_of_rounds(n, m, rank, itemsize, MOST_ROWS)[1]) > shared:
        with pytest.raises(ValueError, match=f"{m} model.* of {n} features need .* bytes of shared memory"):
            plan_rounds(n, m, rank, itemsize, shared)
        return
    plan = plan_rounds(n, m, rank, itemsize, shared)
    assert plan.shared <= shared
    assert 1 <= plan.most_rows <= MOST_ROWS
    if plan.staged:
        assert plan.most_rows <= plan.slots <= 2 * MOST_ROWS
        assert plan.shared >= itemsize * (plan.slots + m) * n
    else:
        assert plan.slots == 0


def test_blocks_are_smaller_where_rows_are_longer() -> None:
    sizes = [plan_rounds(n, 1, 64, 4, H100).most_rows for n in (100, 900, 2000, 6000)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == MOST_ROWS
    assert 4 <= sizes[-1] < MOST_ROWS
    assert not plan_rounds(20_000, 1, 64, 4, H100).staged


@given(features, models, ranks, itemsizes)
def test_models_at_once_are_some_that_fit(n: int, m: int, rank: int, itemsize: int) -> None:
    most = models_at_once(m, n, rank, itemsize, 132, H100)
    assert 1 <= most <= m
    if most > 1:
        assert plan_rounds(n, most, rank, itemsize, H100).staged
    elif m > 1 and n < 100:
        raise AssertionError("short rows of several models are trained together")


# Stretches of a pass

falls = st.lists(st.floats(0.0, 60.0), min_size=1, max_size=60)


def cumulated(own: list[float]) -> np.ndarray:
    return -np.concatenate([[0.0], np.cumsum(own)])


@given(st.lists(falls, min_size=1, max_size=3), st.integers(1, 70))
def test_stretches_are_short_enough_and_no_shorter(lines: list[list[float]], most_rows: int) -> None:
    n = min(map(len, lines))
    decay = np.array([cumulated(line[:n]) for line in lines])
    cuts = stretches(decay, most_rows, 40.0)
    assert (cuts[0], cuts[-1]) == (0, n)
    for begin, end in pairwise(cuts):
        assert 0 < end - begin <= most_rows
        fallen = (decay[:, begin] - decay[:, end]).max()
        assert fallen <= 40.0 or end - begin == 1
        if end < n and end - begin < most_rows:  # another row would have been too much
            assert (decay[:, begin] - decay[:, end + 1]).max() > 40.0


def test_without_a_penalty_stretches_are_as_long_as_they_may_be() -> None:
    assert stretches(np.zeros((1, 101)), 40, 40.0) == [0, 40, 80, 100]
    assert stretches(np.zeros((1, 101)), 1000, 40.0) == [0, 100]
