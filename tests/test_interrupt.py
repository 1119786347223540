"""Ctrl-C stops a training in the middle of a pass and leaves a usable model; other Python threads are not held up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from symsgd import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor, train
from symsgd.callbacks import Callback, PassRecord

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals work differently on Windows")

LONGEST_WAIT = 120  # seconds, for a process that should be gone within one

# A pass over 20,000 rows for 300 classes takes the better part of a second, far longer than a signal.
SLOW_PASS = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 200)).astype(np.float32)
y = np.arange(20_000) % 300
"""

TRAIN = (
    SLOW_PASS
    + """
import json, sys, threading
import symsgd

class Ready(symsgd.callbacks.Callback):
    def on_start(self, n_passes, n_rows):
        go.set()

    def on_end(self, result):
        ended.append(result)

def say_ready():
    go.wait()
    print("ready", flush=True)

ended, go = [], threading.Event()
threading.Thread(target=say_ready).start()
sys.setswitchinterval(3600)  # nobody has to give the GIL away: "ready" is said when the pass has let go of it
try:
    symsgd.train(X, y, n_passes=1000, CHOICES, callbacks=Ready())
except KeyboardInterrupt as interrupt:
    result = interrupt.result
    print(json.dumps({
        "type": type(interrupt).__name__,
        "ended": ended,
        "passes": len(result.passes),
        "t": result.t,
        "finite": bool(np.isfinite(result.coef).all()),
        "moved": bool(result.coef.any()),
        "averaged": result.average_coef is not None and bool(np.isfinite(result.average_coef).all()),
        "scores": list(result.decision(X[:10]).shape),
    }))
"""
)

FIT = """
import json
import numpy as np
import symsgd

rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 20))
y = X[:, 0] > 0
model = symsgd.ESTIMATOR(max_iter=10**9, tol=None, random_state=0, n_jobs=1)
model.callbacks = lambda record: print("ready", flush=True) if record.number == 3 else None
try:
    model.fit(X, y)
except KeyboardInterrupt:
    model.callbacks = None
    print(json.dumps({
        "n_iter": model.n_iter_,
        "passes": len(model.result_.passes),
        "t": model.t_,
        "finite": bool(np.isfinite(model.coef_).all()),
        "score": model.score(X, y),
    }))
    model.partial_fit(X, y)
"""


def interrupted(code: str) -> dict[str, Any]:
    """Runs `code`, sends it a SIGINT when it says "ready", and returns the line it then prints."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and line != "ready\n":
            pass
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=LONGEST_WAIT)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    answer: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return answer


@pytest.mark.parametrize(
    ("choices", "average"),
    [
        ("n_threads=1", False),
        ("n_threads=1, average=True", True),
        ("n_threads=2, strategy='sliced'", False),
        ("n_threads=2, strategy='directions'", False),
    ],
)
def test_a_pass_is_left_in_the_middle(choices: str, average: bool) -> None:
    told = interrupted(TRAIN.replace("CHOICES", choices))
    assert told["type"] == "TrainingInterrupted"
    assert told["passes"] == 0
    assert 1 < told["t"] < 20_001
    assert told["finite"]
    assert told["moved"]
    assert told["averaged"] is average
    assert told["scores"] == [10, 300]
    assert told["ended"] == [None]


@pytest.mark.parametrize("estimator", ["SGDClassifier", "SGDRegressor"])
def test_an_interrupted_estimator_holds_a_usable_model(estimator: str) -> None:
    told = interrupted(FIT.replace("ESTIMATOR", estimator))
    assert 3 <= told["n_iter"] < 10**9
    assert told["n_iter"] == told["passes"]
    assert told["t"] == 1 + 2000 * told["n_iter"]
    assert told["finite"]
    assert told["score"] > 0.5


# Other threads


def fit(number: int) -> Any:
    X = np.random.default_rng(number).standard_normal((3000, 12))
    estimator = [SGDClassifier, SGDRegressor, Perceptron, SGDOneClassSVM][number % 4]
    return estimator(random_state=number, max_iter=20, tol=None).fit(X, np.argmax(X[:, :3], axis=1))


def test_fits_from_several_threads_at_once() -> None:
    alone = [fit(number) for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(12)))
    for a, b in zip(alone, together, strict=True):
        assert_array_equal(a.coef_, b.coef_)
        assert a.n_iter_ == b.n_iter_


def test_one_estimators_data_may_be_shared_between_threads() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 12)).astype(np.float32)
    y = X[:, 0] > 0
    seeds = range(8)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: train(X, y, seed=seed, n_passes=5).coef, seeds))
    for seed, coef in zip(seeds, together, strict=True):
        assert_array_equal(coef, train(X, y, seed=seed, n_passes=5).coef)


class Handshake(Callback):
    """Lets another thread go when the training starts, and sees after the first pass whether it went."""

    def __init__(self) -> None:
        self.go, self.went = threading.Event(), threading.Event()
        self.went_during_the_pass = False

    def on_start(self, n_passes: int, n_rows: int) -> None:
        self.go.set()

    def on_pass(self, record: PassRecord) -> None:
        self.went_during_the_pass = self.went.is_set()


def test_python_runs_on_while_a_pass_does() -> None:
    """Nobody has to give the GIL away for an hour: the other thread goes only if the pass lets go of it."""
    scope: dict[str, Any] = {}
    exec(SLOW_PASS, scope)
    handshake = Handshake()

    def other() -> None:
        handshake.go.wait()
        handshake.went.set()

    helper = threading.Thread(target=other)
    helper.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600.0)
    try:
        train(scope["X"], scope["y"], n_passes=1, n_threads=1, callbacks=handshake)
    finally:
        sys.setswitchinterval(interval)
        handshake.go.set()
        helper.join()
    assert handshake.went_during_the_pass
