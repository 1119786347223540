"""Twins of tables of categories (criteo) and of flags, categories and bags of tokens (url).

A row has hidden factors z ~ N(0, I): who the user is, what the page is about. Field j looks at them through a random
unit vector a_j, and through noise:

    position     s_j = ρ_j a_j·z + √(1 − ρ_j²) e_j,  e_j ~ N(0, 1), so s_j ~ N(0, 1)

The line is cut into intervals, one for each value of the field and one, the lowest, for "missing"; the value of the
field is the interval that s_j falls into. Their probabilities are the share of missing ones, μ_j, and for the value of
rank r (1 − μ_j) times a Zipf–Mandelbrot law, ∝ (r + q)^−s; the values lie on the line in random order. So any
cardinality costs one search in a table of its size, and fields are as correlated as their ρ a are alike. Values are
numbered by rank, as in a dictionary filled while reading.

    a flag       a field of one value: present if s_j is above the cut
    a block      flags with one a: they come together
    a bag        fields with one a and one vocabulary, a token each; a token twice is one nonzero
    a number     a flag of value (s_j − cut) / (1 + s_j − cut), in place of 1

A row is scaled to unit length. Its label follows the factors, a sparse linear model and noise:

    score        u = (λ b·z + τ x·v / sd) / sd,  b a random unit vector
    label        y = +1 if u + ε/γ > t, else −1;  ε ~ logistic

with v ~ N(0, 1) on ``planted_values`` features, drawn by p² (1 − p)², p their share of the pilot rows: what decides is
seen often enough to be learnt, as in the real sets. More pilot rows give t and the standard deviations (sd), of x·v and
of the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from symsgd._core import OneHotPopulation
from symsgd.data.dataset import SparseColumns
from symsgd.data.twins.population import Floats, Population, TwinSpec

MISSING = -1
RAREST_MISSING = 1e-3  # a field that is never missing would have its cut at −∞, and numbers could not be read off it


@dataclass(frozen=True, kw_only=True)
class Fields:
    """``count`` fields alike; ``missing`` is the share of the first and of the last, those between in equal steps.

    The fields of a bag all have the share of the first.
    """

    count: int = 1
    n_values: int = 1
    missing: tuple[float, float] = (0.0, 0.0)
    zipf_shift: float = 0.0  # q
    zipf_exponent: float = 1.0  # s
    loading: float = 0.5  # ρ
    together: bool = False  # one a for all: a block
    bag: bool = False  # one a and one vocabulary for all
    numbers: bool = False

    @property
    def kind(self) -> str:
        """What the core calls them."""
        if self.bag:
            return "bag"
        if self.n_values > 1:
            return "categories"
        return "numbers" if self.numbers else "flags"


@dataclass(frozen=True, kw_only=True)
class OneHotSpec(TwinSpec):
    """Rows of fields; the module's docstring has the model."""

    fields: tuple[Fields, ...]
    n_factors: int
    factor_strength: float  # λ
    planted_values: int
    planted_strength: float  # τ

    def population(self, rng: Generator, n_threads: int) -> Population:
        return _population(self, rng, n_threads)


class _Intervals(NamedTuple):
    """What a field makes of a position: the upper cuts of all its intervals but the last, and the feature of each."""

    cuts: Floats
    features: NDArray[np.int32]  # MISSING first


@dataclass
class _Fields:
    """All fields of a row, in order."""

    intervals: list[_Intervals]
    field_intervals: list[int]  # which of them each field has
    runs: list[tuple[str, int, int]]  # what the fields from the one number to the other are
    directions: list[Floats]  # ρ_j a_j
    noise: list[float]  # √(1 − ρ_j²)


def _fields(spec: OneHotSpec, rng: Generator) -> _Fields:
    fields = _Fields([], [], [], [], [])
    offset = 0
    for group in spec.fields:
        shared = _unit_vector(spec.n_factors, rng)
        begin = len(fields.noise)
        fields.runs.append((group.kind, begin, begin + group.count))
        fields.noise += [math.sqrt(1 - group.loading**2)] * group.count
        for missing in np.linspace(*group.missing, group.count):
            if not group.bag or len(fields.field_intervals) == begin:
                fields.intervals.append(_intervals(group, missing, offset, rng))
                offset += group.n_values
            alone = not (group.bag or group.together)
            fields.directions.append(group.loading * (_unit_vector(spec.n_factors, rng) if alone else shared))
            fields.field_intervals.append(len(fields.intervals) - 1)
    if offset != spec.n_features:
        raise ValueError(f"the fields have {offset} features, not {spec.n_features}")
    return fields


def _intervals(group: Fields, missing: float, offset: int, rng: Generator) -> _Intervals:
    order = rng.permutation(group.n_values)
    missing = max(missing, RAREST_MISSING)
    share = (np.arange(1, group.n_values + 1) + group.zipf_shift) ** -group.zipf_exponent
    below = missing + (1 - missing) * np.cumsum(share[order]) / share.sum()
    cuts = ndtri(np.concatenate([[missing], np.minimum(below[:-1], 1.0)]))
    return _Intervals(cuts, np.concatenate([[MISSING], offset + order]).astype(np.int32))


def _unit_vector(n: int, rng: Generator) -> Floats:
    vector = rng.standard_normal(n)
    vector /= np.sqrt((vector * vector).sum())
    return vector


def _population(spec: OneHotSpec, rng: Generator, n_threads: int) -> Population:
    fields = _fields(spec, rng)
    native = OneHotPopulation(
        intervals=fields.intervals,
        field_intervals=fields.field_intervals,
        runs=fields.runs,
        loadings=np.stack(fields.directions, axis=1),
        noise=np.array(fields.noise),
        label=spec.factor_strength * _unit_vector(spec.n_factors, rng),
    )
    pilot = spec.pilot(native, rng, n_threads)
    assert isinstance(pilot.rows, SparseColumns)
    presence = np.bincount(pilot.rows.indices, minlength=spec.n_features) / spec.chunk_rows
    weight = (presence * (1 - presence)) ** 2
    planted = np.zeros(spec.n_features)
    chosen = rng.choice(spec.n_features, size=spec.planted_values, replace=False, p=weight / weight.sum())
    planted[chosen] = rng.standard_normal(spec.planted_values)
    native.plant(planted)

    pilot = spec.pilot(native, rng, n_threads)
    linear = spec.planted_strength / pilot.linear.std()
    spread = (pilot.hidden + linear * pilot.linear).std()
    return Population(
        native, hidden=1 / spread, linear=linear / spread, label_sharpness=spec.label_sharpness
    ).with_threshold(pilot, spec.positive_share)
