"""How much a measure may differ between two runs by chance.

Times are compared as logarithms of the fastest repeat, so that a difference δ is a ratio; other numbers as they are, by
the median of their repeats. A difference counts when it is beyond all of

* a floor: what nobody should be told of;
* the repeats' own scatter, of both runs; that of times by how far the fastest is from the middle. A few repeats say
  little of it, so each row's variance is drawn towards that of its like, s² = (d₀ s₀² + d s²) / (d₀ + d), and held
  against Student's quantile;
* the scatter of the differences of all its like, which is what two runs differ by where nothing has changed:
  1.4826 · median |δ - median δ|, which a few rows that did change leave as it is.

Quantiles are for a chance of `ALARMS` that any of the run's N measures is reported where nothing has changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, variance
from typing import Literal

from scipy.special import ndtri, stdtrit

Kind = Literal["time", "rate", "ratio", "value"]

ALARMS = 0.01
PRIOR = 4.0  # d₀: how many repeats' worth the variance of its like is
ENOUGH = 8  # differences from which their scatter can be told
FLOOR_OFTEN, FLOOR_ONCE, FLOOR_BLIND = math.log(1.05), math.log(1.10), math.log(1.25)
FLOOR_VALUE, FLOOR_ZERO = 1e-5, 1e-6  # relative, absolute
FLOOR_RACES = 1e-2  # relative, for scores where threads race and there are few repeats
SCORES = ("auc", "accuracy", "r2", "log_loss", "objective")  # far from 0, so that a race moves them by little

# systems, by how their names begin, whose threads do not race: the same seed gives the same model
IN_ROUNDS = (
    "sequential", "auto", "symsgd", "curvature", "mr-symsgd", "map-reduce", "mapreduce", "averag", "allreduce",
    "scikit-learn", "liblinear", "newton", "lapack",
)  # fmt: skip


def kind_of(measure: str) -> Kind:
    """What a measure is, by its name: ``rows_per_second`` is a rate, ``seconds_to_1_percent`` a time."""
    if "per_second" in measure or "bandwidth" in measure:
        return "rate"
    if "speedup" in measure or "speed_up" in measure:
        return "ratio"
    return "time" if "seconds" in measure else "value"


def higher_is_better(measure: str) -> bool | None:
    """None if it is not known."""
    if kind_of(measure) in ("rate", "ratio") or any(name in measure for name in ("auc", "accuracy", "r2")):
        return True
    if kind_of(measure) == "time" or any(name in measure for name in ("distance", "loss", "objective", "difference")):
        return False
    return None


def races(system: str, threads: int) -> bool:
    """Whether two runs with the same seed may end with different models."""
    name = system.lower()
    return threads > 1 and (not name.startswith(IN_ROUNDS) or "hogwild" in name or "async" in name)


@dataclass(frozen=True)
class Pair:
    """The repeats of one measure of one row, in both runs."""

    measure: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    races: bool = False

    @property
    def kind(self) -> Kind:
        kind = kind_of(self.measure)
        return kind if kind == "value" or min(*self.before, *self.after) > 0 else "value"

    @property
    def centres(self) -> tuple[float, float]:
        """What is compared: other programs can only make a time longer and a rate smaller."""
        best = {"time": min, "rate": max}.get(self.kind, median)
        return float(best(self.before)), float(best(self.after))

    @property
    def difference(self) -> float:
        """As the logarithm of a ratio, or relative to the larger of the two."""
        before, after = self.centres
        if self.kind != "value":
            return math.log(after / before)
        scale = max(abs(before), abs(after))
        return (after - before) / scale if scale else 0.0

    @property
    def repeats_less_two(self) -> int:
        return len(self.before) + len(self.after) - 2

    @property
    def variance(self) -> float | None:
        """Of one repeat, from both runs; None if nothing was repeated."""
        if not self.repeats_less_two:
            return None
        scale = max(map(abs, self.centres)) or 1.0
        summed = 0.0
        for own in (self.before, self.after):
            if len(own) > 1:
                summed += (len(own) - 1) * self._variance_within(own, scale)
        return summed / self.repeats_less_two

    def _variance_within(self, repeats: Sequence[float], scale: float) -> float:
        if self.kind == "value":
            return variance([value / scale for value in repeats])
        logarithms = [math.log(value) for value in repeats]
        if self.kind == "ratio":
            return variance(logarithms)
        best = min(logarithms) if self.kind == "time" else max(logarithms)
        gap = abs(best - median(logarithms))  # one repeat in a busy moment does not matter
        return (gap / -float(ndtri((1 - 0.375) / (len(repeats) + 0.25)))) ** 2  # the gap of normal numbers, by Blom

    @property
    def floor(self) -> float:
        """The least relative difference to be told of, whatever the scatter."""
        repeated = min(len(self.before), len(self.after))
        if self.kind != "value":
            return FLOOR_OFTEN if repeated >= 3 else FLOOR_ONCE
        scale = max(map(abs, self.centres)) or 1.0
        blind = 0.0
        if self.races and repeated < 3:  # what is near 0 may be anything
            blind = FLOOR_RACES if self.measure in SCORES else math.inf
        return max(FLOOR_VALUE, FLOOR_ZERO / scale, blind)


@dataclass(frozen=True)
class Drift:
    """By how much all times of a run are longer: the logarithm, and whether it is more than noise."""

    amount: float
    beyond_noise: bool


def drift_of(pairs: Sequence[Pair]) -> Drift:
    """The median difference of times, and of rates with the sign turned; none if there are too few to tell."""
    found = [_slowdown(pair) for pair in pairs if pair.kind in ("time", "rate")]
    if len(found) < ENOUGH:
        return Drift(0.0, False)
    amount = median(found)
    error = 1.2533 * _deviation(found) / math.sqrt(len(found))  # of a median of normal numbers
    return Drift(amount, abs(amount) > max(FLOOR_OFTEN, _beyond(1) * error))


def without(drift: Drift, pair: Pair) -> float:
    """A pair's difference, less what the whole run has drifted."""
    sign = {"time": 1.0, "rate": -1.0}.get(pair.kind, 0.0)
    return pair.difference - sign * drift.amount


