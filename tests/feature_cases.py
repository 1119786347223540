"""Strategies whose threads share features, on rows where their models are the sequential one to rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from symsgd import Result, train
from symsgd.strategies import Directions, Sliced, Strategy


@dataclass(frozen=True)
class Kind:
    """A strategy on rows that are laid out in one way; its models are the sequential ones to `rtol`."""

    strategy: Strategy
    sparse: bool
    rtol: float

    def laid_out(self, X: Any) -> Any:
        return sp.csr_matrix(X) if self.sparse else X

    def both(self, X: Any, y: Any, n_threads: int, **case: Any) -> tuple[Result, Result]:
        case = {"n_passes": 3, "seed": 1, **case}
        X = self.laid_out(X)
        sequential = train(X, y, strategy="sequential", n_threads=1, **case)
        return train(X, y, strategy=self.strategy, n_threads=n_threads, **case), sequential

    def compare(self, X: Any, y: Any, n_threads: int, rtol: float | None = None, **case: Any) -> Result:
        """The model, which is the sequential one."""
        found, wanted = self.both(X, y, n_threads, **case)
        rtol = rtol or self.rtol
        largest = np.abs(wanted.coef).max()
        assert largest > 0
        assert_allclose(found.coef, wanted.coef, rtol=rtol, atol=rtol * largest)
        assert_allclose(found.intercept, wanted.intercept, rtol=rtol, atol=rtol)
        assert (found.t, found.n_passes, found.converged) == (wanted.t, wanted.n_passes, wanted.converged)
        for one, other in zip(found.passes, wanted.passes, strict=True):
            assert one.rows == other.rows
            assert one.loss == pytest.approx(other.loss, rel=rtol, abs=rtol)
            if other.objective is not None:
                assert one.objective == pytest.approx(other.objective, rel=10 * rtol)
        return found


SLICED = Kind(Sliced(), False, 1e-9)
DIRECTIONS = [Kind(Directions(32, 32), sparse, 1e-7) for sparse in (False, True)]
