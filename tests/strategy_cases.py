"""Problems for the strategies, the strategies by their names, and the oracle's run of a native training in rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose

from symsgd import Result, _core, losses, penalties, reference, schedules, train
from symsgd.combiners import AdaGradMean, Curvature, Exact, Mean, Sum
from symsgd.strategies import (
    AllReduce,
    Async,
    Averaging,
    HogBatch,
    Hogwild,
    MapReduce,
    ParameterServer,
    RoundRobin,
    Strategy,
)

LOSSES = [
    losses.LogLoss(),
    losses.Hinge(),
    losses.Perceptron(),
    losses.SquaredHinge(),
    losses.ModifiedHuber(),
    losses.SquaredError(),
    losses.Huber(epsilon=0.3),
    losses.EpsilonInsensitive(epsilon=0.2),
    losses.SquaredEpsilonInsensitive(epsilon=0.2),
    losses.OneClass(nu=0.3),
]
PENALTIES = [
    penalties.NoPenalty(),
    penalties.L2(0.05),
    penalties.L1(0.01),
    penalties.ElasticNet(0.04, l1_ratio=0.2),
    penalties.Lasso(0.005),
]
SCHEDULES = [
    schedules.Constant(0.15),
    schedules.InvScaling(0.3, power=0.3),
    schedules.Optimal(0.8),
    schedules.Linear(0.2, 400),
]
PASSIVE_AGGRESSIVE = [schedules.PassiveAggressive1(0.3), schedules.PassiveAggressive2(0.4)]

IN_ROUNDS: dict[str, Strategy] = {
    "mr-symsgd": MapReduce(block_size=16),
    "exact": MapReduce(Exact(), block_size=16),
    "walk": MapReduce(Exact(form="walk"), block_size=16),
    "sum": MapReduce(Sum(), block_size=16),
    "mean": MapReduce(Mean(), block_size=16),
    "adagrad-mean": MapReduce(AdaGradMean(0.1), block_size=16),
    "curvature": MapReduce(Curvature(), block_size=16),
    "curvature-auto": MapReduce(Curvature(), block_size="auto"),
    "averaging": Averaging(),
    "allreduce": AllReduce(0.1),
}
RACY: dict[str, Strategy] = {
    "hogwild": Hogwild(),
    "hogbatch": HogBatch(4),
    "round-robin": RoundRobin(2),
    "parameter-server": ParameterServer(16),
    "async-symsgd": Async(block_size=16),
    "async-exact": Async(Exact(), block_size=16),
    "async-sum": Async(Sum(), block_size=16),
    "async-curvature": Async(Curvature(), block_size=16),
    "async-curvature-auto": Async(Curvature(), block_size="auto"),
}
EVERY = IN_ROUNDS | RACY
ADAGRAD = ("allreduce", "adagrad-mean")  # whatever the schedule says, these take AdaGrad's steps
CURVATURE = ("curvature", "curvature-auto")  # blocks as their errors allow
ASYNC_CURVATURE = ("async-curvature", "async-curvature-auto")
NAMES = [
    "sequential", "hogwild", "hogbatch", "round-robin", "averaging", "allreduce", "parameter-server", "mr-symsgd",
    "async-symsgd",
]  # fmt: skip


def name(case: Any) -> str:
    """A readable id of a parameter."""
    if isinstance(case, Exact):
        return f"exact-{case.form}"
    return str(getattr(case, "name", getattr(case, "__name__", case)))


# Data


def dense_rows(n: int, f: int, *, density: float = 1.0, scale: float = 0.4, seed: int = 0) -> np.ndarray:
    """n × f numbers of which a share of `density` is not zero, exact in both precisions. Some sparse rows are empty."""
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, f))
    if density < 1.0:
        X *= rng.random((n, f)) < density
        X[5::11] = 0.0
    return X.astype(np.float32).astype(np.float64)


def targets(X: np.ndarray, loss: Any, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = 2 * X @ rng.standard_normal(X.shape[1]) + 0.2 + 0.3 * rng.standard_normal(len(X))
    if not loss.margin:
        return y.astype(np.float32).astype(np.float64)
    labels = np.where(y > np.median(y), 1.0, -1.0)
    labels[:2] = [1.0, -1.0][: len(labels)]
    return labels


def weights(n: int, seed: int = 2) -> np.ndarray:
    """From 0 to 2, zeros among them; no two alike, so that no intercept comes to lie on a kink again."""
    drawn = np.random.default_rng(seed).uniform(0.0, 2.0, n)
    drawn[np.arange(n) % 9 == 4] = 0.0
    drawn[0] = 1.0
    return drawn


def laid_out(X: np.ndarray, layout: str, dtype: Any = np.float64) -> Any:
    """As "dense", "csr" (32-bit indices) or "csr64"."""
    if layout == "dense":
        return X.astype(dtype)
    matrix = sp.csr_matrix(X.astype(dtype))
    index = np.int64 if layout == "csr64" else np.int32
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    return matrix


def messy(X: np.ndarray, *, repeat: bool) -> sp.csr_matrix:
    """The same matrix with unsorted indices and, if asked, every third entry split into two."""
    rng = np.random.default_rng(8)
    indptr, indices, data = [0], list[int](), list[float]()
    for x in X:
        entries = [(j, x[j]) for j in np.flatnonzero(x)]
        if repeat:
            entries = [e for j, v in entries for e in ([(j, 3 * v), (j, -2 * v)] if j % 3 == 0 else [(j, v)])]
        rng.shuffle(entries)
        indices += [int(j) for j, _ in entries]
        data += [float(v) for _, v in entries]
        indptr.append(len(indices))
    return sp.csr_matrix((np.array(data), np.array(indices, np.int32), np.array(indptr, np.int32)), shape=X.shape)


# The oracle's run of a training in rounds


def written_orders(shuffle: Any, n: int, seed: int, passes: int) -> Sequence[Any]:
    if shuffle is False:
        return reference.storage_order(n, passes)
    return (reference.window_order if shuffle is True else reference.full_order)(n, seed, passes)


def knows_all(matrix: Any, combiner: Any, penalty: Any, block_size: int) -> bool:
    """Whether a block's replica has every feature (Rounds::shape)."""
    if not sp.issparse(matrix):
        return True
    if isinstance(combiner, AdaGradMean) or (isinstance(combiner, Mean) and penalty.name == "lasso"):
        return True
    if isinstance(combiner, Exact) and (
        combiner.form == "matrix" or (combiner.form == "auto" and matrix.shape[1] <= 128)
    ):
        return True
    return matrix.nnz // matrix.shape[0] * block_size >= matrix.shape[1]


