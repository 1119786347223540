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
seen often enough to be learnt, as in the real sets. The pilot rows also give t and the standard deviations (sd), of x·v
and of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from symsgd.data.twins.population import Floats, Labels, RowSampler, TwinSpec, add_product, labels, unit_rows

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
    def n_features(self) -> int:
        return self.n_values if self.bag else self.count * self.n_values


@dataclass(frozen=True, kw_only=True)
class OneHotSpec(TwinSpec):
    """Rows of fields; the module's docstring has the model."""

    fields: tuple[Fields, ...]
    n_factors: int
    factor_strength: float  # λ
    planted_values: int
    planted_strength: float  # τ

    def sampler(self, rng: Generator) -> RowSampler:
        return _sampler(self, rng)


class _Column(NamedTuple):
    """One field: the upper cuts of all its intervals but the last, and the feature of each, MISSING first."""

    cuts: Floats
    features: NDArray[np.int32]


@dataclass(frozen=True)
class _Table:
    columns: list[_Column]
    loadings: Floats  # ρ_j a_j, factors × fields
    noise: Floats  # √(1 − ρ_j²)
    numbers: NDArray[np.int64]
    bags: list[slice]
    n_features: int

    def draw(self, n: int, rng: Generator) -> tuple[sp.csr_matrix, Floats]:
        """n rows and their factors."""
        factors = rng.standard_normal((n, len(self.loadings)))
        position = rng.standard_normal((n, len(self.columns)))
        position *= self.noise
        add_product(position, factors, self.loadings)

        features = np.empty(position.shape, np.int32)
        for j, column in enumerate(self.columns):
            features[:, j] = column.features[np.searchsorted(column.cuts, position[:, j])]
        present = features != MISSING
        for bag in self.bags:  # all other fields have their features in order already
            tokens = features[:, bag]
            tokens.sort(axis=1)
            present[:, bag] = tokens != MISSING
            present[:, bag][:, 1:] &= tokens[:, 1:] != tokens[:, :-1]

        values = np.ones(position.shape, np.float32)
        for j in self.numbers:
            above = np.maximum(position[:, j] - self.columns[j].cuts[0], 0)
            values[:, j] = above / (1 + above)
        lengths = present.sum(axis=1)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        data = unit_rows(values[present], lengths)
        return sp.csr_matrix((data, features[present], starts), shape=(n, self.n_features)), factors


def _table(spec: OneHotSpec, rng: Generator) -> _Table:
    columns: list[_Column] = []
    directions: list[Floats] = []
    bags: list[slice] = []
    offset = 0
    for group in spec.fields:
        shared = _unit_vector(spec.n_factors, rng)
        if group.bag:
            bags.append(slice(len(columns), len(columns) + group.count))
            columns += [_column(group, group.missing[0], offset, rng)] * group.count
            directions += [group.loading * shared] * group.count
            offset += group.n_values
            continue
        for missing in np.linspace(*group.missing, group.count):
            columns.append(_column(group, missing, offset, rng))
            directions.append(group.loading * (shared if group.together else _unit_vector(spec.n_factors, rng)))
            offset += group.n_values
    if offset != spec.n_features:
        raise ValueError(f"the fields have {offset} features, not {spec.n_features}")
    each = np.repeat(np.array(spec.fields), [group.count for group in spec.fields])
    loading = np.array([field.loading for field in each])
    numbers = np.flatnonzero([field.numbers for field in each])
    return _Table(columns, np.stack(directions, axis=1), np.sqrt(1 - loading**2), numbers, bags, spec.n_features)


def _column(group: Fields, missing: float, offset: int, rng: Generator) -> _Column:
    order = rng.permutation(group.n_values)
    missing = max(missing, RAREST_MISSING)
    share = (np.arange(1, group.n_values + 1) + group.zipf_shift) ** -group.zipf_exponent
    below = missing + (1 - missing) * np.cumsum(share[order]) / share.sum()
    cuts = ndtri(np.concatenate([[missing], np.minimum(below[:-1], 1.0)]))
    return _Column(cuts, np.concatenate([[MISSING], offset + order]).astype(np.int32))


def _unit_vector(n: int, rng: Generator) -> Floats:
    vector = rng.standard_normal(n)
    vector /= np.sqrt((vector * vector).sum())
    return vector


def _sampler(spec: OneHotSpec, rng: Generator) -> RowSampler:
    table = _table(spec, rng)
    label_factors = spec.factor_strength * _unit_vector(spec.n_factors, rng)
    pilot, pilot_factors = table.draw(spec.chunk_rows, rng)

    presence = np.bincount(pilot.indices, minlength=spec.n_features) / spec.chunk_rows
    weight = (presence * (1 - presence)) ** 2
    planted = np.zeros(spec.n_features)
    chosen = rng.choice(spec.n_features, size=spec.planted_values, replace=False, p=weight / weight.sum())
    planted[chosen] = rng.standard_normal(spec.planted_values)
    planted *= spec.planted_strength / (pilot @ planted).std()

    def scores(X: sp.csr_matrix, factors: Floats) -> Floats:
        both: Floats = (factors * label_factors).sum(axis=1) + X @ planted
        return both

    spread = scores(pilot, pilot_factors).std()
    planted /= spread
    label_factors /= spread
    threshold = spec.threshold(spec.with_noise(scores(pilot, pilot_factors), rng))

    def rows(n: int, rng: Generator) -> tuple[sp.csr_matrix, Labels]:
        X, factors = table.draw(n, rng)
        return X, labels(spec.with_noise(scores(X, factors), rng), threshold)

    return rows
