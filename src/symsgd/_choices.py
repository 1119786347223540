"""What losses, penalties, schedules and strategies share: a name, checked parameters, a lookup that lists them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, TypeVar


@dataclass(frozen=True)
class Choice:
    """A named choice with checked parameters."""

    name: ClassVar[str]


C = TypeVar("C", bound=Choice)


def resolve_choice(argument: str, value: object, known: Mapping[str, type[C]], kind: type[C]) -> C:
    """``value`` itself if it is a ``kind``, else the choice of that name with its defaults."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in known:
        return known[value]()
    names = ", ".join(repr(name) for name in sorted(known))
    raise ValueError(
        f"{argument}={value!r} is not known; accepted are {names}, "
        f"or an instance of symsgd.{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    )


def check_number(
    argument: str,
    value: object,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """``value`` as a float, if it is a finite number in the range; a ValueError or TypeError that says so if not."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{argument}={value!r} is not a number")
    number = float(value)
    if math.isfinite(number) and number > above and at_least <= number <= at_most:
        return number
    bounds = [f"> {above:g}"] if above > -math.inf else []
    bounds += [f">= {at_least:g}"] if at_least > -math.inf else []
    bounds += [f"<= {at_most:g}"] if at_most < math.inf else []
    raise ValueError(
        f"{argument}={value!r} is not accepted; it must be a finite number {' and '.join(bounds)}".rstrip()
    )


def check_count(argument: str, value: object, at_most: int = 2**31 - 1, at_least: int = 1, auto: bool = False) -> int:
    """``value`` as an int, if it is a whole number in the range; a ValueError that says so if not. ``auto``: the caller
    takes "auto" too, and the message names it."""
    if isinstance(value, Integral) and not isinstance(value, bool) and at_least <= int(value) <= at_most:
        return int(value)
    bound = f">= {at_least}"
    if isinstance(value, Integral) and int(value) > at_most:
        bound += f" and <= {at_most}"
    also = "'auto' or " if auto else ""
    raise ValueError(f"{argument}={value!r} is not accepted; it must be {also}an integer {bound}")
