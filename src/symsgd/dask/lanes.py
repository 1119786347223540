"""Which rows the blocks of a round have, and in which order: by partition and block, whoever trains them.

All rows, partition after partition, are cut into *lanes* of equal length, as many as a round has blocks. Every round
takes the next rows of each lane, by default as many from each: block 1 from lane 1, and so on. A block that crosses
the end of a partition has a *segment* in each. Rows of a segment are visited in the order that :func:`symsgd.train`
would visit them in (docs/order.md), with a seed of their own. So the sequential run is: round after round, in a round
lane after lane, in a block segment after segment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from symsgd import _core
from symsgd.training import row_order

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """Rows ``begin`` … ``end`` of a partition, shuffled by ``seed``."""

    partition: int
    begin: int
    end: int
    seed: int

    @property
    def rows(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Block:
    """What one model is trained on in a round: segments of lane ``lane``, from step ``t`` on."""

    lane: int
    t: float
    segments: tuple[Segment, ...]

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)


class Lanes:
    """The rows of a pass, and which of them are still to come."""

    def __init__(self, partition_rows: Sequence[int], n_lanes: int, seed: int) -> None:
        self.starts = np.concatenate([[0], np.cumsum(partition_rows)]).astype(np.int64)
        total = int(self.starts[-1])
        n_lanes = max(1, min(n_lanes, total))
        self.ends = [total * (lane + 1) // n_lanes for lane in range(n_lanes)]
        self.seed = seed
        self.number = 0
        self.at: list[int] = []
        self.begin_pass(0)

    def begin_pass(self, number: int) -> None:
        self.number = number
        self.at = [0, *self.ends[:-1]]

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def left(self) -> int:
        return sum(end - at for at, end in zip(self.at, self.ends, strict=True))

    @property
    def total(self) -> int:
        return int(self.starts[-1])

    def take(self, rows_a_block: int, t: float) -> list[Block]:
        """The next round, in order. Lanes that have more rows left give more, so that all of them end together."""
        share = min(1.0, rows_a_block * self.count / max(1, self.left))
        blocks = []
        for lane, (at, end) in enumerate(zip(self.at, self.ends, strict=True)):
            rows = end - at if share == 1.0 else min(end - at, max(1, round((end - at) * share)))
            if rows:
                blocks.append(self._block(lane, at, at + rows, t))
                t += rows
                self.at[lane] = at + rows
        return blocks

    def take_alone(self, rows: int, t: float) -> list[Block]:
        """One block, of the lane that has most rows left; shorter if that has not as many."""
        left = [end - at for at, end in zip(self.at, self.ends, strict=True)]
        lane = int(np.argmax(left))
        block = self._block(lane, self.at[lane], self.at[lane] + min(rows, left[lane]), t)
        self.at[lane] += block.rows
        return [block]

    def _block(self, lane: int, begin: int, end: int, t: float) -> Block:
        segments = []
        first = int(np.searchsorted(self.starts, begin, side="right")) - 1
        for partition in range(first, len(self.starts) - 1):
            low, high = int(self.starts[partition]), int(self.starts[partition + 1])
            if low >= end:
                break
            own = max(begin, low), min(end, high)
            if own[0] < own[1]:
                seed = _seed(self.seed, self.number, own[0])
                segments.append(Segment(partition, own[0] - low, own[1] - low, seed))
        return Block(lane, t, tuple(segments))


def _seed(seed: int, number: int, begin: int) -> int:
    """Of the segment that begins with this row in this pass: 32 bits."""
    digest = hashlib.blake2b(f"{seed} {number} {begin}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little")


@dataclass
class Journal:
    """What was trained in which order: the blocks of every round of every pass. ``undone`` rounds are not in it."""

    partition_rows: tuple[int, ...]
    shuffle: bool | str
    passes: list[list[list[Block]]] = field(default_factory=list)

    def order(self, number: int) -> Rows:
        """The rows of pass 0, 1, … in the order of the sequential run that it follows, counted over all partitions."""
        starts = np.concatenate([[0], np.cumsum(self.partition_rows)])
        parts = [
            starts[segment.partition] + segment.begin + _visited(self.shuffle, segment)
            for blocks in self.passes[number]
            for block in blocks
            for segment in block.segments
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def rounds(self, number: int) -> list[list[Block]]:
        return self.passes[number]


def _visited(shuffle: bool | str, segment: Segment) -> Rows:
    kind = row_order(shuffle, segment.rows)
    return np.asarray(_core.Order(kind, segment.rows, segment.seed).write(0), np.int64)


def flat_journal(journal: Journal) -> Rows:
    """Numbers of all segments: pass, round, block, lane, t, partition, begin, end, seed."""
    return np.array(
        [
            (i, j, k, block.lane, int(block.t), s.partition, s.begin, s.end, s.seed)
            for i, rounds in enumerate(journal.passes)
            for j, blocks in enumerate(rounds)
            for k, block in enumerate(blocks)
            for s in block.segments
        ],
        np.int64,
    ).reshape(-1, 9)


def journal_passes(numbers: Rows, passes: int) -> list[list[list[Block]]]:
    """What :func:`flat_journal` wrote."""
    found: list[list[list[Block]]] = [[] for _ in range(passes)]
    for i, j, k, lane, t, partition, begin, end, seed in numbers.tolist():
        rounds = found[i]
        if j == len(rounds):
            rounds.append([])
        own = Segment(partition, begin, end, seed)
        if k == len(rounds[j]):
            rounds[j].append(Block(lane, float(t), (own,)))
        else:
            rounds[j][k] = Block(lane, rounds[j][k].t, (*rounds[j][k].segments, own))
    return found
