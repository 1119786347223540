"""The arrays of the oracle, all float64 but for orders."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Order = NDArray[np.intp]
Touched = Literal["all", "nonzero"]
