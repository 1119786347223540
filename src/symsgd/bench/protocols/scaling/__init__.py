"""Time against rows, features, nonzeros and threads; against what the memory delivers; and a GPU beside the CPU.

Speed is seconds of all passes, what is set up in the first of them counted; beside a GPU, of those after the first,
and the first by itself. Systems take turns within a repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from symsgd.bench.protocols.base import Plan, Protocol, Size, Surroundings
from symsgd.bench.protocols.scaling import graphics, growth, memory, thread_counts
from symsgd.bench.protocols.scaling.plan import PARTS, PLANS, ScalingPlan
from symsgd.bench.records import Row


class Scaling(Protocol):
    """One part a question."""

    name: ClassVar[str] = "scaling"
    summary: ClassVar[str] = "Time against rows, nonzeros, features and threads, the memory's bandwidth, and a GPU"
    plans: ClassVar[Mapping[Size, Plan]] = PLANS

    def measure(self, plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
        """Raises ValueError for a part that there is not."""
        for part in plan.parts:
            if part not in PARTS:
                raise ValueError(f"parts has {part!r}, which is not known; accepted are {', '.join(PARTS)}")
        for part in growth.PARTS:
            if part in plan.parts:
                yield from growth.measure(part, plan, around)
        if "threads" in plan.parts or "GPU" in plan.parts:  # a set is loaded once for both
            for data in self.loaded(plan, around, "threads" if "threads" in plan.parts else "GPU"):
                if isinstance(data, Row):
                    yield data
                    continue
                if data.task != "binary":
                    yield Row(self.name, "threads", data.name, "", reason="sets of two classes are compared")
                    continue
                if "GPU" in plan.parts:
                    yield from graphics.measure(data, plan, around)
                if "threads" in plan.parts:
                    yield from thread_counts.measure(data, plan, around)
        if "memory" in plan.parts:
            yield from memory.measure(plan, around)
