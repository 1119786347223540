"""The orders of the rows: one array of row numbers per pass."""

from __future__ import annotations

import numpy as np

from symsgd.reference.arrays import Order

CHUNK_ROWS, WINDOW_CHUNKS = 32, 16
BLOCK_CHUNKS, GROUP_BLOCKS = 128, 16
SPLIT_MIX_STEP = 0x9E3779B97F4A7C15


def storage_order(n: int, passes: int) -> list[Order]:
    """Every pass in the order of the rows."""
    return [np.arange(n) for _ in range(passes)]


def full_order(n: int, seed: int, passes: int) -> list[Order]:
    """scikit-learn's shuffles: every pass permutes, with the same random numbers, what the last pass left.

    The numbers are Marsaglia's 32-bit xorshift (13, 17, 5) modulo 2³¹, started from `seed`, a seed of 0 counting
    as 1; the permutation is Fisher and Yates' from the front: row i changes places with row i + r mod (n − i).
    """
    order, orders = np.arange(n), []
    for _ in range(passes):
        state = seed or 1  # xorshift never leaves 0
        for i in range(n - 1):
            state ^= (state << 13) & 0xFFFFFFFF
            state ^= state >> 17
            state ^= (state << 5) & 0xFFFFFFFF
            j = i + (state % 2**31) % (n - i)
            order[i], order[j] = order[j], order[i]
        orders.append(order.copy())
    return orders


def window_order(n: int, seed: int, passes: int) -> list[Order]:
    """Chunks of 32 consecutive rows in random order, 16 chunks at a time riffled into one window.

    Within a window each chunk has as many turns as it has rows, the turns are permuted, and a turn takes the chunk's
    next row. The last chunk is shorter if 32 does not divide n, and so is the window that it falls into.

    Permutations are Fisher and Yates' from the back, item i changing places with item (i + 1) r / 2³², r the upper
    half of a number of SplitMix64 (Steele et al. 2014). Its state starts from mix(mix(seed) ^ pass) ^ window, the
    permutation of the chunks counting as window −1.
    """
    orders = []
    for number in range(passes):
        key = _split_mix(_split_mix(seed) ^ number)
        starts = np.arange(0, n, CHUNK_ROWS)
        _permute(starts, _at(key, -1))
        orders.append(_riffled(starts, n, key))
    return orders


def block_order(n: int, seed: int, passes: int) -> list[Order]:
    """The window order, of chunks that lie near each other: blocks of 128 chunks are permuted, and then the chunks of
    16 blocks at a time. The permutation of the blocks counts as window −1, those of the groups as −2, −3, …"""
    orders = []
    for number in range(passes):
        key = _split_mix(_split_mix(seed) ^ number)
        starts = np.arange(0, n, CHUNK_ROWS)
        blocks = np.arange(0, len(starts), BLOCK_CHUNKS)
        _permute(blocks, _at(key, -1))
        starts = np.concatenate([starts[block : block + BLOCK_CHUNKS] for block in blocks])
        for group, first in enumerate(range(0, len(starts), GROUP_BLOCKS * BLOCK_CHUNKS)):
            _permute(starts[first : first + GROUP_BLOCKS * BLOCK_CHUNKS], _at(key, -2 - group))
        orders.append(_riffled(starts, n, key))
    return orders


def _riffled(starts: Order, n: int, key: int) -> Order:
    rows: list[int] = []
    for window, first in enumerate(range(0, len(starts), WINDOW_CHUNKS)):
        chunks = [range(start, min(start + CHUNK_ROWS, n)) for start in starts[first : first + WINDOW_CHUNKS]]
        turns = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
        _permute(turns, _at(key, window))
        next_rows = [iter(chunk) for chunk in chunks]
        rows += [next(next_rows[turn]) for turn in turns]
    return np.array(rows, dtype=np.intp)


def _at(key: int, window: int) -> int:
    return key ^ (window % 2**64)


def _split_mix(state: int) -> int:
    """The number that SplitMix64 gives next; its state then is `state` + SPLIT_MIX_STEP."""
    z = (state + SPLIT_MIX_STEP) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def _permute(items: Order, state: int) -> None:
    for i in range(len(items) - 1, 0, -1):
        j = (_split_mix(state) >> 32) * (i + 1) >> 32
        state += SPLIT_MIX_STEP
        items[i], items[j] = items[j], items[i]
