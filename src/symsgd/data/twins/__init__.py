"""Synthetic twins of the paper's data sets: the same shape, sparsity and correlations, without the download.

A twin imitates what decides how an SGD behaves on the real set (the paper's table "Datasets characteristics"): rows,
features, nonzeros a row and their spread, the share of nonzeros on frequent features, correlated features, and a
linear model that is good but not perfect. There are three kinds of population, one file each: ``text``, ``onehot`` and
``factors``; ``table`` has their parameters.

Every chunk of rows has its own child of the seed: the draws, several times the size of the rows, stay within a chunk.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator, SeedSequence

from symsgd._choices import check_number
from symsgd.data.twins.population import Labels, Rows, RowSampler, Twin, TwinSpec
from symsgd.data.twins.table import TWINS

__all__ = ["TWINS", "Twin", "TwinSpec", "twin"]

TEST_SHARE = 0.2


def twin(name: str, scale: float = 1.0, seed: int = 0) -> Twin:
    """The twin of the data set ``name`` with ``scale`` times its rows, and a fifth as many held-out rows on top.

    The same name, scale and seed give the same rows. The population (vocabulary, factors, planted model) depends on
    name and seed only.
    """
    if not isinstance(name, str) or name not in TWINS:
        names = ", ".join(repr(known) for known in sorted(TWINS))
        raise ValueError(f"name={name!r} is not known; accepted are {names}")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed={seed!r} is not accepted; it must be a non-negative integer")
    spec = TWINS[name]
    n_train = max(1, round(spec.n_rows * check_number("scale", scale, above=0.0)))
    n_test = max(1, round(n_train * TEST_SHARE))
    rows = spec.sampler(_child(seed, 0))
    X, y = _in_chunks(rows, n_train, spec.chunk_rows, seed, 1)
    X_test, y_test = _in_chunks(rows, n_test, spec.chunk_rows, seed, 2)
    return Twin(X, y, X_test, y_test, name)


def _child(seed: int, *key: int) -> Generator:
    return np.random.Generator(np.random.PCG64(SeedSequence(int(seed), spawn_key=key)))


def _in_chunks(rows: RowSampler, n_rows: int, chunk_rows: int, seed: int, part: int) -> tuple[Rows, Labels]:
    sizes = [min(chunk_rows, n_rows - start) for start in range(0, n_rows, chunk_rows)]
    chunks = [rows(size, _child(seed, part, chunk)) for chunk, size in enumerate(sizes)]
    parts = [X for X, _ in chunks]
    X = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
    return X, np.concatenate([y for _, y in chunks])
