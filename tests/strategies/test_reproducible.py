"""In rounds, the same data, seed and number of threads give the same bits, whoever trains which block."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from strategy_cases import ADAGRAD, IN_ROUNDS, dense_rows, laid_out, targets
from symsgd import Result, losses, penalties, schedules, strategies, train
from symsgd.combiners import Exact, Projected
from symsgd.strategies import MapReduce

N = 700
PLAIN = ADAGRAD  # no averages
STRATEGIES = IN_ROUNDS | {
    "projected-3": MapReduce(Projected(3), block_size=5),
    "exact-5": MapReduce(Exact("matrix"), block_size=5),
    "one-row": MapReduce(block_size=1),
    "one-block": MapReduce(block_size=10**6),
}


def trained(strategy: str, n_threads: int, layout: str = "csr", seed: int = 3, **more: Any) -> Result:
    """A loss with a kink, so that the drift of the margins is followed too."""
    X, loss = dense_rows(N, 40, density=0.2), losses.Hinge()
    case = {
        "loss": loss,
        "penalty": penalties.L2(1e-3) if strategy in PLAIN else penalties.ElasticNet(1e-3, 0.3),
        "schedule": schedules.Constant(0.05),
        "average": False if strategy in PLAIN else 100,
        "n_passes": 2,
        **more,
    }
    matrix, chosen = laid_out(X, layout), STRATEGIES[strategy]
    return train(matrix, targets(X, loss), strategy=chosen, n_threads=n_threads, seed=seed, **case)


def bits(result: Result) -> str:
    digest = hashlib.sha256()
    for array in (result.coef, result.intercept, result.average_coef, result.average_intercept):
        digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    digest.update(repr([record.loss for record in result.passes]).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("n_threads", [2, 3, 5, 16])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_bits_again(monkeypatch: pytest.MonkeyPatch, strategy: str, n_threads: int) -> None:
    """Whether one thread of the machine trains all blocks, or each has a thread of its own."""
    layout = "dense" if n_threads == 3 else "csr"
    found = {bits(trained(strategy, n_threads, layout)) for _ in range(3)}
    for cores in (1, 2, n_threads - 1, n_threads):
        monkeypatch.setattr(strategies, "available_cores", lambda cores=cores: cores)
        found |= {bits(trained(strategy, n_threads, layout)) for _ in range(2)}
    assert len(found) == 1


@pytest.mark.parametrize("strategy", IN_ROUNDS)
def test_another_number_of_threads_or_seed_is_another_training(strategy: str) -> None:
    """So that the test above is about something. Steps are small, or one thread would go on alone with "auto"."""
    more = {"schedule": schedules.Constant(0.002), "n_passes": 4}
    found = [bits(trained(strategy, threads, seed=seed, **more)) for threads, seed in [(3, 3), (4, 3), (3, 4)]]
    assert len(set(found)) == (
        2 if strategy == "curvature-auto" and found[0] == found[1] else 3
    )  # so few rows are trained alone


@pytest.mark.parametrize("strategy", IN_ROUNDS)
def test_the_same_bits_for_several_classes_that_stop(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    X = dense_rows(300, 20)
    y = np.argmax(X[:, :4] + 0.3 * dense_rows(300, 4, seed=9), axis=1)
    found = set()
    for cores in (1, 2, 5, 5):
        monkeypatch.setattr(strategies, "available_cores", lambda cores=cores: cores)
        result = train(
            X, y, strategy=STRATEGIES[strategy], n_threads=5, n_passes=20, tol=0.01, patience=2, loss="log_loss",
            schedule=schedules.Constant(0.05), eval_set=(X, y),
        )  # fmt: skip
        found.add((bits(result), result.n_passes, result.passes[-1].validation_score))
    assert len(found) == 1


def test_a_new_projection_for_every_seed_block_and_pass() -> None:
    """In storage order nothing but the projection depends on the seed."""
    case = {"shuffle": False, "penalty": penalties.NoPenalty(), "average": False}
    assert bits(trained("mr-symsgd", 3, seed=1, **case)) != bits(trained("mr-symsgd", 3, seed=2, **case))
    assert bits(trained("sum", 3, seed=1, **case)) == bits(trained("sum", 3, seed=2, **case))


# Another process

PROCESS = """
import sys
sys.path[:0] = [{tests!r}, {here!r}]
from test_reproducible import IN_ROUNDS, bits, trained
for strategy in IN_ROUNDS:
    print(bits(trained(strategy, 5)))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_the_same_bits_in_another_process_on_one_core() -> None:
    here = os.path.dirname(__file__)
    code = PROCESS.format(tests=os.path.dirname(here), here=here)
    code = f"import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n{code}"
    limits = {"OMP_NUM_THREADS": "1", "SYMSGD_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | limits)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [bits(trained(strategy, 5)) for strategy in IN_ROUNDS]
