"""How many rows the blocks of a round have: by the measured error, as on one machine (docs/curvature.md).

Nothing is decided by a clock, so that every run with the same data decides alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

FIRST_ROWS = 256  # of a block, in the first round
FEWEST_ROWS = 256  # a round costs the scheduler more than smaller blocks could ever gain
ALONE_SHARE, MOST_ALONE_FIRST = 16, 16_384  # of the first pass, rows that one block has while predictions change fast
LEAST_ROUNDS = 4  # of a pass
MOST_BETWEEN = 64  # rounds from one check to the next
GROWS = 0.7  # of the tolerance, below which blocks double: the error of large ones grows with the root of their rows
STRIKES = 2  # errors above the tolerance in a row after which blocks become smaller
HOPELESS = 4  # such errors at the least size after which one block goes on alone
ALONE_BLOCKS = 8  # blocks' worth of rows that it then has; twice as many each time in a row
HARM, START_SHARE = 2.0, 0.1  # a loss above twice the last one and a tenth of the first: the merge did harm


@dataclass
class Control:
    """Blocks of ``rows`` rows; ``adapts`` to the error, unless they are the caller's choice."""

    rows: int
    least: int
    most: int
    tolerance: float
    adapts: bool = True
    measures: bool = True
    alone: int = 0  # rows to be trained by one block before the next round
    stretch: int = 0  # how many those were when rounds did not work last
    too_large: int = 1 << 62  # a size that was
    strikes: int = 0
    since: int = 1 << 30  # rounds since the last check: the first is checked
    between: int = 1
    fresh: bool = True  # blocks of this size were not checked yet
    errors: float = 0.0
    checks: int = 0
    caught: int = 0

    @property
    def due(self) -> bool:
        """Whether the next round is checked."""
        return self.measures and (self.fresh or self.since >= self.between)

    def begin_pass(self) -> None:
        self.errors, self.checks, self.caught = 0.0, 0, 0

    def unchecked(self) -> None:
        self.since += 1

    def checked(self, error: float) -> bool:
        """Takes the error of a round's merge. False: the merge is to be undone."""
        self.errors += min(error, 1.0)
        self.checks += 1
        self.since = 0
        if not self.adapts:
            self.fresh = False
            self.between = min(MOST_BETWEEN, 4 if error > self.tolerance else max(4, 2 * self.between))
            return self._given_size(error)
        undone = self.fresh and error > 2 * self.tolerance
        if error > self.tolerance:
            self._too_much(error)
        else:
            self.strikes, self.stretch, self.fresh = 0, 0, False
            larger = min(2 * self.rows, self.most)
            retry = larger < self.too_large or error < self.tolerance / 4
            if error < GROWS * self.tolerance and larger > self.rows and retry:
                self.rows, self.fresh, self.between = larger, True, 1
            else:
                self.between = min(MOST_BETWEEN, max(8, 2 * self.between))
        if undone:
            self.caught += 1
        return not undone

    def harmed(self) -> None:
        """A merge has made the loss much worse, and was undone."""
        self.caught += 1
        self.fresh, self.since = True, 0
        if not self.adapts or self.rows // 2 < self.least:
            self._go_alone()
        else:
            self.too_large = min(self.too_large, self.rows)
            self.rows //= 2

    def _given_size(self, error: float) -> bool:
        if error <= max(0.5, self.tolerance):
            return True
        self.caught += 1
        self.alone = 4 * self.rows
        return False

    def _too_much(self, error: float) -> None:
        self.strikes += 1
        far = error > 2 * self.tolerance
        self.between = 4
        if self.rows // 2 < self.least:
            if far or self.strikes >= HOPELESS:
                self._go_alone()
        elif far or self.strikes >= STRIKES:
            self.too_large = min(self.too_large, self.rows)
            self.strikes, self.fresh, self.between = 0, True, 1
            while error > self.tolerance and self.rows // 2 >= self.least:
                self.rows //= 2
                error /= 2

    def _go_alone(self) -> None:
        self.stretch = min(max(2 * self.stretch, ALONE_BLOCKS * self.rows), 32 * self.most)
        self.alone = self.stretch
        self.strikes, self.fresh = 0, True

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def first_control(
    n_rows: int, n_lanes: int, least: int, tolerance: float, block_size: int | None, measures: bool = True
) -> Control:
    """At the beginning of a training. ``least``: rows of a block below which a round does not pay."""
    most = max(1, n_rows // (n_lanes * LEAST_ROUNDS))
    alone = 0 if n_lanes == 1 else min(n_rows // ALONE_SHARE, MOST_ALONE_FIRST)
    if block_size is not None:
        return Control(block_size, block_size, block_size, tolerance, adapts=False, measures=measures)
    if least > most:  # a pass would have less than four rounds that pay
        return Control(least, least, least, tolerance, alone=1 << 60)
    least = min(max(least, FEWEST_ROWS), most)
    return Control(min(max(FIRST_ROWS, least), most), least, most, tolerance, measures=measures, alone=alone)
