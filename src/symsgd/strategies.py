"""The strategies: who trains which rows, and how the threads' models become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from symsgd._choices import Choice, resolve_choice


@dataclass(frozen=True)
class Strategy(Choice):
    """Base of all strategies."""


@dataclass(frozen=True)
class Sequential(Strategy):
    """One thread, row after row: the run that every other strategy is compared with."""

    name: ClassVar[str] = "sequential"


@dataclass(frozen=True)
class Auto(Strategy):
    """Chooses for you, and says in the result what it chose and why."""

    name: ClassVar[str] = "auto"

    def decide(self) -> tuple[Strategy, str]:
        return Sequential(), "sequential: the only strategy of this version"


STRATEGIES: dict[str, type[Strategy]] = {strategy.name: strategy for strategy in (Sequential, Auto)}


def resolve(strategy: str | Strategy) -> tuple[Strategy, str]:
    """The strategy that will run, and in words why."""
    chosen = resolve_choice("strategy", strategy, STRATEGIES, Strategy)
    return chosen.decide() if isinstance(chosen, Auto) else (chosen, f"{chosen.name}: as asked")
