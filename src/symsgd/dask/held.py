"""The model that a worker keeps from round to round, so that only what changed has to be sent to it.

A model is known by a number, and the next one follows from it and from the merged movement of a round. All workers, and
the client, make that step by the same function and so have the same bits. A worker that does not have the model a block
starts from says so, and the client sends it whole.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.dask.merging import Movement, advanced
from symsgd.dask.packing import Packed

Array = npt.NDArray[Any]

MOST_TRAININGS = 4  # that keep a model here at the same time: that of the one used longest ago goes first


class ModelMissingError(RuntimeError):
    """This worker has not the model that a block starts from."""


@dataclass(frozen=True)
class Model:
    """A model as it is sent whole."""

    weights: Packed
    intercept: Array
    gathered: Packed | None = None
    gathered_intercept: Array | None = None

    @property
    def nbytes(self) -> int:
        """Of what grows with the features."""
        return self.weights.nbytes + (0 if self.gathered is None else self.gathered.nbytes)


@dataclass(frozen=True)
class Version:
    """Which model of which training. ``before`` is the one that the movement of the last round leads on from,
    ``active`` are the classes that it moves."""

    training: str
    number: int
    before: int
    active: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """A model, and its number. The arrays are not changed any more."""

    number: int
    coef: Array
    intercept: Array


_held: OrderedDict[str, Held] = OrderedDict()
_merged: OrderedDict[str, tuple[int, Movement]] = OrderedDict()  # of the last round, and which it started from
_ended: deque[str] = deque(maxlen=64)  # trainings of which a block may still run here that nobody waits for
_lock, _merging = threading.Lock(), threading.Lock()


def merged_once(training: str, number: int, merge: Callable[[], Movement]) -> Movement:
    """The movement of the round that starts from that model, merged by the first who asks for it here."""
    with _merging:
        known = _merged.get(training)
        if known is None or known[0] != number:
            known = number, merge()
            if training in _ended:
                return known[1]
            _merged[training] = known
        _merged.move_to_end(training)
        while len(_merged) > MOST_TRAININGS:
            _merged.popitem(last=False)
        return known[1]


def model_at(
    version: Version, whole: Model | None, movement: Callable[[], Movement] | None, dtype: npt.DTypeLike
) -> Held:
    """The model of that number: the one that is here, the one that was sent, or the next after the one that is here."""
    with _lock:
        own = _held.get(version.training)
        if own is None or own.number != version.number:
            own = _next(version, whole, movement, own, dtype)
            if version.training in _ended:
                return own
            _held[version.training] = own
        _held.move_to_end(version.training)
        while len(_held) > MOST_TRAININGS:
            _held.popitem(last=False)
        return own


def _next(
    version: Version,
    whole: Model | None,
    movement: Callable[[], Movement] | None,
    own: Held | None,
    dtype: npt.DTypeLike,
) -> Held:
    if whole is not None:
        return Held(version.number, whole.weights.dense(dtype), np.array(whole.intercept))
    if own is None or own.number != version.before or movement is None:
        raise ModelMissingError(f"there is no model {version.before} of {version.training} on this worker")
    return Held(version.number, *advanced(own.coef, own.intercept, movement(), version.active))


def forget(training: str) -> None:
    """When it has ended."""
    with _lock, _merging:
        _held.pop(training, None)
        _merged.pop(training, None)
        _ended.append(training)
