"""The kernels on a GPU, where there is one: the CPU's model row by row, `Host`'s in rounds, the same bits twice."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from curvature_cases import off
from gpu_cases import assert_same_model, on_cpu
from strategy_cases import LOSSES, dense_rows, name, targets, weights
from symsgd import (
    EarlyStopping,
    Result,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
    devices,
    losses,
    penalties,
    schedules,
    train,
)
from symsgd.combiners import Curvature
from symsgd.gpu.host import Host
from symsgd.gpu.machine import Control, Directions, Model, Step, Stretch, Targets
from symsgd.strategies import MapReduce

pytestmark = pytest.mark.skipif(bool(devices.why_not_cuda()), reason=devices.why_not_cuda() or "there is a GPU")

AUTO = MapReduce(Curvature(), block_size="auto")
TOLERANCES = {"f8": 1e-9, "f4": 3e-3}  # float32 has its own exp and 1 / x there
SHAPES = [(131, 7), (1000, 8), (1300, 123), (700, 1), (900, 2000)]


def on_gpu(X: Any, y: Any = None, **case: Any) -> Result:
    return train(X, y, device="cuda", **{"strategy": "sequential", "n_passes": 2, **case})


# Row by row


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_every_loss(loss: Any, dtype: str) -> None:
    X = dense_rows(700, 11).astype(dtype)
    case = {"loss": loss, "schedule": schedules.Constant(0.05), "penalty": penalties.L2(0.05), "n_passes": 2}
    case |= {"sample_weight": weights(700)}
    found, wanted = on_gpu(X, targets(X, loss), **case), on_cpu(X, targets(X, loss), **case)
    if loss.smooth or dtype == "f8":
        assert_same_model(found, wanted, TOLERANCES[dtype])
    else:  # a row may come to lie on the other side of its kink
        assert found.passes[-1].loss == pytest.approx(wanted.passes[-1].loss, rel=0.05)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(shape: tuple[int, int], dtype: str) -> None:
    """Features that do not divide by the width of a copy, one alone, and more than a worker keeps."""
    X = (dense_rows(*shape) * min(1.0, 3 / np.sqrt(shape[1]))).astype(dtype)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.InvScaling(0.2, power=0.3), "penalty": penalties.L2(1e-3)}
    for shuffle in (True, False):
        found, wanted = on_gpu(X, y, shuffle=shuffle, **case), on_cpu(X, y, shuffle=shuffle, **case)
        assert_same_model(found, wanted, TOLERANCES[dtype])


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 256, 257])
def test_numbers_of_rows_around_a_block(n: int) -> None:
    X = dense_rows(n, 5)
    case = {"loss": "squared_error", "schedule": schedules.Constant(0.05), "penalty": penalties.L2(0.1)}
    assert_same_model(on_gpu(X, np.arange(1.0, n + 1), **case), on_cpu(X, np.arange(1.0, n + 1), **case), 1e-9)


@pytest.mark.parametrize("schedule", ["pa1", "pa2"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_passive_aggressive_steps(loss: str, schedule: str) -> None:
    X = dense_rows(60, 6)
    y = targets(X, losses.LOSSES[loss]())
    case = {"loss": loss, "schedule": schedule, "penalty": None}
    assert_same_model(on_gpu(X, y, **case), on_cpu(X, y, **case), 1e-8)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("n_classes", [3, 9, 40])
def test_more_classes(n_classes: int, dtype: str) -> None:
    X = dense_rows(800, 19).astype(dtype)
    y = np.arange(800) % n_classes
    case = {"schedule": schedules.Constant(0.1), "class_weight": np.linspace(0.5, 1.5, n_classes)}
    assert_same_model(on_gpu(X, y, **case), on_cpu(X, y, **case), TOLERANCES[dtype])


def test_a_penalty_that_leaves_nothing_of_the_first_steps() -> None:
    X = dense_rows(900, 5)
    y = targets(X, losses.LogLoss())
    for shuffle in (True, False):
        case = {"schedule": schedules.Constant(0.5), "penalty": penalties.L2(0.4), "shuffle": shuffle}
        assert_same_model(on_gpu(X, y, **case), on_cpu(X, y, **case), 1e-9)


def test_rows_held_out_and_a_tolerance() -> None:
    X = dense_rows(1200, 9)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.1), "n_passes": 40, "patience": 2, "tol": 1e-3}
    case |= {"early_stopping": EarlyStopping(np.arange(1200) % 5 == 0)}
    assert_same_model(on_gpu(X, y, **case), on_cpu(X, y, **case), 1e-9)


# In rounds


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("features", [7, 64, 123])
def test_rounds_are_near_the_sequential_run(features: int, dtype: str) -> None:
    X = dense_rows(20_000, features, scale=1 / np.sqrt(features)).astype(dtype)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.05), "penalty": penalties.L2(1e-4), "n_passes": 3}
    found, wanted = on_gpu(X, y, strategy="auto", **case), on_cpu(X, y, **case)
    assert found.strategy.startswith("mr-symsgd")
    assert off(found, wanted, X) < 0.03
    record = found.passes[-1]
    assert record.merges > 0
    assert min(features, 64) <= record.rank <= 64
    assert record.error is None or record.error < 0.01


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_rounds_of_every_loss(loss: Any) -> None:
    X = dense_rows(10_000, 20, scale=0.2)
    y = targets(X, loss)
    case = {"loss": loss, "schedule": schedules.Constant(0.02), "penalty": penalties.L2(1e-3), "n_passes": 2}
    found, wanted = on_gpu(X, y, strategy=AUTO, **case), on_cpu(X, y, **case)
    assert found.passes[-1].loss == pytest.approx(wanted.passes[-1].loss, rel=0.05)
    if loss.smooth:
        assert off(found, wanted, X) < 0.05


@pytest.mark.parametrize("n_classes", [3, 26])
def test_rounds_of_more_classes(n_classes: int) -> None:
    X = dense_rows(12_000, 30, scale=0.2).astype(np.float32)
    y = np.argmax(X @ np.random.default_rng(5).standard_normal((30, n_classes)), axis=1)
    case = {"schedule": schedules.Constant(0.05), "penalty": penalties.L2(1e-3), "n_passes": 2}
    found, wanted = on_gpu(X, y, strategy=AUTO, **case), on_cpu(X, y, **case)
    assert off(found, wanted, X) < 0.05


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_as_many_sweeps_as_asked(dtype: str) -> None:
    X = dense_rows(9000, 10).astype(dtype)
    y = targets(X, losses.LogLoss())
    blocks = devices.cuda().blocks
    for refine in (0, 2):
        case = {"strategy": MapReduce(Curvature(refine=refine), 4), "schedule": schedules.Constant(0.02), "n_passes": 1}
        record = on_gpu(X, y, **case).passes[0]
        assert record.sweeps * blocks == refine * record.merges


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("strategy", ["sequential", "auto", MapReduce(Curvature(), 8)], ids=["exact", "auto", "8"])
def test_the_same_bits_twice(strategy: Any, dtype: str) -> None:
    X = dense_rows(10_000, 23).astype(dtype)
    y = np.arange(10_000) % 3
    case = {"strategy": strategy, "schedule": schedules.Constant(0.02), "n_passes": 2}
    first, second = on_gpu(X, y, **case), on_gpu(X, y, **case)
    assert_array_equal(first.coef, second.coef)
    assert_array_equal(first.intercept, second.intercept)
    assert [own.loss for own in first.passes] == [own.loss for own in second.passes]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sparse_rows(dtype: str) -> None:
    X = sp.random(10_000, 500, 0.03, format="csr", random_state=0, dtype=np.dtype(dtype))
    y = targets(X.toarray(), losses.LogLoss())
    case = {"schedule": schedules.Constant(0.2), "penalty": penalties.L2(1e-4), "n_passes": 2}
    found, wanted = on_gpu(X, y, strategy="auto", **case), on_cpu(X, y, **case)
    assert off(found, wanted, X) < 0.05
    assert_array_equal(found.coef, on_gpu(X, y, strategy="auto", **case).coef)


# One round against the oracle of the kernels


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("models", [1, 3])
def test_a_stretch_is_what_the_host_makes_of_it(models: int, dtype: str) -> None:
    """All of a stretch: products, sweeps, merges, the steering of blocks and the losses of rows."""
    rng = np.random.default_rng(0)
    gpu = devices.cuda()
    rows, features, rank, count = 3000, 24, 8, 2500
    X = (rng.standard_normal((rows, features)) / np.sqrt(features)).astype(dtype)
    V = np.linalg.qr(rng.standard_normal((features, rank)))[0].astype(dtype)
    order = rng.permutation(rows)[:count].astype(np.int32)
    label = (order % 3 if models > 1 else np.where(X[order, 0] > 0, 1.0, -1.0)).astype(dtype)
    found = []
    for machine in (gpu, Host(blocks=gpu.blocks)):

        def put(array: Any, kind: Any = dtype, machine: Any = machine) -> Any:
            return machine.asarray(array, np.dtype(kind))

        targets_ = Targets(
            put(label), put(weights(count)), put(np.ones(models)), put(np.full(models, 0.5)),
            put(np.arange(models)) if models > 1 else None,
        )  # fmt: skip
        steps, decay = np.full((1, count), 0.05), 1e-3 * -np.arange(count + 1.0)[None, :]
        stretch = Stretch(put(X), put(order, "i4"), targets_, put(steps), put(decay, "f8"))
        turn = np.full(rank, 0.1)
        sharp = Directions(put(V), put(turn), put(np.full(rank, 1 / features)), put(X @ V + turn), 1 / features, 0.2)
        model = Model(put(np.zeros((models, features))), put(np.zeros(models), "f8"), put(np.full(models, 0.25)))
        control = Control(rows=4, adapts=False, most=32, tolerance=0.5, sweeps=2)
        step = Step(loss="log_loss", epsilon=0.0, kappa=1.0, pull=0.0)
        values = machine.rounds(stretch, sharp, control, step, model)
        found.append([machine.to_host(own) for own in (model.w, model.intercept, values)] + [control])
    tolerance = 1e-9 if dtype == "f8" else 1e-3
    for own, wanted in zip(found[0][:3], found[1][:3], strict=True):
        np.testing.assert_allclose(own, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    assert (found[0][3].rounds, found[0][3].sweeps_made, found[0][3].done) == (
        found[1][3].rounds, found[1][3].sweeps_made, found[1][3].done,
    )  # fmt: skip


# Where the data are, and who asks


def test_arrays_in_the_gpus_memory() -> None:
    xp = devices.cuda().xp  # type: ignore[attr-defined]
    X = dense_rows(9000, 12)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.02), "strategy": "auto"}
    there, here = on_gpu(xp.asarray(X), xp.asarray(y), **case), on_gpu(X, y, **case)
    assert_array_equal(xp.asnumpy(there.coef), here.coef)
    with pytest.raises(ValueError, match="device='cpu'"):
        train(xp.asarray(X), y)


def test_an_estimator() -> None:
    X = dense_rows(3000, 12)
    y = targets(X, losses.LogLoss())
    case = {"loss": "log_loss", "strategy": "sequential", "max_iter": 3, "tol": None, "random_state": 0}
    there, here = (SGDClassifier(device=device, **case).fit(X, y) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8, atol=1e-10)
    assert_array_equal(there.predict(X), here.predict(X))


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor, SGDOneClassSVM])
def test_an_estimator_of_arrays_in_the_gpus_memory(kind: Any) -> None:
    xp = devices.cuda().xp  # type: ignore[attr-defined]
    X = dense_rows(3000, 12)
    y = targets(X, losses.LogLoss())
    case = {"device": "cuda", "strategy": "sequential", "max_iter": 3, "tol": None, "random_state": 0}
    there, here = kind(**case).fit(xp.asarray(X), xp.asarray(y)), kind(**case).fit(X, y)
    assert isinstance(there.coef_, xp.ndarray)
    assert_array_equal(xp.asnumpy(there.coef_), here.coef_)
    predicted = there.predict(xp.asarray(X))
    assert isinstance(predicted, xp.ndarray)
    np.testing.assert_allclose(xp.asnumpy(predicted), here.predict(X), rtol=1e-9)
    if kind is not SGDOneClassSVM:
        assert there.score(xp.asarray(X), xp.asarray(y)) == pytest.approx(here.score(X, y))
    assert isinstance(pickle.loads(pickle.dumps(there)).coef_, np.ndarray)


def test_probabilities_of_arrays_in_the_gpus_memory() -> None:
    xp = devices.cuda().xp  # type: ignore[attr-defined]
    X, y = dense_rows(3000, 12), np.arange(3000) % 3
    for labels in (y, y > 0):
        model = SGDClassifier("log_loss", device="cuda", max_iter=2, tol=None, random_state=0).fit(
            xp.asarray(X), labels
        )
        for found in (model.predict_proba, model.predict_log_proba, model.decision_function):
            assert isinstance(found(xp.asarray(X)), xp.ndarray)
            np.testing.assert_allclose(xp.asnumpy(found(xp.asarray(X))), found(X), rtol=1e-6, atol=1e-9)
