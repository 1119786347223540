"""The step sizes: choices with names. t counts the steps taken, from 1, across calls that continue a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from symsgd._choices import Choice, check_number, resolve_choice


@dataclass(frozen=True)
class Schedule(Choice):
    """Base of all schedules."""

    passive_aggressive: ClassVar[bool] = False


@dataclass(frozen=True)
class Constant(Schedule):
    """Always ``step_size``."""

    step_size: float = 0.01
    name: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, above=0.0)


@dataclass(frozen=True)
class Optimal(Schedule):
    """1 / (alpha (t₀ + t − 1)), t₀ from Bottou's heuristic: the first step is of the size of typical weights."""

    alpha: float = 1e-4
    name: ClassVar[str] = "optimal"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=0.0)


@dataclass(frozen=True)
class InvScaling(Schedule):
    """step_size / t^power."""

    step_size: float = 0.01
    power: float = 0.25
    name: ClassVar[str] = "invscaling"

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, above=0.0)
        check_number("power", self.power)


@dataclass(frozen=True)
class Adaptive(Schedule):
    """``step_size``, divided by 5 each time the objective stops improving, down to 1e-6; needs a tolerance to act."""

    step_size: float = 0.01
    name: ClassVar[str] = "adaptive"

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, above=0.0)


@dataclass(frozen=True)
class PassiveAggressive1(Schedule):
    """min(aggressiveness, loss / ‖x‖²): PA-I of Crammer et al. 2006, for hinge and epsilon-insensitive losses."""

    aggressiveness: float = 1.0
    name: ClassVar[str] = "pa1"
    passive_aggressive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("aggressiveness", self.aggressiveness, above=0.0)


@dataclass(frozen=True)
class PassiveAggressive2(Schedule):
    """loss / (‖x‖² + ½ / aggressiveness): PA-II of Crammer et al. 2006, for the same losses as PA-I."""

    aggressiveness: float = 1.0
    name: ClassVar[str] = "pa2"
    passive_aggressive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("aggressiveness", self.aggressiveness, above=0.0)


SCHEDULES: dict[str, type[Schedule]] = {
    schedule.name: schedule
    for schedule in (Constant, Optimal, InvScaling, Adaptive, PassiveAggressive1, PassiveAggressive2)
}


def resolve(schedule: str | Schedule) -> Schedule:
    """The schedule of that name with its defaults, or the schedule itself."""
    return resolve_choice("schedule", schedule, SCHEDULES, Schedule)
