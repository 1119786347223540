"""Ctrl-C leaves a pass of any strategy in the middle, with a model that can be used.

One process goes through all strategies. A helper thread sends the signal as soon as the first pass has ended and the
second has let go of the GIL; a pass takes far longer than the signal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals work differently on Windows")

HEAD = """
import json, os, signal, sys, threading
import numpy as np
import scipy.sparse as sp
import symsgd
from symsgd import schedules, strategies
sys.path[:0] = [{tests!r}]
from strategy_cases import EVERY

SIZES = {sizes}

sys.setswitchinterval(3600)  # nobody has to give the GIL away: the helper runs when a pass has let go of it

def interrupted(X, y, strategy, n_threads, n_first):
    go = threading.Event()

    def send():
        go.wait()
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=send)
    helper.start()
    ended = []

    class Go(symsgd.callbacks.Callback):
        def on_pass(self, record):
            if record.number == n_first:
                go.set()

        def on_end(self, result):
            ended.append(result)

    try:
        symsgd.train(X, y, strategy=strategy, n_threads=n_threads, n_passes=10**6, callbacks=Go(),
                     schedule=schedules.Constant(1e-3), loss="log_loss")
    except KeyboardInterrupt as interrupt:
        helper.join()
        result = interrupt.result
        return {{
            "type": type(interrupt).__name__,
            "ended": ended,
            "passes": len(result.passes),
            "t": result.t,
            "finite": bool(np.isfinite(result.coef).all() and np.isfinite(result.intercept).all()),
            "moved": bool(result.coef.any()),
            "scores": list(result.decision(X[:10]).shape),
        }}
"""

# rows and classes; combiners multiply the work of a row, by 16 for 15 columns, by 300 for a matrix of that size
SIZES = {
    "": (30_000, 60),
    "mr-symsgd": (5000, 30),
    "async-symsgd": (5000, 30),
    "exact": (10_000, 30),
    "walk": (10_000, 30),
    "async-exact": (3000, 3),
    "adagrad-mean": (5000, 30),
    "allreduce": (5000, 30),
    "round-robin": (10_000, 60),
}

EVERY_STRATEGY = """
X = np.random.default_rng(0).standard_normal((30_000, 300)).astype(np.float32)
answers = {}
for name, strategy in EVERY.items():
    n, classes = SIZES.get(name, SIZES[""])
    answers[name] = interrupted(X[:n], np.arange(n) % classes, strategy, 3, 1)
print(json.dumps(answers))
"""

UNEVEN = """
# the first block of a pass, which a helper takes before the calling thread is there, has everything to do
n, f = 1500, 1000
rng = np.random.default_rng(0)
X = sp.vstack([sp.csr_matrix(rng.standard_normal((n, f))), sp.csr_matrix((3 * n, f))]).tocsr().astype(np.float32)
y = np.arange(4 * n) % 200
strategies.available_cores = lambda: 4
train, symsgd.train = symsgd.train, lambda *a, **k: train(*a, shuffle=False, **k)
print(json.dumps([interrupted(X, y, strategies.Averaging(), 4, 1)["t"] for _ in range(6)]))
"""


def run(code: str) -> Any:
    tests = os.path.dirname(os.path.dirname(__file__))
    done = subprocess.run(
        [sys.executable, "-c", HEAD.format(tests=tests, sizes=SIZES) + code],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_strategy_leaves_a_pass_in_the_middle() -> None:
    answers = run(EVERY_STRATEGY)
    assert len(answers) == 19
    for strategy, told in answers.items():
        n, classes = SIZES.get(strategy, SIZES[""])
        assert told["type"] == "TrainingInterrupted", strategy
        assert told["passes"] == 1, strategy
        assert 1 + n <= told["t"] < 1 + 2 * n, strategy
        assert told["finite"], strategy
        assert told["moved"], strategy
        assert told["scores"] == [10, classes], strategy
        assert told["ended"] == [None], strategy


def test_a_pass_is_left_while_others_still_train() -> None:
    """The calling thread's block may be the first to end; several times, since who gets which is chance."""
    n = 6000
    assert all(t < 1 + 2 * n for t in run(UNEVEN))
