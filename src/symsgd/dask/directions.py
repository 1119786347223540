"""The mean curvature of the loss at a model, from a sample of the rows (docs/curvature.md, "How H is estimated").

H = E[weight × h x̃ x̃ᵀ], x̃ = (x, √κ). Q are its sharpest directions over the most frequent features, by subspace
iterations, or all of them where there are few features. Several models share Q, which is that of their mean H, and have
a Λ and a c of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd.dask.merging import Curvature
from symsgd.losses import Loss
from symsgd.reference import losses as formulas

Array = npt.NDArray[Any]

MOST_PLACES = 4096  # features that Q has lines for
MOST_RANK = 64
MORE = 8  # vectors beyond the rank, so that the last directions converge as well
FEW_PLACES = 256  # features up to which all of H is factorised
FIRST_TURNS, LATER_TURNS = 4, 2
DROPPED = 1e-10  # directions with less than this share of the largest curvature are rounding


@dataclass(frozen=True)
class Sample:
    """Rows that workers have drawn: X (CSR or an array), targets as the losses read them (a line a model: ±1, or
    numbers), and weights (a line a model: sample × class)."""

    X: Any
    targets: Array
    weights: Array

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def _own(self) -> tuple[Any, Array | None]:
        """Rows without the features that none of them has, and which are left."""
        if not sp.issparse(self.X):
            return self.X, None
        features, places = np.unique(self.X.indices, return_inverse=True)
        rows = sp.csr_matrix((self.X.data, places, self.X.indptr), shape=(self.n_rows, max(1, len(features))))
        return rows, features if len(features) else np.zeros(1, np.int64)

    def predictions(self, coef: Array, intercept: Array) -> Array:
        """models × rows."""
        rows, features = self._own
        own = coef if features is None else coef[:, features]
        return np.asarray((rows @ own.T.astype(np.float64)).T + intercept[:, None])

    def loss(self, loss: Loss, predictions: Array) -> Array:
        """The mean of each model's."""
        values = formulas.value(loss, predictions, self.targets)
        return np.asarray((self.weights * values).mean(axis=1))

    def take(self, rows: Array) -> Sample:
        return Sample(self.X[rows], self.targets[:, rows], self.weights[:, rows])

    def slopes(self, loss: Loss, predictions: Array, step_size: float, drift: Array, kappa: float) -> Array:
        """weight × h, models × rows; where gradients jump h is their secant over what predictions may be off."""
        if loss.smooth:
            return self.weights * formulas.curvature(loss, predictions, self.targets)
        squares = self.X.multiply(self.X).sum(axis=1) if sp.issparse(self.X) else (self.X**2).sum(axis=1)
        reach = step_size * self.weights * (np.asarray(squares, np.float64).ravel() + kappa)
        delta = np.maximum(np.maximum(drift[:, None], reach / 2), 1e-12)
        rise = formulas.gradient(loss, predictions + delta, self.targets)
        rise = rise - formulas.gradient(loss, predictions - delta, self.targets)
        return np.asarray(self.weights * np.minimum(rise / (2 * delta), 1 / np.maximum(reach, 1e-12)))


