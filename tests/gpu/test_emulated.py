"""The CUDA kernels themselves, on a CPU (emulated_cuda.py): what they compute is what NumPy's machine computes.

Launches are of a few small blocks, so that numbers of threads, features and rows that do not divide each other meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import symsgd
from emulated_cuda import COMPILER, Emulated
from symsgd import devices
from symsgd.combiners import Curvature
from symsgd.gpu.host import Host
from symsgd.schedules import Constant
from symsgd.strategies import MapReduce, Sequential, Strategy

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

BLOCKS, BLOCK, RANK = 3, 32, 5
ROUNDS = MapReduce(Curvature(rank=RANK), "auto")


def data(n_features: int, n_classes: int = 2, n_rows: int = 170, dtype: Any = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(n_features)
    X = rng.standard_normal((n_rows, n_features)) * np.linspace(1, 0.1, n_features) / 2
    scores = X @ rng.standard_normal((n_features, n_classes)) + 0.3 * rng.standard_normal((n_rows, n_classes))
    return X.astype(dtype), scores.argmax(axis=1)


def both(
    monkeypatch: pytest.MonkeyPatch, X: Any, y: Any, strategy: Strategy, pads: bool = True, **more: Any
) -> tuple[Any, Any]:
    """The kernels' result and NumPy's."""
    emulated = Emulated(blocks=BLOCKS, gram_rows=BLOCK, pads=pads)
    width = 0 if sp.issparse(X) else emulated.padded(X.shape[1])
    most = emulated.most_rows(width, len(np.unique(y)), RANK, X.dtype)
    choices: dict[str, Any] = {"schedule": Constant(0.1), "n_passes": 1, "device": "cuda", "strategy": strategy} | more
    found = []
    for machine in (emulated, Host(blocks=BLOCKS, rows_at_most=most, block=BLOCK)):
        monkeypatch.setattr(devices, "cuda", lambda machine=machine: machine)
        found.append(symsgd.train(X, y, **choices))
    return found[0], found[1]


def off(one: Any, other: Any) -> float:
    both_parts = [np.append(result.coef, result.intercept) for result in (one, other)]
    return float(np.linalg.norm(both_parts[0] - both_parts[1]) / np.linalg.norm(both_parts[1]))


@pytest.mark.parametrize(
    ("n_features", "n_classes", "more"),
    [
        (12, 2, {}),
        (7, 2, {"sample_weight": np.linspace(0.5, 2, 170)}),
        (70, 2, {"fit_intercept": False}),  # more features than a worker has at least
        (8, 2, {"loss": "hinge", "schedule": "pa1", "penalty": None}),
        (8, 2, {"loss": symsgd.losses.OneClass(0.3)}),
        (6, 2, {"loss": "squared_error", "classes": [0, 1]}),
    ],
)
def test_exact_kernel_goes_as_numpy_does(
    monkeypatch: pytest.MonkeyPatch, n_features: int, n_classes: int, more: dict[str, Any]
) -> None:
    X, y = data(n_features, n_classes)
    kernel, numpy = both(monkeypatch, X, y, Sequential(), **more)
    assert off(kernel, numpy) < 1e-12
    assert kernel.passes[0].loss == pytest.approx(numpy.passes[0].loss)


def test_rounds_of_dense_rows_go_as_numpy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(12)
    kernel, numpy = both(monkeypatch, X, y, ROUNDS, sample_weight=np.linspace(0.5, 2, 170))
    assert off(kernel, numpy) < 1e-12
    for own, other in zip(kernel.passes, numpy.passes, strict=True):
        assert (own.merges, own.sweeps, own.rank, own.rows_alone) == (
            other.merges, other.sweeps, other.rank, other.rows_alone,
        )  # fmt: skip
        assert own.error == pytest.approx(other.error, rel=1e-6)
        assert own.loss == pytest.approx(other.loss)


@pytest.mark.parametrize("pads", [True, False])
def test_rounds_of_classes_and_rows_that_are_not_aligned(monkeypatch: pytest.MonkeyPatch, pads: bool) -> None:
    X, y = data(11, 3)
    kernel, numpy = both(monkeypatch, X, y, MapReduce(Curvature(rank=RANK, refine=2), 7), pads)
    assert off(kernel, numpy) < 1e-12
    assert kernel.passes[0].sweeps == numpy.passes[0].sweeps > 0


def test_rounds_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(20, dtype=np.float32)
    kernel, numpy = both(monkeypatch, X, y, MapReduce(Curvature(rank=RANK), 8), loss="squared_hinge")
    assert off(kernel, numpy) < 1e-4


def test_rounds_of_sparse_rows_go_as_numpy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.random(170, 40, density=0.2, format="csr", random_state=1)
    y = X @ np.random.default_rng(0).standard_normal(40) > 0
    kernel, numpy = both(monkeypatch, X, y, ROUNDS)
    assert off(kernel, numpy) < 1e-9  # weights are integers in units of 2⁻⁴⁰
    assert kernel.passes[0].merges == numpy.passes[0].merges


def test_the_same_bits_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(12)
    first, _ = both(monkeypatch, X, y, ROUNDS)
    second, _ = both(monkeypatch, X, y, ROUNDS)
    assert (first.coef == second.coef).all()
