"""Twins of wide tables of correlated numbers: all of them present (epsilon), or most of them zero (adclick).

A row is a sum of K factors and noise. With loadings g_kj ~ N(0, 1), but g_1j ~ N(m, 1), so that with m > 0 the first
factor is what all features have in common (how active a user is):

    strength     c_k ∝ k^−d,  Σ_k c_k² = 1
    number j     s_j = √h Σ_k c_k g_kj z_k / n_j + √(1 − h) e_j,  z_k, e_j ~ N(0, 1)

where n_j = √(Σ_k c_k² g_kj²), so s_j ~ N(0, 1), and the factors hold the share h of every variance.

    dense        x_j = s_j
    sparse       x_j = 1 + s_j − t_j where s_j > t_j, else 0;  P(s_j > t_j) is the density of feature j

A row is scaled to unit length. Its label follows a linear model on all features, and noise:

    score        u = x·v / sd,  v_j ~ N(0, 1)
    label        y = +1 if u + ε/γ > t, else −1;  ε ~ logistic

with sd and t from the pilot rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from symsgd._core import FactorPopulation
from symsgd.data.twins.population import Population, TwinSpec

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Densities:
    """``count`` features, the shares of rows that have them in equal steps from ``low`` to ``high``."""

    count: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class FactorSpec(TwinSpec):
    """Rows of correlated numbers; the module's docstring has the model. Without ``densities`` they are dense."""

    n_factors: int  # K
    decay: float  # d
    factor_share: float  # h
    common: float = 0.0  # m
    densities: tuple[Densities, ...] = ()

    def population(self, rng: Generator, n_threads: int) -> Population:
        native = FactorPopulation(
            loadings=_loadings(self, rng),
            cuts=_cuts(self, rng),
            noise=math.sqrt(1 - self.factor_share),
            planted=rng.standard_normal(self.n_features).astype(np.float32),
        )
        pilot = self.pilot(native, rng, n_threads)
        return Population(
            native, hidden=0.0, linear=1 / pilot.linear.std(), label_sharpness=self.label_sharpness
        ).with_threshold(pilot, self.positive_share)


def _loadings(spec: FactorSpec, rng: Generator) -> Singles:
    strength = np.arange(1.0, spec.n_factors + 1)[:, None] ** -spec.decay
    loadings = rng.standard_normal((spec.n_factors, spec.n_features))
    loadings[0] += spec.common
    loadings *= strength
    loadings *= np.sqrt(spec.factor_share / (loadings * loadings).sum(axis=0))
    return loadings.astype(np.float32)


def _cuts(spec: FactorSpec, rng: Generator) -> Singles | None:
    """t_j, in random order, so that a feature's number says nothing about its density."""
    if not spec.densities:
        return None
    density = np.concatenate([np.linspace(band.low, band.high, band.count) for band in spec.densities])
    cuts: Singles = ndtri(1 - rng.permutation(density)).astype(np.float32)
    return cuts
