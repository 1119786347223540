"""Least squares by a randomised sketch (RandNLA): precondition by a random summary of the rows, then iterate.

A CountSketch S adds each row, with a random sign, to one of a few times as many rows as there are features. R of
RᵀR = (S X)ᵀ(S X) is nearly that of X, so X R⁻¹ is nearly orthonormal and LSQR on it ends in a few dozen steps, from the
sketch's own solution (Blendenpik: Avron, Maymounkov, Toledo 2010; CountSketch: Clarkson, Woodruff 2013). A budget is a
number of LSQR's steps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, lsqr

from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.peer import Peer

TIMES_FEATURES = 3


class Sketch(Peer):
    """The penalty is √(n alpha) I below the rows."""

    name: ClassVar[str] = "randomised sketch"
    module: ClassVar[str] = "scipy"
    package: ClassVar[str] = "scipy"
    losses: ClassVar[tuple[str, ...]] = ("squared_error",)

    def reason_against(self, task: Task) -> str:
        return "it takes dense rows" if sp.issparse(task.data.X) else super().reason_against(task)

    def run(self, budget: int) -> None:
        X, y = self.X, self.y.astype(self.X.dtype, copy=False)
        n, f = X.shape
        penalty = X.dtype.type(np.sqrt(n * self.task.alpha))
        S = count_sketch(min(n, TIMES_FEATURES * f), n, X.dtype, self.task.seed)
        sketched = (S @ X).astype(np.float64)
        squares = sketched.T @ sketched
        squares[np.diag_indices(f)] += float(penalty) ** 2
        R = scipy.linalg.cholesky(squares, overwrite_a=True, check_finite=False)
        start = solve(R, sketched.T @ (S @ y), transposed=True)

        def ahead(v: Any) -> Any:
            w = solve(R, np.ravel(v)).astype(X.dtype)
            return np.concatenate([X @ w, penalty * w])

        def back(v: Any) -> Any:
            own = np.ravel(v).astype(X.dtype)
            return solve(R, X.T @ own[:n] + penalty * own[n:], transposed=True)

        operator = LinearOperator((n + f, f), matvec=ahead, rmatvec=back, dtype=np.float64)
        targets = np.concatenate([y, np.zeros(f, X.dtype)])
        found = lsqr(operator, targets, atol=0, btol=0, conlim=0, iter_lim=budget, x0=start)[0]
        self.coef = solve(R, found)

    def model(self) -> Model:
        return Model(self.coef)


def solve(R: Any, v: Any, transposed: bool = False) -> Any:
    """R⁻¹ v, or R⁻ᵀ v."""
    return scipy.linalg.solve_triangular(R, v, trans="T" if transposed else "N", check_finite=False)


def count_sketch(n_sketched: int, n_rows: int, dtype: Any, seed: int) -> Any:
    """A matrix with one entry ±1 a column, at random."""
    random = np.random.default_rng(seed)
    places = random.integers(n_sketched, size=n_rows)
    signs = random.choice(np.array([-1, 1], dtype), size=n_rows)
    return sp.csr_matrix((signs, (places, np.arange(n_rows))), shape=(n_sketched, n_rows))
