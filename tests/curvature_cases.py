"""Problems for the curvature combiner, and the oracle's run of what the core does with it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from strategy_cases import written_orders
from symsgd import Result, penalties, reference, schedules, train
from symsgd.combiners import Curvature
from symsgd.reference.losses import PIECEWISE_LINEAR
from symsgd.strategies import MapReduce, Sequential, Strategy

SAMPLE_ENTRIES, NET_ENTRIES = 50_000, 8192  # the sample's for each block of a round
SETTLED, SOON = 16384, 512  # rows after which the curvature is estimated again; where gradients jump
ANY_ERROR = 1e9  # a tolerance for which no round is refined more than once, and none is trained again

Problem = tuple[sp.csr_array, np.ndarray, dict[str, Any]]  # rows, labels, choices


def curved(block_size: Any = "auto", **parameters: Any) -> Strategy:
    return MapReduce(Curvature(**parameters), block_size)


def trained(X: Any, y: Any, strategy: Strategy | str, n_threads: int = 1, **more: Any) -> Result:
    case = {"shuffle": "full", "seed": 5, "n_passes": 2, **more}
    return train(X, y, strategy=strategy, n_threads=n_threads, **case)


def sequential(X: Any, y: Any, **more: Any) -> Result:
    return trained(X, y, Sequential(), **more)


def off(result: Result, other: Result, X: Any) -> float:
    """How far predictions are apart, as a share of their spread."""
    found, wanted = result.decision(X), other.decision(X)
    return float(np.sqrt(np.mean((found - wanted) ** 2)) / np.std(wanted))


def zipf_rows(n: int, n_features: int, entries: int, seed: int = 0) -> sp.csr_matrix:
    """Feature numbers say nothing of how frequent features are; values are of either sign."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_features + 1)
    place = rng.permutation(n_features)
    drawn = place[rng.choice(n_features, size=(n, entries), p=share / share.sum())]
    X = sp.csr_matrix((rng.standard_normal(n * entries), drawn.ravel(), np.arange(0, n * entries + 1, entries)))
    X.resize((n, n_features))
    X.sum_duplicates()
    return X


def labels_of(X: sp.csr_matrix, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = X @ rng.standard_normal(X.shape[1])
    return np.where(scores + rng.logistic(size=X.shape[0]) > 0, 1.0, -1.0)


def one_hot(fields: int, values: int, alike: int, step_size: float) -> Problem:
    """40,000 rows of as many fields, some values of which are common; every column is there `alike` times."""
    rng = np.random.default_rng(0)
    n = 40_000
    columns = np.minimum(rng.geometric(3 / values, (n, fields)) - 1, values - 1) + np.arange(fields) * values
    columns = (columns[:, :, None] * alike + np.arange(alike)).reshape(n, -1)
    each = columns.shape[1]
    entries = np.full(columns.size, each**-0.5)
    X = sp.csr_array((entries, columns.ravel(), np.arange(n + 1) * each), shape=(n, fields * values * alike))
    chance = 1 / (1 + np.exp(-0.3 * fields**0.5 * (X @ rng.standard_normal(X.shape[1]))))
    return X, rng.random(n) < chance, {"schedule": schedules.Constant(step_size), "penalty": penalties.L2(1e-6)}


def spread_rows(order: Any, wanted: int, turn: int) -> list[int]:
    """Every so many rows of an order, another set each turn."""
    n, count = len(order), min(wanted, len(order))
    bounds = pairwise(i * n // count for i in range(count + 1))
    return [int(order[begin + turn * 7919 % (end - begin)]) for begin, end in bounds]


def oracle(
    X: np.ndarray,
    y: Any,
    matrix: Any,
    *,
    n_threads: int,
    block_size: int,
    refine: Any = "auto",
    shuffle: Any = "full",
    seed: int = 5,
    passes: int = 2,
    coef: Any = None,
    **choices: Any,
) -> tuple[reference.State, list[float]]:
    """The last state, and the mean loss of each pass, of `curved(block_size, refine=…, rank=…, tolerance=ANY_ERROR)`
    with a rank that leaves nothing out."""
    learner = reference.make_learner(X, y, intercept_decay=0.01 if sp.issparse(matrix) else 1.0, **choices)
    mean = 1 + (matrix.nnz if sp.issparse(matrix) else matrix.size) // len(X)
    n_sample = min(max(SAMPLE_ENTRIES * n_threads // mean, 256), 2048 * n_threads)
    n_net = min(max(NET_ENTRIES // mean, 16), 128)
    orders = written_orders(shuffle, len(X), seed, passes)
    net = spread_rows(orders[0], n_net, 5)
    state, losses = reference.start_state(learner, coef), []
    done = taken = next_sample = 0
    settled = SOON if learner.loss.name in PIECEWISE_LINEAR else SETTLED
    drift, H = 0.0, np.zeros((X.shape[1] + 1,) * 2)
    for order in orders:
        loss = 0.0
        for rows in reference.split(order, n_threads, block_size):
            before = state.vector
            if len(rows) == 1:
                blocks = [reference.run_block(learner, state, rows[0])]
                state = blocks[0].end
            else:
                if done >= next_sample:
                    H = reference.mean_curvature(learner, state, spread_rows(order, n_sample, taken), drift)
                    taken, next_sample = taken + 1, max(4 * done, min(settled, len(X)))
                sweeps = 0 if refine == "auto" else refine
                round_ = reference.curvature_round(learner, state, rows, H, sweeps=sweeps)
                blocks, state = round_.blocks, round_.end
                loss += round_.stale
            done += sum(map(len, rows))
            loss += sum(block.loss for block in blocks)
            if done >= next_sample and len(rows) > 1:
                drift = 0.5 * rms_of_margins(X[net], state.vector - before)
        losses.append(loss / len(order))
    return state, losses


def rms_of_margins(X: np.ndarray, d: np.ndarray) -> float:
    return float(np.sqrt(np.mean((X @ d[:-1] + d[-1]) ** 2)))


def loss_of(result: Result, X: Any, y: Any, loss: Any) -> float:
    """The mean loss of a binary model or a regression."""
    labels = y if result.classes is None else np.where(np.asarray(y) == result.classes[1], 1.0, -1.0)
    return float(np.mean(reference.value(loss, result.decision(X), labels)))
