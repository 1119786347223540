"""A little of everything, in five minutes on two cores: what a newcomer runs first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from symsgd.bench import protocols
from symsgd.bench.protocols.base import SIZES, Plan, Protocol, Size, Surroundings
from symsgd.bench.records import Row

CHAIN = ("paper", "fidelity", "convergence", "peers", "scaling")


@dataclass(frozen=True)
class QuickPlan(Plan):
    """The other protocols' plans of a size; sets and threads none, and repeats 0, leave theirs as they are."""

    repeats: int = 0
    size: Size = "quick"


class Quick(Protocol):
    """All other protocols, one after the other. Rows are theirs, and so are the sections of the report."""

    name: ClassVar[str] = "quick"
    summary: ClassVar[str] = "A little of everything, in five minutes on two cores"
    plans: ClassVar[Mapping[Size, QuickPlan]] = {size: QuickPlan(size=size) for size in SIZES}

    def measure(self, plan: QuickPlan, around: Surroundings) -> Iterator[Row]:
        for name in CHAIN:
            protocol = protocols.find(name)
            own = protocol.plans[plan.size].with_choices(
                sets=plan.sets or None, threads=plan.threads, repeats=plan.repeats or None
            )
            around.tell(f"{name}: {protocol.summary}")
            yield from protocol.measure(own, around)
