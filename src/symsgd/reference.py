"""The oracle: SGD for linear models in plain NumPy, one row at a time, float64, dense rows. Slow and readable.

Every learner is a loss ℓ(p, y) of the prediction p = x·w + b, with g = ∂ℓ/∂p and h = ∂²ℓ/∂p². Step number t on
row (x, y) with weight c (sample weight × class weight) and step size η is

    u = −η c g                                  (g clipped to ±10¹²)
    w ← max(0, 1 − (1 − r) η α) w + u x         (α the penalty's strength, r its share of L1)
    b ← b + κ u                                 (one-class: b + κ (u − η ν); κ the intercept decay)
    w ← truncation of w by the L1 penalty       (see `_Weights`; the Lasso of the paper: see `_LassoWeights`)

which is the step of scikit-learn 1.9. Two things differ from scikit-learn, on purpose. Averages are the means of the
iterates, L1 truncation included (scikit-learn's are not, with L1 or elastic net). Objectives use the norms of all of w
(scikit-learn's leave out the features that the last row did not have); as in scikit-learn, so that trainings with a
tolerance stop after the same pass, they are the norms as they were before the last truncation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from symsgd.losses import Loss
    from symsgd.penalties import Penalty
    from symsgd.schedules import Schedule

Vector = NDArray[np.float64]
Order = NDArray[np.intp]
Touched = Literal["all", "nonzero"]

LARGEST_GRADIENT = 1e12
CHUNK_ROWS, WINDOW_CHUNKS = 32, 16
SPLIT_MIX_STEP = 0x9E3779B97F4A7C15


# Losses: each function gives (ℓ, g, h) for arrays p and y


def _log_loss(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = log(1 + e^{−z}), g = −y σ(−z), h = σ(z) σ(−z), z = y p."""
    z = y * p
    small = np.exp(-np.abs(z))  # never overflows
    sigma_of_minus_z = np.where(z >= 0, small, 1.0) / (1.0 + small)
    return np.maximum(-z, 0.0) + np.log1p(small), -y * sigma_of_minus_z, small / (1.0 + small) ** 2


