"""What a benchmark trains on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test rows; ``reason`` says why there are none. ``task`` is binary, multiclass or regression."""

    name: str
    X: Any = None
    y: Any = None
    X_test: Any = None
    y_test: Any = None
    task: str = "binary"
    reason: str = ""

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_entries(self) -> int:
        """Stored numbers: nonzeros of sparse rows, all of dense ones."""
        return int(self.X.nnz if sp.issparse(self.X) else self.X.size)

    @property
    def signs(self) -> Any:
        """Targets of two classes as ±1."""
        return np.where(np.asarray(self.y) > 0, 1.0, -1.0)
