"""Made sparse rows that grow in one number: how many there are, of how many features, with how many nonzeros each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling.plan import ScalingPlan
from symsgd.bench.protocols.scaling.runs import row, trained
from symsgd.bench.protocols.scores import seconds_of, share_alone
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task

PARTS = ("rows", "features", "nonzeros")
SYSTEMS = {"sequential": "sequential", "auto": "auto"}
SKEW = 3  # of the features' frequencies, as in text: the first thousandth has a tenth of the entries
NOISE = 0.3


def measure(part: str, plan: ScalingPlan, around: Surroundings) -> Iterator[Row]:
    """Sequential on one thread and "auto" on the most of the plan."""
    place = PARTS.index(part)
    for value in (plan.rows, plan.features, plan.nonzeros)[place]:
        rows, features, nonzeros = (value if at == place else usual for at, usual in enumerate(plan.usual))
        around.tell(f"{part}: making {rows:,} rows of {nonzeros} of {features:,} features")
        data = made(rows, features, nonzeros, around.seed)
        settings = {"rows": rows, "features": features, "nonzeros": nonzeros, "passes": plan.growth_passes}
        for repeat in range(plan.repeats):
            for system, strategy in SYSTEMS.items():
                n_threads = 1 if system == "sequential" else max(plan.thread_counts)
                task = replace(Task(data, alpha=plan.alpha, seed=around.seed), n_threads=n_threads)
                result = trained(task, strategy, plan, plan.growth_passes)
                if isinstance(result, str):
                    yield row(part, task, system, repeat, settings, reason=result)
                    continue
                seconds = seconds_of(result)
                measures = {
                    "seconds": seconds,
                    "pass_seconds": seconds / plan.growth_passes,
                    "ns_per_nonzero": 1e9 * seconds / plan.growth_passes / data.n_entries,
                    "alone": share_alone(result),
                }
                yield row(part, task, system, repeat, settings, measures=measures)


def made(rows: int, features: int, nonzeros: int, seed: int = 0) -> Dataset:
    """Rows of unit length whose label is the side of a plane that they are on, give or take some noise."""
    rng = np.random.default_rng(seed)
    indices = (rng.random(rows * nonzeros, np.float32) ** SKEW * features).astype(np.int32)
    np.minimum(indices, features - 1, out=indices)
    values = np.full(rows * nonzeros, nonzeros**-0.5, np.float32)
    starts = np.arange(0, rows * nonzeros + 1, nonzeros, dtype=np.int64 if rows * nonzeros >= 2**31 else np.int32)
    truth = rng.standard_normal(features, np.float32)
    X = sp.csr_matrix((values, indices, starts), shape=(rows, features))
    X.sum_duplicates()
    noise = NOISE * rng.standard_normal(rows, np.float32)
    return Dataset("made rows", X, np.where(X @ truth + noise > 0, 1, -1))
