"""The step sizes of a pass, all at once, are the oracle's one by one; and so is what L2 leaves of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategy_cases import LOSSES, name
from symsgd import losses, penalties, reference, schedules
from symsgd.gpu.host import Host
from symsgd.gpu.schedule import PassSteps
from symsgd.problem import Rule
from symsgd.steps import LEAST_KEPT, StepSizes

SCHEDULES = [
    schedules.Constant(0.2),
    schedules.Adaptive(0.3),
    schedules.Optimal(1e-4),
    schedules.Optimal(3.0),
    schedules.InvScaling(0.4, power=0.3),
    schedules.InvScaling(0.4, power=-0.2),
    schedules.Linear(0.3, n_steps=500, first=20),
    schedules.PassiveAggressive1(0.7),
    schedules.PassiveAggressive2(0.6),
]


def steps_of(schedule: Any, loss: Any = None, l2: float = 0.0, dtype: Any = np.float64) -> PassSteps:
    loss = loss or (losses.Hinge() if schedule.passive_aggressive else losses.LogLoss())
    rule = Rule.check(loss, penalties.L2(l2) if l2 else penalties.NoPenalty(), schedule, False)
    return PassSteps(machine=Host(), dtype=np.dtype(dtype), sizes=StepSizes.of(rule), most_curvature=1.0)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("t", [1.0, 400.0, 1e7])
def test_every_schedule(schedule: Any, t: float) -> None:
    steps = steps_of(schedule)
    sizes, decay = steps.of(np.full(3, steps.sizes.first), t, 200)
    assert sizes.shape == (1, 200)
    wanted = [reference.step_size(schedule, losses.LogLoss(), t + i) for i in range(200)]
    assert_allclose(sizes[0], wanted, rtol=1e-12)
    assert (decay == 0).all()


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_the_first_step_of_optimal_follows_the_loss(loss: Any) -> None:
    schedule = schedules.Optimal(1e-3)
    sizes, _ = steps_of(schedule, loss).of(np.zeros(1), 1.0, 50)
    assert_allclose(sizes[0], [reference.step_size(schedule, loss, 1.0 + i) for i in range(50)], rtol=1e-12)


@given(st.sampled_from(SCHEDULES), st.floats(1e-6, 5.0), st.integers(1, 80), st.sampled_from([np.float32, np.float64]))
def test_decays_are_the_products_of_what_each_step_leaves(schedule: Any, l2: float, count: int, dtype: Any) -> None:
    """Also where a step leaves nothing: next to nothing is left then, and the logarithm is still a number."""
    steps = steps_of(schedule, l2=l2, dtype=dtype)
    sizes, decay = steps.of(np.full(1, steps.sizes.first), 3.0, count)
    assert (sizes.dtype, decay.dtype, decay.shape) == (dtype, np.float64, (1, count + 1))
    own = np.array([reference.step_size(schedule, losses.LogLoss(), 3.0 + i) for i in range(count)])
    left = np.maximum(1.0 - own * l2, 0.0)
    assert_allclose(np.exp(np.diff(decay[0])), left, rtol=1e-9, atol=LEAST_KEPT * 1.01)
    assert decay[0, 0] == 0.0
    assert np.isfinite(decay).all()


def test_models_have_their_own_steps_where_these_differ() -> None:
    steps = steps_of(schedules.Adaptive(0.3), l2=0.5)
    sizes, decay = steps.of(np.array([0.3, 0.06, 0.3]), 1.0, 10)
    assert_allclose(sizes, np.repeat([[0.3], [0.06], [0.3]], 10, axis=1))
    assert_allclose(decay[:, -1], 10 * np.log(1 - 0.5 * np.array([0.3, 0.06, 0.3])))
    alike, _ = steps.of(np.array([0.06, 0.06, 0.06]), 1.0, 10)
    assert_allclose(alike, np.full((1, 10), 0.06))


def test_steps_that_do_not_change_are_made_once() -> None:
    steps = steps_of(schedules.Constant(0.2), l2=0.1)
    first, later = steps.of(np.full(2, 0.2), 1.0, 100), steps.of(np.full(2, 0.2), 101.0, 100)
    assert first[0] is later[0]
    assert steps.of(np.full(2, 0.2), 101.0, 50)[0].shape == (1, 50)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_how_far_weights_fall_is_no_less_than_they_do(schedule: Any) -> None:
    steps = steps_of(schedule, l2=0.4)
    _, decay = steps.of(np.full(1, steps.sizes.first), 5.0, 60)
    for first in (0, 1, 30, 60):
        assert steps.fallen(decay, first) >= decay[0, first] - decay[0, -1] - 1e-9
    assert steps.fallen(decay, 60) == 0.0
    assert steps_of(schedule).fallen(decay, 0) == 0.0
