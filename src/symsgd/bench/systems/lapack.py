"""LAPACK's least squares on all cores: the whole problem in one go.

½ mean squared error + (alpha/2)‖w‖² is least squares of the rows and √(n alpha) I below them. Budget 1 is in the data's
precision, budget 2 in double precision where that is another.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.peer import Peer


class _Lapack(Peer):
    module: ClassVar[str] = "scipy"
    package: ClassVar[str] = "scipy"
    losses: ClassVar[tuple[str, ...]] = ("squared_error",)

    def reason_against(self, task: Task) -> str:
        return "it takes dense rows" if sp.issparse(task.data.X) else super().reason_against(task)

    def budgets(self) -> Iterator[int]:
        yield from (1, 2)

    def settings(self, budget: int) -> dict[str, Any]:
        return {"budget": budget, "precision": "of the data" if budget == 1 else "double"}

    def run(self, budget: int) -> None:
        dtype = self.X.dtype if budget == 1 else np.dtype(np.float64)
        self.coef = self.solve(self.X.astype(dtype, copy=False), self.y.astype(dtype, copy=False))

    @abstractmethod
    def solve(self, X: Any, y: Any) -> Any:
        """The weights."""

    def model(self) -> Model:
        return Model(np.asarray(self.coef, np.float64))


class Lapack(_Lapack):
    """gels: a QR factorisation of the rows."""

    name: ClassVar[str] = "LAPACK QR"

    def solve(self, X: Any, y: Any) -> Any:
        n, f = X.shape
        below = np.eye(f, dtype=X.dtype) * X.dtype.type(np.sqrt(n * self.task.alpha))
        rows = np.asfortranarray(np.concatenate([X, below]))
        targets = np.concatenate([y, np.zeros(f, X.dtype)])
        gels, gels_lwork = scipy.linalg.get_lapack_funcs(("gels", "gels_lwork"), (rows,))
        room = int(gels_lwork(n + f, f, 1)[0].real)
        _, solution, failed = gels(rows, targets, lwork=room, overwrite_a=True, overwrite_b=True)
        if failed:
            raise ValueError(f"gels ended with {failed}")
        return solution[:f]


class LapackCholesky(_Lapack):
    """posv: a Cholesky factorisation of the normal equations, which are faster and lose digits."""

    name: ClassVar[str] = "LAPACK Cholesky"

    def solve(self, X: Any, y: Any) -> Any:
        n, f = X.shape
        squares = X.T @ X
        squares[np.diag_indices(f)] += n * self.task.alpha
        return scipy.linalg.solve(squares, X.T @ y, assume_a="pos", check_finite=False, overwrite_a=True)