class Estimator:
    """Estimates of H from one sample. Later ones begin with the directions of the last."""

    def __init__(self, sample: Sample, kappa: float, rank: int | None = None) -> None:
        self.sample, self.kappa = sample, kappa
        self.places = _frequent(sample.X)
        X = sample.X[:, self.places]
        self._X = X.tocsr().astype(np.float64) if sp.issparse(X) else np.asarray(X, np.float64)
        self._root = float(np.sqrt(kappa))
        most = len(self.places) + (1 if kappa else 0)
        self.rank = min(most, MOST_RANK if rank is None else rank)
        if rank is None and most <= 2 * MOST_RANK:
            self.rank = most  # all there is
        squares = sample.X.multiply(sample.X) if sp.issparse(sample.X) else sample.X**2
        self._squares = squares.astype(np.float64)
        counts = np.asarray((sample.X != 0).sum(axis=0)).ravel()
        self.known = np.flatnonzero(counts > 1)  # of the others one row in the sample says next to nothing
        self._squares = self._squares[:, self.known]
        self.Q: Array | None = None

    def estimate(self, slopes: Array) -> Curvature:
        """H for rows that count by ``slopes`` (models × rows)."""
        count = self.sample.n_rows
        shared = slopes.mean(axis=0) / count
        self.Q = self._exact(shared) if len(self.places) <= FEW_PLACES else self._iterated(shared)
        along = self._X @ self.Q[:-1] + self._root * self.Q[-1]
        sharpness = slopes / count @ along**2
        diagonal = np.asarray((self._squares.T @ (slopes / count).T).T)  # models × known
        at = np.searchsorted(self.known, self.places)
        there = (at < len(self.known)) & (
            self.known[np.minimum(at, max(0, len(self.known) - 1))] == self.places if len(self.known) else False
        )
        taken = sharpness @ (self.Q**2).T  # what Q has of the diagonal
        diagonal[:, at[there]] -= taken[:, :-1][:, there]
        own = slopes.mean(axis=1) * self.kappa - taken[:, -1]
        rest = np.maximum(0.0, np.column_stack([diagonal, own]))
        return Curvature(
            self.places, self.Q.astype(np.float32), sharpness, self.known, rest.astype(np.float32), self._root
        )

    def _exact(self, weights: Array) -> Array:
        X: Any = self._X
        X = X.toarray() if sp.issparse(X) else X
        whole = np.column_stack([X, np.full(len(X), self._root)])
        values, vectors = np.linalg.eigh(whole.T @ (weights[:, None] * whole))
        order = np.argsort(-values)[: self.rank]
        keep = values[order] > DROPPED * max(float(values.max()), 1e-300)
        return np.ascontiguousarray(vectors[:, order[keep]])

    def _iterated(self, weights: Array) -> Array:
        places = len(self.places)
        turns = LATER_TURNS
        if self.Q is None or self.Q.shape[1] == 0:
            turns = FIRST_TURNS
            Q = np.random.default_rng(0).standard_normal((places + 1, min(places + 1, self.rank + MORE)))
        else:
            fresh = np.random.default_rng(self.Q.shape[1]).standard_normal((places + 1, MORE))
            Q = np.hstack([self.Q, fresh])
        Q = _orthonormal(Q)
        for _ in range(turns):
            Q = _orthonormal(self._times(weights, Q))
        small = Q.T @ self._times(weights, Q)
        values, turn = np.linalg.eigh((small + small.T) / 2)
        order = np.argsort(-values)[: self.rank]
        keep = values[order] > DROPPED * max(float(values.max()), 1e-300)
        return np.ascontiguousarray(Q @ turn[:, order[keep]])

    def _times(self, weights: Array, Q: Array) -> Array:
        """H Q."""
        along = weights[:, None] * (self._X @ Q[:-1] + self._root * Q[-1])
        return np.vstack([self._X.T @ along, self._root * along.sum(axis=0)])


def _orthonormal(Q: Array) -> Array:
    """The same span with orthonormal columns, twice by the small matrix of products: a tall QR takes ten times as long.
    Directions that depend on the others become columns of zeros."""
    for _ in range(2):
        lengths = np.sqrt(np.maximum((Q**2).sum(axis=0), 1e-300))
        Q = Q / lengths
        values, turn = np.linalg.eigh(Q.T @ Q)
        there = values > 1e-12 * values[-1]
        Q = Q @ (turn * np.where(there, 1 / np.sqrt(np.where(there, values, 1.0)), 0.0))
    return np.asarray(Q)


def _frequent(X: Any) -> Array:
    """The features that most rows have, ascending."""
    if not sp.issparse(X):
        return np.arange(X.shape[1]) if X.shape[1] <= MOST_PLACES else _largest(np.asarray((X != 0).sum(axis=0)))
    return _largest(np.bincount(X.indices, minlength=X.shape[1]))


def _largest(counts: Array) -> Array:
    there = np.flatnonzero(counts)
    if len(there) <= MOST_PLACES:
        return there
    order = np.argsort(-counts[there], kind="stable")[:MOST_PLACES]
    return np.sort(there[order])
