"""Synthetic twins of the paper's data sets: the same shape, sparsity and correlations, without the download.

A twin imitates what decides how an SGD behaves on the real set (the paper's table "Datasets characteristics"): rows,
features, nonzeros a row and their spread, the share of nonzeros on frequent features, correlated features, and a
linear model that is good but not perfect. There are three kinds of population, one file each: ``text``, ``onehot`` and
``factors``; ``table`` has their parameters.

Populations are drawn once, with NumPy; rows in the core, on several threads. Every row has random numbers of its own,
from the seed, its part (training or held out) and its number, so it is the same in whatever order rows are drawn.
"""

from __future__ import annotations

from numbers import Integral
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from symsgd._choices import check_number
from symsgd.data.conversion import convert
from symsgd.data.dataset import gather
from symsgd.data.twins.population import Labels, Rows, Twin, TwinSpec
from symsgd.data.twins.stream import TwinReader
from symsgd.data.twins.table import TWINS
from symsgd.threads import resolve_threads

__all__ = ["TWINS", "Twin", "TwinSpec", "twin", "twin_readers"]

TEST_SHARE = 0.2


def twin(
    name: str,
    scale: float = 1.0,
    seed: int = 0,
    *,
    store: str | PathLike[str] | None = None,
    n_threads: int | None = None,
) -> Twin:
    """The twin of the data set ``name`` with ``scale`` times its rows, and a fifth as many held-out rows on top.

    The same name, scale and seed give the same rows, whatever the number of threads. The population (vocabulary,
    factors, planted model) depends on name and seed only.

    With ``store`` the rows go straight to disk and are mapped from there: the training rows to the store of that name,
    those held out to one beside it, ``criteo.store`` and ``criteo.test.store``. A few chunks of rows are in memory.
    """
    training, held_out = twin_readers(name, scale, seed, n_threads=n_threads)
    if store is None:
        return Twin(*_in_memory(training), *_in_memory(held_out), name)
    path = Path(store)
    rows = convert(training, path)
    rows_test = convert(held_out, path.with_name(f"{path.stem}.test{path.suffix}"))
    return Twin(rows.X, rows.y, rows_test.X, rows_test.y, name)


def twin_readers(
    name: str, scale: float = 1.0, seed: int = 0, *, n_threads: int | None = None
) -> tuple[TwinReader, TwinReader]:
    """The training rows of a twin and those held out, as readers of them: nothing is drawn before it is read."""
    threads = resolve_threads(n_threads, "n_threads")
    if not isinstance(name, str) or name not in TWINS:
        names = ", ".join(repr(known) for known in sorted(TWINS))
        raise ValueError(f"name={name!r} is not known; accepted are {names}")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed={seed!r} is not accepted; it must be a non-negative integer")
    spec = TWINS[name]
    n_train = max(1, round(spec.n_rows * check_number("scale", scale, above=0.0)))
    n_test = max(1, round(n_train * TEST_SHARE))
    seeds = [SeedSequence(int(seed), spawn_key=(part,)) for part in range(3)]
    population = spec.population(Generator(PCG64(seeds[0])), threads)
    title = f"twin of {name}, scale {scale:g}, seed {seed}"
    return (
        TwinReader(spec, population, seeds[1], n_train, f"{title}: training rows", threads),
        TwinReader(spec, population, seeds[2], n_test, f"{title}: held-out rows", threads),
    )


def _in_memory(reader: TwinReader) -> tuple[Rows, Labels]:
    rows = gather(reader)
    return rows.X, rows.y.astype(np.int8)
