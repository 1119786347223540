"""HogBatch and round robin on one thread, by hand: the predictions of a batch come first, then its updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strategy_cases import close, dense_rows, laid_out, name, targets, trained, weights
from symsgd import losses, penalties, reference, schedules
from symsgd.strategies import HogBatch, RoundRobin

N = 600
PIECE = 256  # rows that a thread of HogBatch takes at a time: a batch ends where they do


def by_hand(X: np.ndarray, y: np.ndarray, c: np.ndarray, parts: Any, loss: Any, alpha: float, kappa: float) -> Any:
    """w decays at every row; a step's own decay counts from the next row on, as in a sequential run."""
    w, b, t = np.zeros(X.shape[1]), 0.0, 1.0
    schedule = schedules.InvScaling(0.05, power=0.2)
    for part in parts:
        steps, moved = [], 0.0
        for i in part:
            eta = reference.step_size(schedule, loss, t)
            u = -eta * c[i] * float(reference.gradient(loss, X[i] @ w + b, y[i]))
            w = (1 - eta * alpha) * w
            steps = [(s * (1 - eta * alpha), x) for s, x in steps] + [(u, X[i])]
            moved += u
            t += 1
        w, b = w + sum(s * x for s, x in steps), b + kappa * moved
    return w, b


@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("loss", [losses.LogLoss(), losses.SquaredError()], ids=name)
@pytest.mark.parametrize("batch_size", [1, 7, 16, 256])
@pytest.mark.parametrize("strategy", [HogBatch, RoundRobin], ids=name)
def test_predictions_first_then_updates(strategy: Any, batch_size: int, loss: Any, alpha: float, layout: str) -> None:
    X = dense_rows(N, 9, density=1.0 if layout == "dense" else 0.4, scale=0.2)
    y, c = targets(X, loss), weights(N)
    (order,) = reference.full_order(N, 5, 1)
    pieces = [order[i : i + PIECE] for i in range(0, N, PIECE)] if strategy is HogBatch else [order]
    parts = [piece[i : i + batch_size] for piece in pieces for i in range(0, len(piece), batch_size)]
    w, b = by_hand(X, y, c, parts, loss, alpha, 1.0 if layout == "dense" else 0.01)
    result = trained(
        laid_out(X, layout),
        y,
        strategy(batch_size),
        n_threads=1,
        n_passes=1,
        loss=loss,
        penalty=penalties.L2(alpha),
        schedule=schedules.InvScaling(0.05, power=0.2),
        sample_weight=c,
    )
    close(result.coef[0], w, 1e-10)
    close(result.intercept[0], b, 1e-10)


def test_a_batch_is_not_a_sequence() -> None:
    """So that the test above is about something."""
    X = dense_rows(N, 9)
    y, case = targets(X, losses.SquaredError()), {"loss": "squared_error", "schedule": schedules.Constant(0.05)}
    one, many = (trained(X, y, HogBatch(size), n_threads=1, n_passes=1, **case).coef for size in (1, 16))
    assert np.abs(one - many).max() > 1e-3
