"""Which features of a data set are frequent: those that Async-SymSGD keeps combiners for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd._choices import check_count, check_number
from symsgd.analysis.blocks import as_rows


def frequent_features(X: Any, threshold: float = 0.1, sample: int = 1000, seed: int = 0) -> npt.NDArray[np.intp]:
    """The features, ascending, that are nonzero in at least a share `threshold` of `sample` rows drawn from X.

    What Async-SymSGD keeps combiners for. All rows are read if there are no more than `sample`.
    """
    threshold = check_number("threshold", threshold, at_least=0.0, at_most=1.0)
    rows = _nonzeros(as_rows(X))
    n = rows.shape[0]
    if check_count("sample", sample) < n:
        rows = rows[np.sort(np.random.default_rng(seed).choice(n, sample, replace=False))]
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    return np.flatnonzero(counts >= threshold * rows.shape[0])


def nfnz_ratio(X: Any, threshold: float = 0.1, sample: int = 1000, seed: int = 0) -> float:
    """The paper's average NFNZ ratio: of a row's nonzero features the share that is frequent, averaged over the rows.

    Rows without nonzeros do not count. The arguments are those of :func:`frequent_features`.
    """
    rows = _nonzeros(as_rows(X))
    frequent = np.zeros(rows.shape[1])
    frequent[frequent_features(rows, threshold, sample, seed)] = 1.0
    lengths = np.diff(rows.indptr)
    if not lengths.any():
        raise ValueError("X has no nonzero value")
    ones = type(rows)((np.ones(len(rows.data)), rows.indices, rows.indptr), shape=rows.shape)
    return float(np.mean((ones @ frequent)[lengths > 0] / lengths[lengths > 0]))


def _nonzeros(rows: Any) -> Any:
    """The rows as CSR without stored zeros."""
    rows = sp.csr_matrix(rows, copy=True)
    rows.eliminate_zeros()
    return rows
