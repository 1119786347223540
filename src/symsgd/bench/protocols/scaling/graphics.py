"""A GPU beside the CPU: our own backend, and mini-batches in PyTorch.

It is made for dense rows. Of sparse ones that are nearly full, a copy that is stored dense is one more set: on the CPU
as well, since the intercept of dense rows learns at another rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling import cuda, minibatches
from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task

NEARLY_FULL = 0.1  # of the numbers are not zero: a dense row has five times the bytes at most


def measure(data: Dataset, plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
    yield from _measure(data, plan, around)
    if sp.issparse(data.X) and data.n_entries >= NEARLY_FULL * data.n_rows * data.n_features:
        dense = stored_dense(data)
        sizes = {**plan.step_sizes, dense.name: plan.step_size(data.name)}
        yield from _measure(dense, replace(plan, step_sizes=sizes), around)


def _measure(data: Dataset, plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
    task = Task(data, alpha=plan.alpha, seed=around.seed)
    yield from cuda.measure(task, plan, around)
    yield from minibatches.measure(task, plan, around)


def stored_dense(data: Dataset) -> Dataset:
    """The same rows, every number of them."""
    X, X_test = (np.ascontiguousarray(rows.toarray()) for rows in (data.X, data.X_test))
    return replace(data, name=f"{data.name}, stored dense", X=X, X_test=X_test)
