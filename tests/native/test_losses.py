"""Value, g and h of every native loss: equal to the reference, to finite differences, and right far out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from symsgd import _core, losses, reference

# The one-class loss is the hinge to the core.
LOSSES = [
    losses.LogLoss(),
    losses.Hinge(),
    losses.Perceptron(),
    losses.SquaredHinge(),
    losses.ModifiedHuber(),
    losses.SquaredError(),
    losses.Huber(epsilon=0.3),
    losses.Huber(epsilon=0.0),
    losses.EpsilonInsensitive(epsilon=0.2),
    losses.EpsilonInsensitive(epsilon=0.0),
    losses.SquaredEpsilonInsensitive(epsilon=0.2),
]
MARGIN_KINKS = {"hinge": [1.0], "perceptron": [0.0], "squared_hinge": [1.0], "modified_huber": [-1.0, 1.0]}
EPSILON = {np.float64: 1e-12, np.float32: 1e-5}
PRECISIONS = [np.float64, np.float32]


def label(case: Any) -> str:
    if isinstance(case, losses.Loss):
        return f"{case.name}-{case.epsilon:g}" if hasattr(case, "epsilon") else case.name
    return getattr(case, "__name__", str(case))


def native(loss: Any, p: float, y: float, dtype: Any = np.float64) -> tuple[float, float, float]:
    single = dtype is np.float32
    return _core.evaluate_loss(loss.name, getattr(loss, "epsilon", 0.0), float(p), float(y), single)


def oracle(loss: Any, p: float, y: float) -> tuple[float, float, float]:
    parts = (reference.value, reference.gradient, reference.curvature)
    return tuple(float(part(loss, p, y)) for part in parts)


def kinks(loss: Any, y: float) -> list[float]:
    """Where g or h jumps, as values of p."""
    if loss.margin:
        return [y * z for z in MARGIN_KINKS.get(loss.name, [])]
    return [y - loss.epsilon, y + loss.epsilon] if hasattr(loss, "epsilon") else []


def targets(loss: Any) -> list[float]:
    return [-1.0, 1.0] if loss.margin else [-1.3, 0.0, 0.37]


def predictions(loss: Any, y: float, apart: float) -> np.ndarray:
    """A grid of p that stays `apart` from the kinks; single precision cannot tell nearer values from them."""
    p = np.linspace(-6.0, 6.0, 241).astype(np.float32).astype(np.float64)
    for kink in kinks(loss, y):
        p = p[np.abs(p - kink) > apart]
    return p


def test_every_loss_is_here() -> None:
    assert {loss.name for loss in LOSSES} | {"one_class"} == set(losses.LOSSES)


@pytest.mark.parametrize("dtype", PRECISIONS, ids=label)
@pytest.mark.parametrize("loss", LOSSES, ids=label)
def test_equals_the_reference(loss: Any, dtype: Any) -> None:
    for y in targets(loss):
        p = predictions(loss, y, apart=1e-5)
        expected = [oracle(loss, each, y) for each in p]
        found = [native(loss, each, y, dtype) for each in p]
        assert_allclose(found, expected, rtol=EPSILON[dtype], atol=EPSILON[dtype])


@pytest.mark.parametrize("loss", LOSSES, ids=label)
@given(p=st.floats(-30, 30), real=st.floats(-30, 30), positive=st.booleans())
def test_equals_the_reference_anywhere(loss: Any, p: float, real: float, positive: bool) -> None:
    y = (1.0 if positive else -1.0) if loss.margin else real
    if all(abs(p - kink) > 1e-9 for kink in kinks(loss, y)):
        assert_allclose(native(loss, p, y), oracle(loss, p, y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=label)
def test_g_and_h_are_the_derivatives(loss: Any) -> None:
    step = 1e-5
    for y in targets(loss):
        for p in predictions(loss, y, apart=2 * step):
            value, g, h = native(loss, p, y)
            value_up, g_up, _ = native(loss, p + step, y)
            value_down, g_down, _ = native(loss, p - step, y)
            assert value >= 0
            assert g == pytest.approx((value_up - value_down) / (2 * step), abs=1e-8)
            assert h == pytest.approx((g_up - g_down) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("dtype", PRECISIONS, ids=label)
@pytest.mark.parametrize(
    ("loss", "p", "y", "g"),
    [
        (losses.Hinge(), 1.0, 1.0, -1.0),
        (losses.Hinge(), -1.0, -1.0, 1.0),
        (losses.Perceptron(), 0.0, 1.0, -1.0),
        (losses.Perceptron(), 0.0, -1.0, 1.0),
        (losses.SquaredHinge(), 1.0, 1.0, 0.0),
        (losses.ModifiedHuber(), 1.0, 1.0, 0.0),
        (losses.ModifiedHuber(), -1.0, 1.0, -4.0),
        (losses.Huber(0.25), 1.25, 1.0, 0.25),
        (losses.EpsilonInsensitive(0.25), 1.25, 1.0, 0.0),
        (losses.EpsilonInsensitive(0.25), 0.75, 1.0, 0.0),
        (losses.EpsilonInsensitive(0.0), 1.0, 1.0, 0.0),
        (losses.SquaredEpsilonInsensitive(0.25), 1.25, 1.0, 0.0),
    ],
    ids=label,
)
def test_g_at_a_kink_is_scikit_learns(loss: Any, p: float, y: float, g: float, dtype: Any) -> None:
    assert native(loss, p, y, dtype)[1] == g == oracle(loss, p, y)[1]


@pytest.mark.parametrize("dtype", PRECISIONS, ids=label)
@pytest.mark.parametrize("loss", LOSSES, ids=label)
@pytest.mark.parametrize("p", [-500.0, -50.0, 50.0, 500.0])
def test_large_predictions(loss: Any, p: float, dtype: Any) -> None:
    for y in targets(loss):
        value, g, h = native(loss, p, y, dtype)
        expected = oracle(loss, p, y)
        assert all(map(math.isfinite, (value, g, h)))
        assert_allclose((value, g, h), expected, rtol=EPSILON[dtype], atol=1e-20)
        assert np.sign(g) == np.sign(expected[1])


FAR_OUT = [
    *((np.float64, margin) for margin in (1.0, 20.0, 50.0, 500.0, 700.0)),
    *((np.float32, margin) for margin in (1.0, 20.0, 50.0, 80.0)),
]


@pytest.mark.parametrize(("dtype", "margin"), FAR_OUT, ids=label)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_log_loss_keeps_its_relative_accuracy_far_out(dtype: Any, margin: float, y: float) -> None:
    """What is left of a nearly certain prediction is right to the last digits, not just small."""
    close = {"rel": EPSILON[dtype], "abs": 0.0}
    rest = math.exp(-margin)
    right_value, right_g, _ = native(losses.LogLoss(), y * margin, y, dtype)
    assert right_value == pytest.approx(math.log1p(rest), **close)
    assert right_g == pytest.approx(-y * rest / (1 + rest), **close)
    wrong_value, wrong_g, _ = native(losses.LogLoss(), -y * margin, y, dtype)
    assert wrong_value == pytest.approx(margin + math.log1p(rest), **close)
    assert wrong_g == pytest.approx(-y / (1 + rest), **close)


@pytest.mark.parametrize(("dtype", "margin"), FAR_OUT, ids=label)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_log_loss_keeps_the_relative_accuracy_of_its_curvature(dtype: Any, margin: float, sign: float) -> None:
    rest = math.exp(-margin)
    h = native(losses.LogLoss(), sign * margin, 1.0, dtype)[2]
    assert h == pytest.approx(rest / (1 + rest) ** 2, rel=EPSILON[dtype], abs=0.0)


@pytest.mark.parametrize("p", [-1e30, -1e4, 1e4, 1e30])
def test_log_loss_beyond_the_range_of_the_exponential(p: float) -> None:
    for y in (-1.0, 1.0):
        for dtype in PRECISIONS:
            value, g, h = native(losses.LogLoss(), p, y, dtype)
            assert value == max(0.0, -y * p)
            assert g == pytest.approx(-y if y * p < 0 else 0.0, abs=1e-37)
            assert h == pytest.approx(0.0, abs=1e-37)


def test_unknown_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown loss no_such_loss"):
        _core.evaluate_loss("no_such_loss", 0.0, 1.0, 1.0, False)
