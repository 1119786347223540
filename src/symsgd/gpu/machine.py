"""What a machine is that trains dense rows: arrays, and two kernels that go through a pass."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = Any  # of NumPy or CuPy


@dataclass(frozen=True)
class Csr:
    """Sparse rows on the machine: numbers, features (int32), and where rows begin (int64)."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = np.dtype(self.data.dtype)
        return kind


@dataclass(frozen=True)
class Targets:
    """Targets and weights in the order of a stretch. ``class_id`` is None where there is one model."""

    label: Array
    weight: Array | None
    positive_weight: Array
    negative_weight: Array
    class_id: Array | None


@dataclass(frozen=True)
class Stretch:
    """Rows in the order of a pass, or a part of it.

    ``rows`` are their numbers in ``X``. ``step`` has their step sizes and ``decay``
    the logarithms of what L2 has left of the weights before each and after the last; one line of each for all models,
    or one a model.
    """

    X: Array
    rows: Array
    targets: Targets
    step: Array
    decay: Array

    @property
    def count(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Step:
    """What is the same for all steps: the loss, the intercept's share κ and pull ν, and 1 or 2 for PA-I and PA-II."""

    loss: str
    epsilon: float
    kappa: float
    pull: float
    passive_aggressive: int = 0


@dataclass
class Model:
    """Weights (models × features), intercepts (float64), and how much gradients change with predictions, by model."""

    w: Array
    intercept: Array
    slope: Array


@dataclass(frozen=True)
class Directions:
    """The sharpest directions of the data, the intercept counted as a feature that is √κ in every row: V (features ×
    rank) and ``turn`` = √κ × what they have of that feature, λ, and their products with the rows of ``Stretch.X``, the
    intercept's part included. ``tail`` is the mean λ of all others, ``squares`` the root of the sum of their λ²: the
    typical product of two rows outside of V."""

    V: Array
    turn: Array
    sharpness: Array
    along: Array
    tail: float
    squares: float
    places: Array | None = None  # the features that V has a line for; None: all

    @property
    def rank(self) -> int:
        return int(self.V.shape[1])


@dataclass
class Control:
    """How many rows the blocks of a round have, and what came of them (kernels/rounds.cu)."""

    rows: int
    adapts: bool
    most: int
    tolerance: float
    sweeps: int = 0
    too_large: int = 1 << 30
    strikes: int = 0
    since: int = 1
    between: int = 1
    ratio: float = 1.0
    errors: float = 0.0
    checks: int = 0
    rounds: int = 0
    sweeps_made: int = 0
    stuck: int = 0
    done: int = 0


class Machine(Protocol):
    """``xp`` is the module of its arrays. Both kernels change the model in place and return, by model, the sum of the
    losses of rows before their steps."""

    xp: Any
    name: str
    blocks: int  # that train at once

    def asarray(self, array: Any, dtype: np.dtype[Any] | None = None) -> Array: ...
    def upload(self, array: Any) -> Array:
        """A copy, made by another thread than the one that trains."""

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array of the host that ``upload`` copies from at once."""

    def to_host(self, array: Array) -> np.ndarray[Any, Any]: ...
    def free_bytes(self) -> int: ...
    def padded(self, n_features: int) -> int:
        """The number of features, zeros included, that it likes rows to have."""

    def most_rows(self, n_features: int, n_models: int, rank: int, dtype: np.dtype[Any]) -> int:
        """Of a block of a round."""

    def beside(self) -> AbstractContextManager[None]:
        """What is computed in it may run beside what was asked for before, until ``wait_for_beside``."""

    def wait_for_beside(self) -> None: ...

    def sparse_rows(self, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
        """Sparse rows as ``Stretch.X`` has them."""

    def project(self, X: Any, V: Array, place_of: Array) -> Array:
        """Vᵀx of sparse rows; ``place_of`` is the line of V that a feature has, or −1."""

    def gram_block(self, n_features: int, n_models: int, dtype: np.dtype[Any]) -> int:
        """Rows of a block of the exact recurrence."""

    def exact(self, stretch: Stretch, gram: Array, step: Step, model: Model) -> Array: ...
    def rounds(self, stretch: Stretch, directions: Directions, control: Control, step: Step, model: Model) -> Array: ...
