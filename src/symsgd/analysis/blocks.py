"""The exact combiner of a block, for any number of features.

A block of n rows takes w (and b) from its start to its end by n steps of SGD. With ρ_i = max(0, 1 − α_i λ) the decay of
step i, s_i = ∂u_i/∂p_i = −α_i c_i h_i, and x̃ = (x, 1), its derivative is the product over the steps of

    M_i = (diag(ρ_i, …, ρ_i, 1) + s_i K x̃_i x̃_iᵀ) M_{i−1},     K = diag(1, …, 1, κ)

which is never formed here. What is left of M when D = diag(E, …, E, 1), E = Π ρ_i, is taken off has rank at most n:

    N = M − D = K X̃ᵀ F T B X̃      T = (I − S L)⁻¹ S,   S = diag(s),   L_ij = Π_{j<l<i} ρ_l x_i·x_j + κ  for j < i

with B = Π_{l<i} ρ_l and F = Π_{l>i} ρ_l for weights, 1 for the intercept. So n × n numbers, T, are enough for any
number of features. (Without L2, D = I and this is the paper's N. Without an intercept the last row and column go.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from symsgd import losses, penalties, reference
from symsgd._choices import check_number
from symsgd.inputs import check_data, check_real_targets, check_weights, without_repeats
from symsgd.losses import Loss
from symsgd.penalties import Penalty

Vector = npt.NDArray[np.float64]

MOST_STATES_OF_A_MATRIX = 20_000


@dataclass(frozen=True)
class BlockCombiner:
    """The exact M of a block, in factored form (see the module's head), and where the block ended.

    The states are the features and, with an intercept, the intercept after them. `kappa` is None without one.
    """

    rows: Any  # X of the block, an array or CSR
    core: Vector  # T, n × n
    before: Vector  # B: the decay of the weights before each step
    after: Vector  # F: the decay of the weights after each step
    decay: float  # E
    kappa: float | None
    coef: Vector
    intercept: float

    @property
    def n_states(self) -> int:
        return int(self.rows.shape[1]) + (self.kappa is not None)

    def apply(self, d: npt.ArrayLike) -> Vector:
        """M d, for one change of the start, shape (states,), or several, shape (states, k)."""
        d = self._directions(d)
        moved = self.decay * d
        if self.kappa is not None:
            moved[-1] = d[-1]
        return moved + self.apply_rest(d)

    def apply_rest(self, d: npt.ArrayLike) -> Vector:
        """N d = (M − D) d, likewise."""
        d = self._directions(d)
        columns = d.reshape(len(d), -1)
        weights = columns if self.kappa is None else columns[:-1]
        margins = self.before[:, None] * (self.rows @ weights)
        steps = self.core @ (margins if self.kappa is None else margins + columns[-1])
        moved = np.asarray(self.rows.T @ (self.after[:, None] * steps))
        if self.kappa is not None:
            moved = np.vstack([moved, self.kappa * steps.sum(axis=0)])
        return moved.reshape(d.shape)

    def matrix(self) -> Vector:
        """M as an array, states × states."""
        return self.apply(np.eye(self._matrix_states()))

    def rest(self) -> Vector:
        """N = M − D as an array, states × states."""
        return self.apply_rest(np.eye(self._matrix_states()))

    def reduced(self) -> tuple[Vector, Vector]:
        """QᵀMQ and QᵀNQ, Q an orthonormal basis of the span of the rows (and the intercept).

        N maps into that span and vanishes off it, where M = E: so the singular values of QᵀNQ are those of N but for
        zeros, and those of QᵀMQ are those of M but for E's.
        """
        X = self.rows
        if sp.issparse(X):
            X = X[:, np.unique(X.indices)].toarray()
        R = np.asarray(np.linalg.qr(X.T, mode="r"), np.float64)  # Xᵀ = Q R
        left, right = R * self.after, (R * self.before).T
        N, D = left @ self.core @ right, np.full(len(R), self.decay)
        if self.kappa is not None:
            ones = np.ones((len(self.core), 1))
            down, along = self.core @ ones, self.kappa * ones.T @ self.core
            N = np.block([[N, left @ down], [along @ right, along @ ones]])
            D = np.append(D, 1.0)
        return np.diag(D) + N, N

    def _directions(self, d: npt.ArrayLike) -> Vector:
        d = np.asarray(d, dtype=np.float64)
        if d.ndim not in (1, 2) or len(d) != self.n_states:
            raise ValueError(f"d has shape {d.shape}; accepted is ({self.n_states},) or ({self.n_states}, k)")
        return d

    def _matrix_states(self) -> int:
        if self.n_states > MOST_STATES_OF_A_MATRIX:
            raise ValueError(
                f"a matrix of {self.n_states} × {self.n_states} is too large; "
                "use apply and apply_rest, which never form it"
            )
        return self.n_states


def combiner(
    X: Any,
    y: Any,
    w: npt.ArrayLike,
    *,
    loss: str | Loss = "log_loss",
    step_size: npt.ArrayLike,
    penalty: str | Penalty | None = None,
    intercept: float | None = None,
    intercept_decay: float = 1.0,
    sample_weight: Any = None,
    soft_curvature: bool = False,
    drift: float = 0.0,
) -> BlockCombiner:
    """The exact model combiner M of SGD over the rows of X, in their order, from w.

    Parameters
    ----------
    X : CSR matrix or array of shape (rows, features): the block
    y : ±1 (or 0 and 1) for the margin losses, numbers for the others; not used by the one-class loss
    w : the weights that the block starts from, shape (features,)
    step_size : one for all rows, or one each
    penalty : none or L2. Under L1 and Lasso a combiner is over more than w: see ``symsgd.reference.derivative``
    intercept : what the intercept starts from; ``None`` for a model without
    intercept_decay : κ; 0.01 is what trainings use for sparse rows
    soft_curvature, drift : for losses with kinks, h_δ instead of h = 0, δ_i = max(drift, α_i c_i (‖x_i‖² + κ) / 2)
    """
    rows = as_rows(X)
    loss, l2 = losses.resolve(loss), _l2(penalty)
    n, f = rows.shape
    y = _targets(y, n, loss)
    weights = check_weights(sample_weight, n, np.dtype(np.float64))
    c = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    steps = _steps(step_size, n)
    start = as_vector(w, f, "w")
    kappa = None if intercept is None else check_number("intercept_decay", intercept_decay, at_least=0.0)
    b = 0.0 if intercept is None else check_number("intercept", intercept)
    check_number("drift", drift, at_least=0.0)

    rho = np.maximum(0.0, 1.0 - steps * l2)
    own, nu = kappa or 0.0, float(getattr(loss, "nu", 0.0))
    end, slopes = start.copy(), np.empty(n)
    for i in range(n):
        columns, values = _row(rows, i)
        p = float(values @ end[columns]) + b
        g, h = (float(part(loss, p, y[i])) for part in (reference.gradient, reference.curvature))
        length = float(values @ values) + own
        slopes[i] = reference.slope_of_step(
            loss, y[i], p, h, eta=steps[i], c=c[i], length=length, drift=drift if soft_curvature else None
        )
        u = -steps[i] * c[i] * g
        end *= rho[i]
        end[columns] += u * values
        b += own * (u - steps[i] * nu)

    before, after = np.append(1.0, np.cumprod(rho[:-1])), np.append(np.cumprod(rho[:0:-1])[::-1], 1.0)
    gram = rows @ rows.T
    gram = gram.toarray() if sp.issparse(gram) else gram
    coupling = np.tril(_products_between(rho) * gram + own, -1)
    core = scipy.linalg.solve_triangular(
        np.eye(n) - slopes[:, None] * coupling, np.diag(slopes), lower=True, unit_diagonal=True
    )
    return BlockCombiner(rows, core, before, after, float(np.prod(rho)), kappa, end, b)


def as_rows(X: Any) -> Any:
    """X as float64 rows, CSR or an array, each feature at most once a row."""
    return without_repeats(check_data(X, 1), 1).source.astype(np.float64, copy=False)


def _row(rows: Any, i: int) -> tuple[Any, Vector]:
    if not sp.issparse(rows):
        return slice(None), rows[i]
    part = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[part], rows.data[part]


def _targets(y: Any, n: int, loss: Loss) -> Vector:
    if loss.name == "one_class":
        return np.ones(n)
    targets = check_real_targets(y, n).astype(np.float64)
    if not loss.margin:
        return targets
    if not (np.isin(targets, (-1.0, 1.0)).all() or np.isin(targets, (0.0, 1.0)).all()):
        raise ValueError(f"y has labels other than ±1 (or 0 and 1), which is what loss={loss.name!r} reads")
    return np.where(targets > 0.0, 1.0, -1.0)


def _l2(penalty: str | Penalty | None) -> float:
    chosen = penalties.resolve(penalty)
    if chosen.name not in ("none", "l2"):
        raise ValueError(
            f"penalty={chosen.name!r} is not accepted; 'none' and 'l2' are. Under the others a combiner is over more "
            "than the weights: see symsgd.reference.derivative"
        )
    return float(getattr(chosen, "alpha", 0.0))


def _steps(step_size: npt.ArrayLike, n: int) -> Vector:
    steps = np.asarray(step_size, dtype=np.float64)
    if steps.shape not in ((), (n,)):
        raise ValueError(f"step_size has shape {steps.shape}; accepted are a number, or {n} of them, one a row")
    for step in steps.ravel():
        check_number("step_size", step, above=0.0)
    return np.broadcast_to(steps, (n,)).copy()


def as_vector(w: npt.ArrayLike, size: int, argument: str) -> Vector:
    vector = np.array(w, dtype=np.float64)
    if vector.shape != (size,):
        raise ValueError(f"{argument} has shape {vector.shape}; accepted is ({size},)")
    if not np.isfinite(vector).all():
        raise ValueError(f"{argument} contains NaN or infinity")
    return vector


def _products_between(rho: Vector) -> Vector:
    """Π_{j<l<i} ρ_l for j < i, else 1; n × n."""
    products = np.ones((len(rho), len(rho)))
    for i in range(2, len(rho)):
        products[i, : i - 1] = products[i - 1, : i - 1] * rho[i - 1]
    return products
