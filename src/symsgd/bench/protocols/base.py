"""What a protocol is: a plan for each size, and a walk through it that yields rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from symsgd.bench.datasets import Dataset, load
from symsgd.bench.records import Row
from symsgd.threads import available_cores

Size = Literal["full", "reduced", "quick", "tiny"]
SIZES: tuple[Size, ...] = ("full", "reduced", "quick", "tiny")


@dataclass(frozen=True)
class Plan:
    """What a protocol goes through at one size. Protocols add fields of their own.

    ``scales`` are those of twins that are not at their usual scale; ``threads`` none means 1, 2, 4 … all cores.
    """

    sets: tuple[str, ...] = ()
    threads: tuple[int, ...] | None = None
    repeats: int = 1
    scales: Mapping[str, float] = field(default_factory=dict)

    def with_choices(self, **choices: Any) -> Plan:
        """The plan with what the user has chosen; None is no choice.

        Raises
        ------
        ValueError : a choice that this protocol does not have
        """
        made = {name: value for name, value in choices.items() if value is not None}
        known = {own.name for own in fields(self)}
        for name in made:
            if name not in known:
                raise ValueError(f"--{name.replace('_', '-')}: this protocol has no such choice")
        return replace(self, **made)

    @property
    def thread_counts(self) -> tuple[int, ...]:
        return self.threads or powers_up_to(available_cores())


def powers_up_to(most: int) -> tuple[int, ...]:
    """1, 2, 4 … and ``most`` itself."""
    powers = [1 << shift for shift in range(most.bit_length()) if 1 << shift < most]
    return (*powers, most)


@dataclass(frozen=True)
class Surroundings:
    """Where data sets are, the seed, and whom to tell what is being done."""

    data_dir: Path | None = None
    seed: int = 0
    tell: Callable[[str], None] = lambda _: None

    def load(self, name: str, scales: Mapping[str, float] | None = None) -> Dataset:
        self.tell(f"loading {name}")
        return load(name, self.data_dir, scales or {})


class Protocol(ABC):
    """One question, or a few that belong together. Rows come as they are measured."""

    name: ClassVar[str]
    summary: ClassVar[str]
    plans: ClassVar[Mapping[Size, Plan]]

    @abstractmethod
    def measure(self, plan: Any, around: Surroundings) -> Iterator[Row]:
        """Goes through the plan. A set that cannot be had, a system that is missing or a training that diverges is a
        row with a reason."""

    def loaded(self, plan: Plan, around: Surroundings, part: str) -> Iterator[Dataset | Row]:
        """The plan's data sets, or for one that cannot be had the row that says so."""
        for name in plan.sets:
            data = around.load(name, plan.scales)
            yield Row(self.name, part, name, "", reason=data.reason) if data.reason else data


def mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
