"""What is gone through at each size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from symsgd.bench.protocols.base import Plan, Size

PARTS = ("rows", "features", "nonzeros", "threads", "memory", "GPU")

SIX = ("rcv1 twin", "url twin", "criteo twin", "webspam twin", "epsilon twin", "adclick twin")
# the paper's sizes, or what trains in some seconds and two gigabytes: set-up is shared by as many rows as there it is
LARGE = {"rcv1": 1.0, "url": 1.0, "criteo": 1.0, "webspam": 0.2, "epsilon": 0.25, "adclick": 0.2}
STEP_SIZES: Mapping[str, float] = {
    "rcv1 twin": 0.5, "url twin": 1.0, "criteo twin": 0.03, "webspam twin": 1.0, "epsilon twin": 0.3,
    "adclick twin": 0.3, "imdb": 0.3, "nycflights13_ctr39": 0.3,
}  # fmt: skip
USUAL_STEP_SIZE = 0.3


@dataclass(frozen=True)
class ScalingPlan(Plan):
    """``parts`` chooses; ``rows``, ``features`` and ``nonzeros`` (a row) are those of made rows that grow in one of
    them, the others at ``usual``.

    ``passes`` is for what has a set-up to share; ``short_passes`` for what has none: Hogwild!, and loops side by side.
    ``dense_scale`` is that of the twin of Epsilon that is held against the memory, of which ``memory_bytes`` are read.
    """

    parts: tuple[str, ...] = PARTS
    repeats: int = 3
    rows: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    features: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    nonzeros: tuple[int, ...] = (3, 10, 30, 100, 300)
    usual: tuple[int, int, int] = (100_000, 20_000, 30)
    passes: int = 10
    short_passes: int = 3
    growth_passes: int = 10
    alpha: float = 1e-6
    dense_scale: float = 0.125
    memory_bytes: int = 1 << 29
    step_sizes: Mapping[str, float] = field(default_factory=lambda: STEP_SIZES)

    def step_size(self, name: str) -> float:
        return self.step_sizes.get(name, USUAL_STEP_SIZE)


PLANS: Mapping[Size, ScalingPlan] = {
    "full": ScalingPlan(
        sets=SIX, scales=LARGE, rows=(10_000, 100_000, 1_000_000, 10_000_000),
        features=(1_000, 10_000, 100_000, 1_000_000, 10_000_000), usual=(1_000_000, 20_000, 30), repeats=5,
        dense_scale=0.25, memory_bytes=1 << 30,
    ),
    "reduced": ScalingPlan(sets=SIX, usual=(300_000, 20_000, 30)),
    "quick": ScalingPlan(
        sets=("rcv1 twin", "epsilon twin"), scales={"rcv1": 0.2, "epsilon": 0.02}, repeats=2,
        rows=(10_000, 100_000, 300_000), features=(1_000, 30_000, 1_000_000), nonzeros=(3, 30, 100), dense_scale=0.05,
        memory_bytes=1 << 28,
    ),
    "tiny": ScalingPlan(
        sets=("rcv1 twin",), scales={"rcv1": 0.002}, threads=(1, 2), repeats=1, rows=(500, 1_000),
        features=(100, 1_000), nonzeros=(3, 10), usual=(1_000, 500, 5), passes=2, short_passes=1, growth_passes=2,
        dense_scale=0.002, memory_bytes=1 << 16,
    ),
}  # fmt: skip