def _hinge(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = max(0, 1 − z), z = y p."""
    z = y * p
    return np.maximum(0.0, 1.0 - z), np.where(z <= 1.0, -y, 0.0), np.zeros_like(z)


def _perceptron(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = max(0, −z), z = y p. Active at z = 0, else it would never leave w = 0."""
    z = y * p
    return np.maximum(0.0, -z), np.where(z <= 0.0, -y, 0.0), np.zeros_like(z)


def _squared_hinge(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = m², m = max(0, 1 − y p)."""
    m = np.maximum(0.0, 1.0 - y * p)
    return m**2, -2.0 * y * m, np.where(m > 0.0, 2.0, 0.0)


def _modified_huber(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """The squared hinge for z ≥ −1 and its tangent −4 z below, z = y p."""
    z = y * p
    value, gradient, curvature = _squared_hinge(loss, p, y)
    far = z < -1.0
    return np.where(far, -4.0 * z, value), np.where(far, -4.0 * y, gradient), np.where(far, 0.0, curvature)


def _squared_error(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = ½ r², r = p − y."""
    r = p - y
    return 0.5 * r**2, r, np.ones_like(r)


def _huber(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = ½ r² for |r| ≤ ε, ε |r| − ½ ε² beyond, r = p − y."""
    r, epsilon = p - y, loss.epsilon
    near = np.abs(r) <= epsilon
    value = np.where(near, 0.5 * r**2, epsilon * np.abs(r) - 0.5 * epsilon**2)
    return value, np.clip(r, -epsilon, epsilon), np.where(near, 1.0, 0.0)


def _epsilon_insensitive(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = max(0, |r| − ε), r = p − y."""
    r = p - y
    excess = np.maximum(0.0, np.abs(r) - loss.epsilon)
    return excess, np.where(excess > 0.0, np.sign(r), 0.0), np.zeros_like(r)


def _squared_epsilon_insensitive(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """ℓ = e², e = max(0, |r| − ε), r = p − y."""
    r = p - y
    excess = np.maximum(0.0, np.abs(r) - loss.epsilon)
    return excess**2, 2.0 * np.sign(r) * excess, np.where(excess > 0.0, 2.0, 0.0)


def _one_class(loss: Any, p: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """The hinge with y = 1, whatever y says."""
    return _hinge(loss, p, np.ones_like(y))


LOSSES: dict[str, Callable[[Any, Vector, Vector], tuple[Vector, Vector, Vector]]] = {
    "log_loss": _log_loss,
    "hinge": _hinge,
    "perceptron": _perceptron,
    "squared_hinge": _squared_hinge,
    "modified_huber": _modified_huber,
    "squared_error": _squared_error,
    "huber": _huber,
    "epsilon_insensitive": _epsilon_insensitive,
    "squared_epsilon_insensitive": _squared_epsilon_insensitive,
    "one_class": _one_class,
}


def _evaluate(loss: Loss, p: ArrayLike, y: ArrayLike) -> tuple[Vector, Vector, Vector]:
    return LOSSES[loss.name](loss, np.asarray(p, dtype=np.float64), np.asarray(y, dtype=np.float64))


def value(loss: Loss, p: ArrayLike, y: ArrayLike) -> Vector:
    """ℓ(p, y), elementwise."""
    return _evaluate(loss, p, y)[0]


def gradient(loss: Loss, p: ArrayLike, y: ArrayLike) -> Vector:
    """g = ∂ℓ/∂p, elementwise; at a kink the side on which scikit-learn steps."""
    return _evaluate(loss, p, y)[1]


def curvature(loss: Loss, p: ArrayLike, y: ArrayLike) -> Vector:
    """h = ∂²ℓ/∂p², elementwise; 0 for losses that are piecewise linear."""
    return _evaluate(loss, p, y)[2]


def decision(X: ArrayLike, coef: ArrayLike, intercept: float) -> Vector:
    """p = X w + b."""
    return np.asarray(X, dtype=np.float64) @ np.asarray(coef, dtype=np.float64) + intercept


# Schedules


def step_size(schedule: Schedule, loss: Loss, t: float) -> float:
    """η of step t = 1, 2, ….

    constant      η₀
    invscaling    η₀ / t^power
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


# Orders: one array of row numbers per pass


def storage_order(n: int, passes: int) -> list[Order]:
    """Every pass in the order of the rows."""
    return [np.arange(n) for _ in range(passes)]


def full_order(n: int, seed: int, passes: int) -> list[Order]:
    """scikit-learn's shuffles: every pass permutes, with the same random numbers, what the last pass left.

    The numbers are Marsaglia's 32-bit xorshift (13, 17, 5) modulo 2³¹, started from `seed`, a seed of 0 counting
    as 1; the permutation is Fisher and Yates' from the front: row i changes places with row i + r mod (n − i).
    """
    order, orders = np.arange(n), []
    for _ in range(passes):
        state = seed or 1  # xorshift never leaves 0
        for i in range(n - 1):
            state ^= (state << 13) & 0xFFFFFFFF
            state ^= state >> 17
            state ^= (state << 5) & 0xFFFFFFFF
            j = i + (state % 2**31) % (n - i)
            order[i], order[j] = order[j], order[i]
        orders.append(order.copy())
    return orders


def window_order(n: int, seed: int, passes: int) -> list[Order]:
    """Chunks of 32 consecutive rows in random order, 16 chunks at a time riffled into one window.

    Within a window each chunk has as many turns as it has rows, the turns are permuted, and a turn takes the chunk's
    next row. The last chunk is shorter if 32 does not divide n, and so is the window that it falls into.

    Permutations are Fisher and Yates' from the back, item i changing places with item (i + 1) r / 2³², r the upper
    half of a number of SplitMix64 (Steele et al. 2014). Its state starts from mix(mix(seed) ^ pass) ^ window, the
    permutation of the chunks counting as window −1.
    """
    orders = []
    for number in range(passes):
        key = _split_mix(_split_mix(seed) ^ number)
        starts = np.arange(0, n, CHUNK_ROWS)
        _permute(starts, key ^ (2**64 - 1))
        rows: list[int] = []
        for window, first in enumerate(range(0, len(starts), WINDOW_CHUNKS)):
            chunks = [range(start, min(start + CHUNK_ROWS, n)) for start in starts[first : first + WINDOW_CHUNKS]]
            turns = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
            _permute(turns, key ^ window)
            next_rows = [iter(chunk) for chunk in chunks]
            rows += [next(next_rows[turn]) for turn in turns]
        orders.append(np.array(rows, dtype=np.intp))
    return orders


def _split_mix(state: int) -> int:
    """The number that SplitMix64 gives next; its state then is `state` + SPLIT_MIX_STEP."""
    z = (state + SPLIT_MIX_STEP) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def _permute(items: Order, state: int) -> None:
    for i in range(len(items) - 1, 0, -1):
        j = (_split_mix(state) >> 32) * (i + 1) >> 32
        state += SPLIT_MIX_STEP
        items[i], items[j] = items[j], items[i]


# Weights: w, and what its penalty remembers from step to step


class _Weights:
    """w under α ((1 − r) ½ ‖w‖² + r ‖w‖₁); r = 0 is L2, r = 1 is L1, α = 0 is no penalty.

    L2 scales w before the row is added. L1 is cumulative truncation (Tsuruoka et al. 2009): `owed` is what every
    weight should have been pulled towards zero by so far, q_i the sum of what truncation has changed in weight i.
    A weight that the row touches pays what is missing, but never across zero:

        w_i > 0:  w_i ← max(0, w_i − (owed + q_i))     w_i < 0:  w_i ← min(0, w_i + (owed − q_i))     q_i += change

    `touched` says which weights a row touches: "nonzero", those of its nonzero features (scikit-learn on sparse
    rows), or "all" (scikit-learn on dense rows).
    """

    def __init__(self, penalty: Any, coef: Vector, touched: Touched) -> None:
        self.alpha = 0.0 if penalty.name == "none" else penalty.alpha
        mixed = getattr(penalty, "l1_ratio", 0.0)
        self.l1_ratio = {"none": 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": mixed}[penalty.name]
        self.touched = touched
        self.coef = coef.copy()
        self.owed = 0.0
        self.q = np.zeros_like(coef)
        self.squared, self.absolute = np.sum(coef**2), np.sum(np.abs(coef))

    def cost(self) -> float:
        """The penalty's term of the objective, of w as it was when a row was last added."""
        return float(self.alpha * ((1.0 - self.l1_ratio) * 0.5 * self.squared + self.l1_ratio * self.absolute))

    def step(self, x: Vector, u: float, eta: float) -> None:
        kept = max(0.0, 1.0 - (1.0 - self.l1_ratio) * eta * self.alpha)
        self.coef = kept * self.coef + u * x
        if u == 0.0:
            self.squared, self.absolute = kept**2 * self.squared, kept * self.absolute
        else:
            self.squared, self.absolute = np.sum(self.coef**2), np.sum(np.abs(self.coef))
        if self.l1_ratio > 0.0:
            self.owed += self.l1_ratio * eta * self.alpha
            w, q, owed, touched = self.coef, self.q, self.owed, (x != 0.0) | (self.touched == "all")
            down, up = touched & (w > 0.0), touched & (w < 0.0)
            cut = np.where(down, np.maximum(0.0, w - (owed + q)), np.where(up, np.minimum(0.0, w + (owed - q)), w))
            self.coef, self.q = cut, q + (cut - w)


class _LassoWeights:
    """The paper's Lasso, α ‖w‖₁ on two non-negative halves, w = w₊ − w₋. At every step, for every feature i and s = ±1,

        w_s,i ← max(0, w_s,i − η (α + s c g x_i)) = max(0, w_s,i − η α + s u x_i)

    (errata.md: the paper's signs and brackets are corrected here.) Both halves can be positive at once.
    """

    def __init__(self, penalty: Any, coef: Vector) -> None:
        self.alpha = penalty.alpha
        self.halves = {s: np.maximum(0.0, s * coef) for s in (+1.0, -1.0)}

    @property
    def coef(self) -> Vector:
        return self.halves[+1.0] - self.halves[-1.0]

    def cost(self) -> float:
        """The penalty's term of the objective."""
        return float(self.alpha * (np.sum(self.halves[+1.0]) + np.sum(self.halves[-1.0])))

    def step(self, x: Vector, u: float, eta: float) -> None:
        self.halves = {s: np.maximum(0.0, half - eta * self.alpha + s * u * x) for s, half in self.halves.items()}


# Sequential SGD


@dataclass(frozen=True)
class SequentialRun:
    """What `sequential` returns. Without averaging, or before it began, the averages are those given at the start."""

    coef: Vector
    intercept: float
    average_coef: Vector
    average_intercept: float
    t: float  # number of the next step
    losses: Vector  # per pass, mean over its rows
    objectives: Vector  # per pass, mean over its rows


def sequential(
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: Loss,
    penalty: Penalty,
    schedule: Schedule,
    orders: Sequence[Order],
    sample_weight: ArrayLike | None = None,
    class_weight: tuple[float, float] = (1.0, 1.0),
    fit_intercept: bool = True,
    intercept_decay: float = 1.0,
    average: int = 0,
    coef: ArrayLike | None = None,
    intercept: float = 0.0,
    t: float = 1.0,
    average_coef: ArrayLike | None = None,
    average_intercept: float = 0.0,
    mask: ArrayLike | None = None,
    touched: Touched = "all",
) -> SequentialRun:
    """SGD over X (n × f) and y, one pass per order in `orders`, in the steps of this module's head; no stopping rule.

    y is ±1 for margin losses and not read by the one-class loss. `class_weight` is (weight of y ≤ 0, weight of y > 0).
    Rows where `mask` is true are passed over, as if not in the order. `coef`, `intercept`, `t` and the averages
    continue an earlier run; what the L1 penalty remembers starts afresh in each call, as in scikit-learn.

    From step t = `average` on (0: never), the averages are the means of w and b over the steps since:
    w̄ ← w̄ + (w − w̄) / (t − average + 1).

    Losses and objectives are means over the rows of a pass, each row taken just before its step and, as in
    scikit-learn, without its weight c. The objective is ℓ + the penalty's cost (+ ν b for one-class); with a
    passive-aggressive schedule it is ℓ alone. PA-I passes over rows of zeros, t included, but counts their loss.
    """
    X = np.asarray(X, dtype=np.float64)
    n, f = X.shape
    one_class, passive_aggressive = loss.name == "one_class", schedule.name in ("pa1", "pa2")
    nu = float(getattr(loss, "nu", 0.0))
    y = np.ones(n) if one_class else np.asarray(y, dtype=np.float64)
    c = np.where(y > 0.0, class_weight[1], class_weight[0])
    c = c if sample_weight is None else c * np.asarray(sample_weight, dtype=np.float64)
    skip = np.zeros(n, dtype=np.bool_) if mask is None else np.asarray(mask, dtype=np.bool_)

    start = np.zeros(f) if coef is None else np.asarray(coef, dtype=np.float64)
    weights = _LassoWeights(penalty, start) if penalty.name == "lasso" else _Weights(penalty, start, touched)
    b, b_mean = float(intercept), float(average_intercept)
    w_mean = np.zeros(f) if average_coef is None else np.array(average_coef, dtype=np.float64)

    losses, objectives = [], []
    for order in orders:
        rows = [i for i in order if not skip[i]]
        loss_sum = objective_sum = 0.0
        for i in rows:
            x = X[i]
            p = float(x @ weights.coef) + b
            eta = step_size(schedule, loss, t)
            row_loss, g = float(value(loss, p, y[i])), float(gradient(loss, p, y[i]))
            loss_sum += row_loss
            objective_sum += row_loss if passive_aggressive else row_loss + weights.cost() + nu * b

            if passive_aggressive:
                squared_norm = float(x @ x)
                if schedule.name == "pa1" and squared_norm == 0.0:
                    continue
                u = passive_aggressive_step(schedule, loss, row_loss, g, squared_norm) * c[i]
            else:
                u = -eta * min(max(g, -LARGEST_GRADIENT), LARGEST_GRADIENT) * c[i]

            weights.step(x, u, eta)
            if fit_intercept:
                b += intercept_decay * (u - eta * nu)
            if 0 < average <= t:
                w_mean += (weights.coef - w_mean) / (t - average + 1)
                b_mean += (b - b_mean) / (t - average + 1)
            t += 1
        losses.append(loss_sum / len(rows))
        objectives.append(objective_sum / len(rows))
    return SequentialRun(weights.coef, float(b), w_mean, float(b_mean), t, np.array(losses), np.array(objectives))
