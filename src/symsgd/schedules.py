"""The step sizes: choices with names. t counts the steps taken, from 1, across calls that continue a training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

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
class Linear(Schedule):
    """``step_size`` · max(0, 1 − (t − ``first``) / ``n_steps``): falls to 0 on a straight line.

    By default over all passes that `symsgd.train` is asked for, from its first step on, and from the largest step that
    the curvature of the loss allows (:mod:`symsgd.step_sizes`): nothing is left to choose but the passes. With
    ``n_steps`` the line goes on across calls that continue a training.
    """

    step_size: float | Literal["auto"] = "auto"
    n_steps: float | None = None
    first: float = 1.0
    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        if self.step_size != "auto":
            if isinstance(self.step_size, str):
                raise ValueError(f"step_size={self.step_size!r} is not accepted; it must be 'auto' or a number > 0")
            check_number("step_size", self.step_size, above=0.0)
        if self.n_steps is not None:
            check_number("n_steps", self.n_steps, at_least=1.0)
        check_number("first", self.first, at_least=1.0)

    def over(self, first: float, n_steps: float) -> Linear:
        """Over these steps, unless it says of its own over how many."""
        return self if self.n_steps is not None else replace(self, first=first, n_steps=n_steps)


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
    for schedule in (Constant, Optimal, InvScaling, Linear, Adaptive, PassiveAggressive1, PassiveAggressive2)
}


def resolve(schedule: str | Schedule) -> Schedule:
    """The schedule of that name with its defaults, or the schedule itself."""
    return resolve_choice("schedule", schedule, SCHEDULES, Schedule)
