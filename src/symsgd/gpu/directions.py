"""The sharpest directions of the rows, which rounds follow exactly, and what is known of the rest.

H = E[x xᵀ] over a sample of the rows; the curvature of the loss scales it, and is measured while it trains. Its first
eigenvectors come from subspace iterations, which are matrix products and small factorisations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from symsgd.gpu.machine import Array, Directions, Machine

SAMPLE = 8192  # rows
MOST_PLACES = 2048  # features that directions of sparse rows have
PAIRS = 1024  # rows whose products with each other are looked at
USUAL_RANK = 64
MORE = 8  # vectors beyond the rank, so that the last directions converge as well
ITERATIONS = 6


def find(machine: Machine, sample: Array, rank: int, kappa: float, n_features: int | None = None) -> Directions:
    """Directions of the rows in ``sample`` and of the intercept, whose share of the step is ``kappa``: one more than
    ``rank``; without those of any rows along them. ``n_features`` of its columns count, if the rest is padding.

    The intercept is sharp itself, and where features are not centred it is sharp together with them: directions that
    were found without it are turned until neither depends on the other."""
    xp = machine.xp
    count, features = sample.shape[0], n_features or sample.shape[1]
    rank = min(rank, features)
    width = min(features, rank + MORE)
    start = np.random.default_rng(0).standard_normal((features, width))
    start = np.vstack([start, np.zeros((sample.shape[1] - features, width))])
    V = _orthonormal(machine, machine.asarray(start, sample.dtype))
    for _ in range(ITERATIONS):
        V = _orthonormal(machine, sample.T @ (sample @ V) / count)
    along = sample @ V
    small = machine.to_host(along.T @ along).astype(np.float64) / count
    values, turn = np.linalg.eigh((small + small.T) / 2)
    order = np.argsort(-values)[:rank]
    values = np.maximum(values[order], 0.0)
    V = xp.ascontiguousarray(V @ machine.asarray(turn[:, order], sample.dtype))
    trace = float((sample**2).sum(dtype=np.float64)) / count
    tail = max(0.0, trace - float(values.sum())) / (features - rank) if features > rank else 0.0
    mean = machine.to_host(along.mean(axis=0)).astype(np.float64) @ turn[:, order]
    sharp = np.zeros((rank + 1, rank + 1))
    sharp[:rank, :rank] = np.diag(values)
    sharp[rank, :rank] = sharp[:rank, rank] = np.sqrt(kappa) * mean
    sharp[rank, rank] = kappa
    sharpness, turned = (part[..., ::-1] for part in np.linalg.eigh(sharp))
    found = Directions(
        V=xp.ascontiguousarray(V @ machine.asarray(turned[:rank], sample.dtype)),
        turn=machine.asarray(np.sqrt(kappa) * turned[rank], sample.dtype),
        sharpness=machine.asarray(np.maximum(sharpness, 0.0), sample.dtype),
        along=V[:0],
        tail=tail,
        squares=0.0,
    )
    pairs = sample[:PAIRS]
    return replace(found, squares=_typical_product(machine, pairs @ pairs.T + kappa, pairs @ found.V + found.turn))


def find_sparse(machine: Machine, sample: Any, rank: int, kappa: float) -> tuple[Directions, Array]:
    """Directions over the most frequent features of these rows of the host, and which line of V each feature has.

    Outside of them nothing is taken to fade: a rare feature meets few rows of a round.
    """
    counts = np.bincount(sample.indices, minlength=sample.shape[1])
    places = np.flatnonzero(counts)
    if len(places) > MOST_PLACES:
        places = np.sort(np.argpartition(-counts, MOST_PLACES)[:MOST_PLACES])
    places = places if len(places) else np.zeros(1, np.int64)
    place_of = np.full(sample.shape[1], -1, np.int32)
    place_of[places] = np.arange(len(places))
    dense = machine.asarray(sample[:, places].toarray())
    found = find(machine, dense, rank, kappa)
    products = machine.asarray((sample[:PAIRS] @ sample[:PAIRS].T).toarray()) + kappa
    squares = _typical_product(machine, products, dense[:PAIRS] @ found.V + found.turn)
    where = machine.asarray(places, np.dtype(np.int32))
    return replace(found, tail=0.0, squares=squares, places=where), place_of


def _orthonormal(machine: Machine, V: Array) -> Array:
    """The same span with orthonormal columns: twice by Cholesky's factors of the small matrix of products."""
    for _ in range(2):
        products = machine.to_host(V.T @ V).astype(np.float64)
        scale = np.sqrt(np.maximum(np.diag(products), np.finfo(np.float32).tiny))
        values, turn = np.linalg.eigh(products / np.outer(scale, scale))
        keep = turn / np.sqrt(np.maximum(values, 1e-10)) / scale[:, None]
        V = V @ machine.asarray(keep, V.dtype)
    return V


def _typical_product(machine: Machine, products: Array, along: Array) -> float:
    """√Σλ² of the directions that are not followed: the typical product of two different rows, less that of their
    parts ``along`` those that are. Pairs, since the product of a row with itself says nothing about others."""
    count = len(products)
    if count < 2:
        return 0.0
    squares = (products - along @ along.T) ** 2
    total = float(squares.sum(dtype=np.float64)) - float(machine.xp.diagonal(squares).sum(dtype=np.float64))
    return float(np.sqrt(max(0.0, total) / (count * (count - 1))))