@dataclass(frozen=True)
class Scatter:
    """What measures that are alike in their noise say together; None where they say nothing."""

    of_repeats: float | None  # the median variance
    of_differences: float | None  # the standard deviation

    @staticmethod
    def among(like: Sequence[Pair], drift: Drift) -> Scatter:
        variances = [own for pair in like if (own := pair.variance) is not None]
        enough = len(like) >= ENOUGH
        return Scatter(
            of_repeats=median(variances) if variances else None,
            of_differences=_deviation([without(drift, pair) for pair in like]) if enough else None,
        )


def noise_of(pair: Pair, scatter: Scatter, number: int) -> float:
    """What ``pair`` may differ by, relative, by chance. ``scatter`` is that of its like; ``number`` is how many
    are looked at in all."""
    bounds = [pair.floor]
    if scatter.of_repeats is not None:
        own, repeats = pair.variance, pair.repeats_less_two
        pooled = (PRIOR * scatter.of_repeats + repeats * (own or 0.0)) / (PRIOR + repeats)
        deviation = math.sqrt(pooled * (1 / len(pair.before) + 1 / len(pair.after)))
        bounds.append(-float(stdtrit(PRIOR + repeats, ALARMS / (2 * number))) * deviation)
    if scatter.of_differences is not None:
        bounds.append(_beyond(number) * scatter.of_differences)
    elif scatter.of_repeats is None and pair.kind != "value":
        bounds.append(FLOOR_BLIND)
    return max(bounds)


def _slowdown(pair: Pair) -> float:
    return pair.difference if pair.kind == "time" else -pair.difference


def _beyond(number: int) -> float:
    return -float(ndtri(ALARMS / (2 * number)))


def _deviation(differences: Sequence[float]) -> float:
    """The standard deviation that normal numbers with this median distance from their median have."""
    middle = median(differences)
    return 1.4826 * median(abs(own - middle) for own in differences)
