"""How a launch is cut to a device: who has which features, and what fits into shared memory. Plain arithmetic."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

# as in kernels/exact.cu
EXACT_THREADS = 256
TILE, TILE_SLOTS, BLOCK_SLOTS, FACTS = 32, 4, 4, 6
# as in kernels/rounds.cu
ROUNDS_THREADS = 512
MOST_ROWS, SUMS = 32, 6

PAD = 4  # numbers that a slice of a row is padded by in shared memory
GRAM_BLOCKS = (128, 64, 32)
LEAST_SLICE = 16  # features of a worker: fewer are less work than telling the chain
STAGED_SLICE = 96  # at most, of workers that keep their rows in shared memory


@dataclass(frozen=True)
class ExactPlan:
    """Of the exact recurrence: rows of a block, workers, features of each, bytes of shared memory."""

    block: int
    workers: int
    slice: int
    staged: bool
    shared: int


@dataclass(frozen=True)
class RoundsPlan:
    """Of rounds: the most rows of a block, rows that there is room for in shared memory, its bytes, and its parts."""

    most_rows: int
    staged: bool
    slots: int
    shared: int
    parts: dict[str, int]


def plan_exact(n_features: int, n_models: int, itemsize: int, processors: int, shared: int, block: int) -> ExactPlan:
    """As few workers as keep their slices of the rows in shared memory: each of them is one more sum for the chain.

    Raises
    ------
    ValueError : there are more models than processors
    """
    available = processors - n_models
    if available < 1:
        raise ValueError(f"{n_models} models at once are too many for {processors} multiprocessors")
    chain = itemsize * (TILE_SLOTS * TILE * 2 * block + 2 * BLOCK_SLOTS * block + 4 * TILE + 3 * FACTS * TILE)
    few = max(1, min(available, 32))
    width = _multiple_of_4(max(-(-n_features // few), LEAST_SLICE))
    if width > STAGED_SLICE:
        width = max(STAGED_SLICE, _multiple_of_4(-(-n_features // available)))
    rest = itemsize * (n_models * width + block + EXACT_THREADS)
    rows = itemsize * BLOCK_SLOTS * block * (width + PAD)
    staged = rows + rest <= shared
    if not staged:
        width = _multiple_of_4(-(-n_features // available))
        rest = itemsize * (n_models * width + block + EXACT_THREADS)
    return ExactPlan(block, -(-n_features // width), width, staged, max(chain, rest + (rows if staged else 0)))


def gram_rows(n_features: int, n_models: int, itemsize: int, processors: int, shared: int) -> int:
    """Rows of a block of the exact recurrence, the most that fit.

    Raises
    ------
    ValueError : not even the fewest do
    """
    for block in GRAM_BLOCKS:
        if plan_exact(n_features, n_models, itemsize, processors, shared, block).shared <= shared:
            return block
    raise ValueError(
        f"{n_models} model(s) of {n_features} features do not fit into {shared} bytes of shared memory, not even in "
        "small blocks; use device='cpu'"
    )


@functools.cache
def plan_rounds(n_features: int, n_models: int, rank: int, itemsize: int, shared: int) -> RoundsPlan:
    """The largest blocks whose rows fit into shared memory; where not even four do, rows are read where they are.
    No features stand for sparse rows; ``rank`` has the intercept's direction in it.

    Raises
    ------
    ValueError : the weights themselves do not fit
    """

    row, most = itemsize * _multiple_of_4(n_features), MOST_ROWS

    def beside(rows: int) -> tuple[dict[str, int], int]:
        return parts_of_rounds(n_features, n_models, rank, itemsize, rows)

    if n_features and beside(4)[1] + 4 * row <= shared:
        while beside(most)[1] + most * row > shared:
            most -= 1
        parts, used = beside(most)
        slots = min(2 * MOST_ROWS, (shared - used) // row)
        return RoundsPlan(most, True, slots, used + slots * row, parts)
    parts, used = beside(most)  # rows stay where they are
    if used > shared:
        raise ValueError(
            f"{n_models} model(s) of {n_features} features need {used} bytes of shared memory, and there are {shared}"
        )
    return RoundsPlan(most, False, 0, used, parts)


def parts_of_rounds(n_features: int, n_models: int, rank: int, itemsize: int, rows: int) -> tuple[dict[str, int], int]:
    """Where the parts of the shared memory begin, in numbers (``Parts`` of kernels/spans.cuh), for blocks of at most so
    many rows; and the bytes of all of them but the rows themselves, which are last."""
    m, double = n_models, 8 // itemsize
    sizes = {
        "q": rows * (rank | 1), "gram": rows * rows,
        **dict.fromkeys(("steps", "faded", "margins", "before", "products", "expected"), m * MOST_ROWS),
        "expected_next": 0 if n_features else m * MOST_ROWS, "sharpness": rank, "turn": rank,
        **dict.fromkeys(("start", "end", "rate", "back"), m * rank), "sums": m * SUMS,
        **dict.fromkeys(("drift", "slope", "next_slope", "pace"), m), "intercept": m * double, "losses": m * double,
        "facts": m * FACTS * MOST_ROWS, "scale": 0 if n_features else m * double,
        "weights": m * _multiple_of_4(n_features), "scratch": ROUNDS_THREADS if n_features else 0,
        "ahead": double, "rest": double,
    }  # fmt: skip
    at, parts = 0, {}
    for name, size in sizes.items():
        parts[name] = at
        at += _multiple_of_4(size)
    return {**parts, "rows": at}, itemsize * at


@functools.cache
def models_at_once(n_models: int, n_features: int, rank: int, itemsize: int, processors: int, shared: int) -> int:
    """How many models one launch can train."""
    most = min(n_models, max(1, processors // 4))
    while most > 1:
        try:
            if plan_rounds(n_features, most, rank, itemsize, shared).staged or n_features == 0:
                return most
        except ValueError:
            pass
        most = -(-most // 2)
    return 1


def _multiple_of_4(count: int) -> int:
    return -(-count // 4) * 4


def stretches(decay: np.ndarray[tuple[int, ...], np.dtype[np.float64]], most_rows: int, most_decay: float) -> list[int]:
    """Where a pass of these logarithms of decays (models × (rows + 1)) is cut: stretches of at most so many rows, over
    which weights do not decay by more than exp(−``most_decay``). Begins with 0 and ends with the number of rows."""
    cuts, rows = [0], decay.shape[1] - 1
    while cuts[-1] < rows:
        begin = cuts[-1]
        end = min(rows, begin + most_rows)
        if float((decay[:, begin] - decay[:, end]).max()) > most_decay:
            fallen = (decay[:, begin, None] - decay[:, begin : end + 1]).max(axis=0)
            end = begin + max(1, int(np.searchsorted(fallen, most_decay, side="right")) - 1)
        cuts.append(end)
    return cuts
