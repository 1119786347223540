"""The merge of workers' blocks: a pure function of two stretches of blocks that follow each other.

A block starts from the round's model w and ends at S. With a the sum of its step sizes, keep what L2 leaves of a
weight, and H ≈ Q Λ Qᵀ + (I − QQᵀ) diag(c) (I − QQᵀ) the mean curvature of the loss (docs/curvature.md), what it does to
a change d of its start is

    M d = keep (Q e^{−aΛ} u + e^{−ac} ∘ v),     d = Q u + v

so that a stretch of blocks is known by four things, however long it is: Π keep, Σ a, and the pair (u, v) where its own
chain ends. A stretch after another is again one:

    keep = keep₁ keep₂     a = a₁ + a₂     u = u₂ + keep₂ e^{−a₂Λ} u₁     v = v₂ + keep₂ e^{−a₂c} ∘ v₁

Maps compose associatively, so any tree over the blocks in their order gives the same stretch, up to rounding. Ours is
fixed by the number of blocks (:func:`tree`), and with it the bits. The new model is keep w + Q u + v.

The intercept b is the weight b/√κ of a feature that is √κ in every row; L2 leaves it alone. Sums are stretches without
curvature: nothing fades.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.dask.packing import Packed, added, pack_columns, piece

Array = npt.NDArray[Any]

ARITY = 8  # stretches that one task joins: a task of the scheduler costs more than seven merges of small models


@dataclass(frozen=True)
class Curvature:
    """H of each model. ``Q`` ((places + 1) × rank, the intercept last) is that of all models, ``sharpness`` (Λ) and
    ``rest`` (c, of the features ``known`` and of the intercept last) are a line a model. ``root`` is √κ."""

    places: Array
    Q: Array
    sharpness: Array
    known: Array
    rest: Array
    root: float

    @staticmethod
    def flat(n_models: int, root: float) -> Curvature:
        """Without any curvature: stretches add up."""
        nothing = np.zeros(0, np.int64)
        return Curvature(
            nothing, np.zeros((1, 0), np.float32), np.zeros((n_models, 0)), nothing, np.zeros((n_models, 1)), root
        )

    @property
    def rank(self) -> int:
        return int(self.Q.shape[1])

    @property
    def nbytes(self) -> int:
        return int(sum(part.nbytes for part in (self.places, self.Q, self.sharpness, self.known, self.rest)))


@dataclass(frozen=True)
class Movement:
    """What rows have done to the model they started from: S = keep × start + change, in ``log_kept`` the logarithm of
    keep by model. ``lost`` is the sum of losses by model, over ``rows`` rows. ``diverged``: not a finite model."""

    change: Packed
    intercept: Array
    log_kept: Array
    steps: Array
    lost: Array
    rows: int
    diverged: bool = False
    gathered: Packed | None = None  # AdaGrad: the sums of squared gradients
    gathered_intercept: Array | None = None
    seconds: float = 0.0  # that a worker's core took

    @property
    def nbytes(self) -> int:
        """Of what grows with the model."""
        return self.change.nbytes


@dataclass(frozen=True)
class Stretch:
    """Blocks that follow each other, merged: Π keep (its logarithm), Σ a, u (``along``) and v (``rest``)."""

    log_kept: Array
    steps: Array
    along: Array
    rest: Packed
    intercept: Array  # v of the intercept, as a weight
    lost: Array
    rows: int
    blocks: int = 1
    diverged: bool = False
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        """Of what grows with the model."""
        return self.rest.nbytes + int(self.along.nbytes)


def stretch_of(movement: Movement, curvature: Curvature, *, overwrite: bool = False) -> Stretch:
    """A block as a stretch: u = Qᵀs, v = s − Qu. With ``overwrite`` v may take the place of s."""
    intercept = movement.intercept / curvature.root if curvature.root else np.zeros_like(movement.intercept)
    own = Stretch(
        movement.log_kept, movement.steps, np.zeros((len(intercept), curvature.rank)), movement.change, intercept,
        movement.lost, movement.rows, diverged=movement.diverged, seconds=movement.seconds,
    )  # fmt: skip
    if movement.diverged or curvature.rank == 0:
        return own
    at_places = movement.change.at(curvature.places)
    along = (at_places @ curvature.Q[:-1]).astype(np.float64) + intercept[:, None] * curvature.Q[-1]
    rest = _with_columns(movement.change, curvature.places, at_places - _back(along, curvature), overwrite)
    return replace(own, along=along, rest=rest, intercept=intercept - along @ curvature.Q[-1])


def joined(first: Stretch, second: Stretch, curvature: Curvature) -> Stretch:
    """``second`` after ``first``."""
    kept = np.exp(second.log_kept)
    fading = kept[:, None] * np.exp(-second.steps[:, None] * curvature.sharpness)
    faded = _faded(first.rest, curvature, kept, second.steps)
    return Stretch(
        log_kept=first.log_kept + second.log_kept,
        steps=first.steps + second.steps,
        along=second.along + fading * first.along,
        rest=added(faded, second.rest, overwrite=True),
        intercept=second.intercept + np.exp(-second.steps * curvature.rest[:, -1]) * first.intercept,
        lost=first.lost + second.lost,
        rows=first.rows + second.rows,
        blocks=first.blocks + second.blocks,
        diverged=first.diverged or second.diverged,
        seconds=first.seconds + second.seconds,
    )


def reduced(stretches: Sequence[Stretch], curvature: Curvature) -> Stretch:
    """Those that follow each other as one, from the left."""
    whole = stretches[0]
    for stretch in stretches[1:]:
        whole = joined(whole, stretch, curvature)
    return whole


def movement_of(stretch: Stretch, curvature: Curvature, *, overwrite: bool = False) -> Movement:
    """What the blocks have done to the model that they all started from, Q u + v, of the weights and of the intercepts
    themselves. With ``overwrite`` it may take the place of v."""
    weights, intercept = stretch.rest, stretch.intercept
    if curvature.rank:
        at_places = stretch.rest.at(curvature.places) + _back(stretch.along, curvature)
        weights = _with_columns(stretch.rest, curvature.places, at_places, overwrite)
        intercept = intercept + stretch.along @ curvature.Q[-1]
    return Movement(
        weights, intercept * curvature.root, stretch.log_kept, stretch.steps, stretch.lost, stretch.rows,
        stretch.diverged, seconds=stretch.seconds,
    )  # fmt: skip


def advanced(coef: Array, intercept: Array, movement: Movement, active: Sequence[int]) -> tuple[Array, Array]:
    """The model after a movement of these classes. Others keep theirs."""
    out, kept = np.empty_like(coef), np.exp(movement.log_kept)[:, None].astype(coef.dtype)
    length = piece(len(out))
    for own in (np.s_[:, begin : begin + length] for begin in range(0, out.shape[1], length)):
        np.multiply(coef[own], kept, out=out[own])
        if movement.change.indices is None:
            out[own] += movement.change.values[own]
    if movement.change.indices is not None:
        movement.change.add_to(out)
    after = intercept + movement.intercept
    stopped = [c for c in range(len(coef)) if c not in active]
    out[stopped], after[stopped] = coef[stopped], intercept[stopped]
    return out, after


def tree(n_blocks: int) -> list[list[list[int]]]:
    """The levels of the reduction: groups of what the level before has made, from left to right.

    The last block is alone until the end, where it follows all others: a check of a round needs the stretch before it.
    """
    levels: list[list[list[int]]] = []
    count = n_blocks - 1
    while count > 1:
        levels.append([list(range(begin, min(begin + ARITY, count))) for begin in range(0, count, ARITY)])
        count = len(levels[-1])
    return levels


def _back(along: Array, curvature: Curvature) -> Array:
    """Q u at the places, in float32 as Q is: in float64 the product would make a copy of all of Q first."""
    product: Array = along.astype(np.float32) @ curvature.Q[:-1].T
    return product


def _with_columns(packed: Packed, features: Array, values: Array, overwrite: bool) -> Packed:
    """The same, but for these values of these features (ascending)."""
    if packed.indices is None:
        out = packed.values if overwrite else packed.values.copy()
        out[:, features] = values
        return Packed(packed.n_features, out)
    others = ~np.isin(packed.indices, features, assume_unique=True)
    indices = np.concatenate([packed.indices[others], features])
    order = np.argsort(indices, kind="stable")
    columns = np.hstack([packed.values[:, others], values.astype(np.float32)])
    return pack_columns(packed.n_features, indices[order], columns[:, order])


def _faded(rest: Packed, curvature: Curvature, kept: Array, steps: Array) -> Packed:
    """keep e^{−ac} ∘ v."""
    values = rest.values * kept[:, None].astype(np.float32)
    if len(curvature.known):
        fading = np.exp(-steps[:, None] * curvature.rest[:, :-1]).astype(np.float32)
        if rest.indices is None:
            values[:, curvature.known] *= fading
        elif len(rest.indices):
            where = np.minimum(np.searchsorted(rest.indices, curvature.known), len(rest.indices) - 1)
            there = rest.indices[where] == curvature.known
            values[:, where[there]] *= fading[:, there]
    return Packed(rest.n_features, values, rest.indices)
