"""The orders of a pass: permutations, scikit-learn's where promised, and windows of chunks as documented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from symsgd import _core, reference

KINDS = ["storage", "full", "window", "blocks"]
CHUNK, WINDOW = 32, 512
# one row; around a chunk and a window; several windows, the last of them short; sizes that 32 and 512 divide or not
SIZES = [1, 2, 31, 32, 33, 511, 512, 513, 543, 544, 545, 1000, 1024, 1025, 4096, 5000, 10_007]

seeds = st.integers(0, 2**32 - 1)


def write(kind: str, n: int, seed: int = 1, passes: int = 1) -> list[np.ndarray]:
    return [np.array(order) for order in _core.write_order(kind, n, seed, passes)]


def oracle(kind: str, n: int, seed: int, passes: int) -> Any:
    if kind == "storage":
        return reference.storage_order(n, passes)
    orders = {"full": reference.full_order, "window": reference.window_order, "blocks": reference.block_order}
    return orders[kind](n, seed, passes)


def windows(order: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(chunks, rows) of each window: 512 places, fewer in the last one and where the last, short chunk came to lie."""
    n = len(order)
    chunks_left, begin = -(-n // CHUNK), 0
    while chunks_left:
        chunks = min(chunks_left, WINDOW // CHUNK)
        end = begin + chunks * CHUNK
        if n % CHUNK and (n - 1) in order[begin:end]:
            end -= CHUNK - n % CHUNK
        yield chunks, order[begin:end]
        begin, chunks_left = end, chunks_left - chunks
    assert begin == n


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_every_pass_visits_every_row_once(kind: str, n: int) -> None:
    for order in write(kind, n, seed=3, passes=3):
        assert_array_equal(np.sort(order), np.arange(n))


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**32 - 1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 31, 33, 511, 1025])
def test_equals_the_reference(kind: str, n: int, seed: int) -> None:
    assert_array_equal(write(kind, n, seed, 3), oracle(kind, n, seed, 3))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 1500), seed=seeds)
def test_window_equals_the_reference_anywhere(n: int, seed: int) -> None:
    assert_array_equal(write("window", n, seed, 2), reference.window_order(n, seed, 2))


def test_window_equals_the_reference_over_many_windows() -> None:
    assert_array_equal(write("window", 10_007, 5, 2), reference.window_order(10_007, 5, 2))


def test_blocks_equal_the_reference_over_several_groups() -> None:
    n = 2 * 65_536 + 5000
    assert_array_equal(write("blocks", n, 5), reference.block_order(n, 5, 1))


def test_a_group_is_whole_blocks_from_everywhere() -> None:
    n, block = 64 * 4096, 4096
    first, second = write("blocks", n, seed=4, passes=2)
    assert (first != second).any()
    groups = first.reshape(4, 16 * block)
    for group in groups:
        blocks, counts = np.unique(group // block, return_counts=True)
        assert len(blocks) == 16
        assert (counts == block).all()
        assert np.ptp(blocks) > 16  # not neighbours
        assert len(np.unique(group[:512] // CHUNK)) == 16  # a window of chunks from many blocks
        assert len(np.unique(group[:512] // block)) > 4


@pytest.mark.parametrize("n", SIZES)
def test_a_window_is_whole_chunks(n: int) -> None:
    for order in write("window", n, seed=2, passes=3):
        for chunks, rows in windows(order):
            numbers = np.unique(rows // CHUNK)
            assert len(numbers) == chunks
            whole = np.concatenate([np.arange(c * CHUNK, min((c + 1) * CHUNK, n)) for c in numbers])
            assert_array_equal(np.sort(rows), whole)


def test_the_short_chunk_may_come_to_lie_in_any_window() -> None:
    n, found = 5 * WINDOW + 7, set()
    for seed in range(60):
        (order,) = write("window", n, seed)
        found |= {at for at, (_, rows) in enumerate(windows(order)) if (n - 1) in rows}
    assert found == set(range(6))


@pytest.mark.parametrize("n", SIZES)
def test_a_chunk_gives_its_rows_in_turn(n: int) -> None:
    """Which the prefetchers of the memory like."""
    (order,) = write("window", n)
    for chunk in range(-(-n // CHUNK)):
        assert (np.diff(order[order // CHUNK == chunk]) == 1).all()


def test_a_window_riffles_chunks_from_everywhere() -> None:
    (order,) = write("window", 200 * WINDOW)
    spread = [np.ptp(rows) / len(order) for _, rows in windows(order)]
    assert np.mean(spread) == pytest.approx(15 / 17, abs=0.05)  # the range of 16 uniform draws
    neighbours = [np.mean(np.diff(rows) == 1) for _, rows in windows(order)]
    assert np.mean(neighbours) == pytest.approx(1 / 16, abs=0.01)  # the chance that a chunk has two turns in a row


@pytest.mark.parametrize(("kind", "n", "firsts"), [("full", 8, range(8)), ("window", 8 * CHUNK, range(0, 256, CHUNK))])
def test_every_row_or_chunk_is_as_likely_to_come_first(kind: str, n: int, firsts: range) -> None:
    found = Counter(int(write(kind, n, seed, 1)[0][0]) for seed in range(1, 4001))
    assert set(found) == set(firsts)
    assert max(found.values()) < 500 + 6 * 500**0.5
    assert min(found.values()) > 500 - 6 * 500**0.5


@pytest.mark.parametrize("n", [300, 5000])
@pytest.mark.parametrize("kind", ["full", "window"])
def test_the_seed_and_the_pass_decide(kind: str, n: int) -> None:
    first, second = write(kind, n, 7, 2)
    assert (first != second).mean() > 0.9
    assert_array_equal(write(kind, n, 7, 2), [first, second])
    for other in (8, 7 + 2**31):
        assert (write(kind, n, other)[0] != first).mean() > 0.9


def test_unknown_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown order sorted"):
        _core.write_order("sorted", 3, 1, 1)