def native_projection(
    matrix: Any, orders: Sequence[Any], block_size: int, seed: int, *, whole: bool, class_number: int = 0
) -> Callable[[int, int, int, int], np.ndarray]:
    """The core's own A: its i-th row belongs to feature i, or to the i-th feature that the block meets."""
    f = matrix.shape[1]

    def features_of(rows: Any) -> Any:
        if whole:
            return np.arange(f)
        met = np.concatenate([matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]] for row in rows])
        return np.array(list(dict.fromkeys(met.tolist())), dtype=np.intp)

    def projection(pass_: int, block: int, n_states: int, k: int) -> np.ndarray:
        features = features_of(orders[pass_][block * block_size : (block + 1) * block_size])
        A = np.zeros((n_states, k))
        for part in range((n_states - 1) // f):
            drawn = _core.write_projection(seed, pass_, block, 4 * class_number + part, len(features), k)
            A[part * f + features] = drawn
        A[-1] = _core.write_projection(seed, pass_, block, 4 * class_number + 2, 1, k)[0]
        return A

    return projection


def oracle(
    X: np.ndarray,
    y: Any,
    matrix: Any,
    *,
    combiner: Any,
    n_threads: int,
    block_size: int,
    penalty: Any,
    shuffle: Any = "full",
    seed: int = 5,
    passes: int = 2,
    mask: Any = None,
    class_number: int = 0,
    **more: Any,
) -> reference.SequentialRun:
    """`reference.rounds` of what `train` does with `matrix`, which holds the numbers of X."""
    orders, sparse = written_orders(shuffle, len(X), seed, passes), sp.issparse(matrix)
    if mask is not None:
        orders = [order[~np.asarray(mask)[order]] for order in orders]
    whole = knows_all(matrix, combiner, penalty, block_size)
    return reference.rounds(
        X,
        y,
        orders=orders,
        n_blocks=n_threads,
        block_size=block_size,
        combiner=combiner,
        penalty=penalty,
        projection=native_projection(matrix, orders, block_size, seed, whole=whole, class_number=class_number),
        whole=whole,
        intercept_decay=0.01 if sparse else 1.0,
        touched="nonzero" if sparse else "all",
        **more,
    )


def trained(matrix: Any, y: Any, strategy: Any, **more: Any) -> Result:
    """`train` with the defaults of `oracle`."""
    return train(matrix, y, strategy=strategy, **{"shuffle": "full", "seed": 5, "n_passes": 2, **more})


# Comparisons


def close(found: Any, wanted: Any, tolerance: float) -> None:
    scale = max(1e-3, float(np.max(np.abs(wanted), initial=0.0)))
    assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)


def assert_same(result: Result, run: reference.SequentialRun, c: int = 0, *, tolerance: float = 1e-9) -> None:
    """Model c of a training equals the oracle's run, averages, steps and (of a single model) losses included."""
    close(result.coef[c], run.coef, tolerance)
    close(result.intercept[c], run.intercept, tolerance)
    assert result.t == run.t
    if result.average_coef is not None and result.average_intercept is not None:
        close(result.average_coef[c], run.average_coef, tolerance)
        close(result.average_intercept[c], run.average_intercept, tolerance)
    if len(result.coef) == 1:
        close([record.loss for record in result.passes], run.losses, tolerance)


def assert_same_result(result: Result, other: Result, tolerance: float = 1e-10) -> None:
    """Two trainings reached the same model, averages and losses included."""
    assert result.t == other.t
    close(result.coef, other.coef, tolerance)
    close(result.intercept, other.intercept, tolerance)
    assert (result.average_coef is None) == (other.average_coef is None)
    if other.average_coef is not None:
        close(result.average_coef, other.average_coef, tolerance)
        close(result.average_intercept, other.average_intercept, tolerance)
    close([record.loss for record in result.passes], [record.loss for record in other.passes], tolerance)


def flat_rows(count: int = 300, features: int = 150, seed: int = 0, dtype: str = "f8", rank: int = 20) -> Any:
    """Dense rows that lie in `rank` directions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, features))
    return (X / np.sqrt(rank * features)).astype(dtype)
