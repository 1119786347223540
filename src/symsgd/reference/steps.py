"""The sizes of the steps: η of a schedule, u of the passive-aggressive ones, and ∂u/∂p, all that a tangent needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from symsgd.reference.losses import PIECEWISE_LINEAR, gradient, soft_curvature

if TYPE_CHECKING:
    from symsgd.losses import Loss
    from symsgd.schedules import Schedule


def step_size(schedule: Schedule, loss: Loss, t: float) -> float:
    """η of step t = 1, 2, ….

    constant      η₀
    invscaling    η₀ / t^power
    linear        η₀ max(0, 1 − (t − first) / n_steps), with all three said
    optimal       1 / (α (t₀ + t − 1)), t₀ = 1 / (α η₁), η₁ = a / max(1, g(−a, 1)), a = α^{−1/4}
    adaptive      the schedule's current step: whoever watches the objective passes another schedule to change it
    pa1, pa2      the aggressiveness, which is what the penalty's steps use; u comes from `passive_aggressive_step`

    g(−a, 1) ≤ 0 for every loss here, so that "optimal" always begins with η₁ = a: the maximum reads as it does
    because that is scikit-learn's form of the heuristic.
    """
    choice: Any = schedule
    if schedule.name in ("constant", "adaptive"):
        return float(choice.step_size)
    if schedule.name == "invscaling":
        return float(choice.step_size / t**choice.power)
    if schedule.name == "linear":
        return float(choice.step_size * max(0.0, 1.0 - (t - choice.first) / choice.n_steps))
    if schedule.name in ("pa1", "pa2"):
        return float(choice.aggressiveness)
    if schedule.name != "optimal":
        raise ValueError(f"the reference has no schedule {schedule.name!r}")
    typical_weight = math.sqrt(1.0 / math.sqrt(choice.alpha))
    first_step = typical_weight / max(1.0, float(gradient(loss, -typical_weight, 1.0)))
    return float(1.0 / (choice.alpha * (1.0 / (first_step * choice.alpha) + t - 1.0)))


def passive_aggressive_step(schedule: Schedule, loss: Loss, row_loss: float, g: float, squared_norm: float) -> float:
    """u / c of the passive-aggressive schedules, C the aggressiveness; for losses with g = ±1 wherever ℓ > 0.

    PA-I     −g min(C, ℓ / ‖x‖²)
    PA-II    −g ℓ / (‖x‖² + 1 / 2C)
    """
    most = step_size(schedule, loss, 1.0)
    if schedule.name == "pa1":
        return -g * min(most, row_loss / squared_norm)
    return -g * row_loss / (squared_norm + 0.5 / most)


def slope_of_step(
    loss: Loss, y: float, p: float, h: float, *, eta: float, c: float, length: float, drift: float | None
) -> float:
    """∂u/∂p of u = −η c g(p): −η c h, with `length` = ‖x‖² + κ, the derivative of p′ by u.

    A loss made of straight pieces has h = 0 and takes the soft curvature h_δ instead, unless `drift` is None. Its
    δ = max(drift, η c (‖x‖² + κ) / 2) is as far as p is expected to move, by the change of the start or by the step
    itself. The step's own p never moves by more than its error, η c h_δ (‖x‖² + κ) ≤ 1: the second term of δ sees to
    that for one kink, the bound for two.
    """
    if loss.name not in PIECEWISE_LINEAR or drift is None:
        return -eta * c * h
    soft = float(soft_curvature(loss, p, y, max(drift, 0.5 * eta * c * length)))
    return -min(eta * c * soft, 1.0 / length) if length > 0.0 else -eta * c * soft


def slope_of_passive_aggressive_step(
    schedule: Schedule, loss: Loss, row_loss: float, g: float, *, c: float, squared_norm: float
) -> float:
    """∂u/∂p of `passive_aggressive_step` times c, with ∂ℓ/∂p = g = ±1 where ℓ > 0.

    PA-I     −c g² / ‖x‖² while ℓ / ‖x‖² < C, else 0
    PA-II    −c g² / (‖x‖² + 1 / 2C)
    """
    most = step_size(schedule, loss, 1.0)
    if schedule.name == "pa1":
        return -c * g**2 / squared_norm if row_loss / squared_norm < most else 0.0
    return -c * g**2 / (squared_norm + 0.5 / most)
