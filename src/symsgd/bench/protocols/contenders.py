"""What is held against the sequential run: strategies and combiners, in blocks of a given size where they have any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symsgd.bench.datasets import Dataset
from symsgd.combiners import Curvature, Mean, Projected, Sum
from symsgd.strategies import AllReduce, Async, Averaging, Hogwild, MapReduce, ParameterServer, Strategy
from symsgd.threads import available_cores

REFINED = 2  # sweeps


@dataclass(frozen=True)
class Contender:
    """``make`` takes a block size, which only those with ``blocks`` heed. Threads of ``racy`` ones change one model at
    any time, so that runs differ; the others give the same bits on any number of cores. ``losses`` are those for which
    there is a difference to the others. ``sweeps`` are walks over the whole model in a round, 0 if only what its blocks
    have touched is merged."""

    system: str
    combiner: str
    make: Callable[[int], Strategy]
    blocks: bool = True
    racy: bool = False
    losses: tuple[str, ...] = ("log_loss", "hinge", "squared_error")
    sweeps: int = 0

    def thread_counts(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Races are of threads that have a core each; rounds are the same whoever trains their blocks."""
        return tuple(sorted({min(count, available_cores()) for count in wanted} if self.racy else set(wanted)))

    def merged(self, data: Dataset, n_threads: int, block: int, passes: int) -> int:
        """Numbers that are walked over by all merges."""
        return self.sweeps * passes * -(-data.n_rows // (block * n_threads)) * data.n_features


CONTENDERS = (
    Contender("Hogwild!", "none", lambda _: Hogwild(), blocks=False, racy=True),
    Contender("averaging", "mean", lambda _: Averaging(), blocks=False),
    Contender("AllReduce", "AdaGrad's mean", lambda _: AllReduce(), blocks=False),
    Contender("parameter server", "sum", ParameterServer, racy=True),
    Contender("sum", "sum", lambda block: MapReduce(Sum(), block)),
    Contender("mean", "mean", lambda block: MapReduce(Mean(), block)),
    Contender("MR-SymSGD", "projected, k = 15", lambda block: MapReduce(Projected(15), block)),
    Contender("MR-SymSGD, k = 63", "projected, k = 63", lambda block: MapReduce(Projected(63), block)),
    Contender(
        "MR-SymSGD, no soft curvature",
        "projected, k = 15",
        lambda block: MapReduce(Projected(15, soft_curvature=False), block),
        losses=("hinge",),
    ),
    Contender("Async-SymSGD", "projected, k = 15", lambda block: Async(Projected(15), block), racy=True),
    Contender("curvature", "curvature", lambda block: MapReduce(Curvature(), block), sweeps=1),
    Contender(
        "curvature, refined",
        f"curvature, {REFINED} sweeps",
        lambda block: MapReduce(Curvature(refine=REFINED), block),
        sweeps=1 + 2 * REFINED,
    ),
    Contender("auto", "curvature", lambda _: MapReduce(Curvature(), "auto"), blocks=False),
)
