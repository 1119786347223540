"""A training that was killed ends with the same bits as one that was not."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from symsgd import CheckpointError, EarlyStopping, Result, Start, penalties, schedules, train
from symsgd.combiners import Curvature, Exact, Projected
from symsgd.strategies import AllReduce, Async, Averaging, MapReduce

ROWS, FEATURES, PASSES = 9_001, 300, 6  # rows enough for the window order


class KilledError(Exception):
    pass


def killed_after(number: int) -> Any:
    """A callback: nothing that the training does after it in that pass comes about."""

    def kill(record: Any) -> None:
        if record.number == number:
            raise KilledError

    return kill


def rows(dense: bool = False) -> Any:
    rng = np.random.default_rng(0)
    if dense:
        return rng.standard_normal((ROWS, 12))
    X = sp.random(ROWS, FEATURES, 0.04, format="csr", dtype=np.float32, rng=rng)
    X.data -= 0.5
    return X


def labels(X: Any, classes: int = 2) -> Any:
    rng = np.random.default_rng(1)
    scores = X @ rng.standard_normal((X.shape[1], classes)) + 0.3 * rng.standard_normal((X.shape[0], classes))
    return scores.argmax(1)


def assert_same(result: Result, expected: Result) -> None:
    for name in ("coef", "intercept", "average_coef", "average_intercept", "gathered_coef", "gathered_intercept"):
        found, wanted = getattr(result, name), getattr(expected, name)
        assert (found is None) == (wanted is None)
        if found is not None:
            assert_array_equal(found, wanted)
    assert result.t == expected.t
    assert result.losses == expected.losses
    assert result.converged == expected.converged
    assert [dataclasses.replace(record, seconds=0.0) for record in result.passes] == [
        dataclasses.replace(record, seconds=0.0) for record in expected.passes
    ]


held_out = np.zeros(ROWS, bool)
held_out[::9] = True

CASES: dict[str, dict[str, Any]] = {
    "sequential": {"strategy": "sequential"},
    "full order": {"strategy": "sequential", "shuffle": "full"},
    "storage order": {"strategy": "sequential", "shuffle": False},
    "l1": {"strategy": "sequential", "penalty": penalties.L1(1e-4)},
    "elastic net": {"strategy": "sequential", "penalty": penalties.ElasticNet(1e-4, l1_ratio=0.3), "average": 3000},
    "lasso": {"strategy": "sequential", "penalty": penalties.Lasso(1e-4)},
    "averages": {"strategy": "sequential", "average": True},
    "adaptive": {"strategy": "sequential", "schedule": schedules.Adaptive(0.5), "tol": 1e-2, "patience": 1},
    "linear": {"strategy": "sequential", "schedule": "linear"},
    "classes": {"strategy": "sequential", "classes": 5, "tol": 1e-3, "patience": 1},
    "early stopping": {"strategy": "sequential", "early_stopping": EarlyStopping(held_out), "tol": 1e-3, "patience": 2},
    "dense": {"strategy": "sequential", "dense": True},
    "averaging": {"strategy": Averaging(), "n_threads": 3},
    "allreduce": {"strategy": AllReduce(), "n_threads": 3},
    "projected": {"strategy": MapReduce(Projected(k=7), block_size=200), "n_threads": 3},
    "exact": {"strategy": MapReduce(Exact(), block_size=200), "n_threads": 2, "dense": True},
    "curvature": {"strategy": MapReduce(Curvature(), block_size="auto"), "n_threads": 3},
    "curvature, blocks given": {"strategy": MapReduce(Curvature(), block_size=64), "n_threads": 2},
    "curvature, hinge": {"strategy": MapReduce(Curvature(), block_size="auto"), "n_threads": 2, "loss": "hinge"},
    "curvature, swept": {"strategy": MapReduce(Curvature(refine=1), block_size=64), "n_threads": 3},
    "curvature, linear": {"strategy": MapReduce(Curvature(), block_size="auto"), "n_threads": 2, "schedule": "linear"},
    "curvature, averages": {"strategy": MapReduce(Curvature(), block_size=64), "n_threads": 2, "average": True},
    "curvature, l1": {
        "strategy": MapReduce(Curvature(), block_size=64), "n_threads": 2, "penalty": penalties.L1(1e-5)
    },
    "curvature, classes": {
        "strategy": MapReduce(Curvature(), block_size=64), "n_threads": 2, "classes": 5, "tol": 1e-2, "patience": 1
    },
    "curvature, dense": {"strategy": MapReduce(Curvature(), block_size="auto"), "n_threads": 2, "dense": True},
}  # fmt: skip


def prepared(case: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    case = dict(case)
    X = rows(case.pop("dense", False))
    y = labels(X, case.pop("classes", 2))
    return X, y, {"n_passes": PASSES, "schedule": schedules.Constant(0.1), **case}


@pytest.mark.usefixtures("rounds_on_small_problems")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("every", [1, 2])
def test_killed_and_resumed(case: dict[str, Any], every: int, tmp_path: Path) -> None:
    X, y, choices = prepared(case)
    expected = train(X, y, **choices)
    path = tmp_path / "training"
    for number in range(2, len(expected.passes) + 1, 2):  # killed in pass 2, 4, …; what `every` has kept is older
        with pytest.raises(KilledError):
            train(X, y, **choices, checkpoint=path, every=every, callbacks=killed_after(number))
    result = train(X, y, **choices, checkpoint=path, every=every)
    assert_same(result, expected)
    # one that has ended is read, not trained again
    again = train(X, y, **choices, checkpoint=path, callbacks=killed_after(len(expected.passes)))
    assert_same(again, expected)


def test_renumbered_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, f = 12_000, 20_000
    columns = np.minimum(20 * rng.pareto(0.7, (n, 30)), f - 1).astype(np.int32)
    X = sp.csr_matrix((np.ones(columns.size, np.float32), np.sort(columns).ravel(), np.arange(n + 1) * 30), (n, f))
    X.sum_duplicates()
    y = labels(X)
    choices: dict[str, Any] = {"strategy": MapReduce(Curvature(), block_size=64), "n_threads": 2, "n_passes": 4}
    choices["schedule"] = schedules.Constant(0.002)
    expected = train(X, y, **choices)
    assert sum(record.merges for record in expected.passes) > 0
    with pytest.raises(KilledError):
        train(X, y, **choices, checkpoint=tmp_path / "training", callbacks=killed_after(3))
    assert_same(train(X, y, **choices, checkpoint=tmp_path / "training"), expected)


def test_racy_strategies_go_on_from_the_model(tmp_path: Path) -> None:
    X = rows()
    y = labels(X)
    for strategy in ("hogwild", Async(Projected(k=3)), Async(Curvature(), block_size=64)):
        path = tmp_path / "training"
        path.unlink(missing_ok=True)
        choices = {"strategy": strategy, "n_threads": 2, "n_passes": 4}
        with pytest.raises(KilledError):
            train(X, y, **choices, checkpoint=path, callbacks=killed_after(3))
        result = train(X, y, **choices, checkpoint=path)
        assert [record.number for record in result.passes] == [1, 2, 3, 4]
        assert np.mean((result.decision(X) > 0) == y) > 0.8


@pytest.mark.parametrize("strategy", ["sequential", AllReduce()], ids=["sequential", "allreduce"])
def test_a_training_that_has_ended(strategy: Any, tmp_path: Path) -> None:
    """It is resumed without a pass, to the same result."""
    X = rows()
    case = {"strategy": strategy, "n_threads": 2, "n_passes": 3, "checkpoint": tmp_path / "kept"}
    if strategy == "sequential":
        case["schedule"] = schedules.Constant(0.1)
    ended = train(X, labels(X), **case)
    assert len(ended.losses) == 1
    assert_same(train(X, labels(X), **case), ended)


def test_more_passes_go_on(tmp_path: Path) -> None:
    X = rows()
    y = labels(X)
    choices = {"strategy": "sequential", "checkpoint": tmp_path / "training"}
    train(X, y, n_passes=3, **choices)
    assert_same(train(X, y, n_passes=5, **choices), train(X, y, n_passes=5, strategy="sequential"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "order was full of seed 0 and is full of seed 1"),
        ({"loss": "hinge"}, "loss, penalty and schedule was Rule"),
        ({"n_threads": 2}, "n_threads was 1 and is 2"),
        ({"strategy": Averaging()}, "strategy was Sequential"),
        ({"sample_weight": np.arange(1, 41.0)}, "sample_weight was none"),
        ({"init": Start(np.ones((1, 3)), np.zeros(1))}, "init was none"),
        ({"fit_intercept": False}, "fit_intercept was True and is False"),
        ({"tol": 0.1}, "tol, patience was None, 5"),
    ],
    ids=lambda case: "" if isinstance(case, str) else next(iter(case)),
)
def test_another_training_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    choices = {"strategy": "sequential", "n_threads": 1, "n_passes": 2, "checkpoint": tmp_path / "training"}
    train(X, y, **choices)
    before = (tmp_path / "training").read_bytes()
    with pytest.raises(CheckpointError, match="is of another training") as refused:
        train(X, y, **choices | change)
    assert said in str(refused.value)
    assert refused.value.path == str(tmp_path / "training")
    assert (tmp_path / "training").read_bytes() == before


def test_other_data_is_refused(tmp_path: Path) -> None:
    X, y = rows(), labels(rows())
    choices = {"n_passes": 1, "checkpoint": tmp_path / "training", "n_threads": 1}
    train(X, y, **choices)
    other = X.copy()
    other.indices[7] = (other.indices[7] + 1) % FEATURES
    with pytest.raises(CheckpointError, match="X was 9001 rows of 300 features"):
        train(other, y, **choices)
    with pytest.raises(CheckpointError, match="y was binary"):
        train(X, 1 - y, **choices)


def test_damage_is_refused(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    path = tmp_path / "training"
    choices = {"strategy": "sequential", "n_passes": 2, "checkpoint": path}
    train(X, y, **choices)
    whole = path.read_bytes()
    rng = random.Random(0)
    for length in [0, 1, 40, *rng.sample(range(len(whole)), 20)]:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            train(X, y, **choices)
    for at in rng.sample(range(len(whole)), 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        with pytest.raises(CheckpointError):
            train(X, y, **choices)


def test_bad_arguments(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    with pytest.raises(ValueError, match=r"every=0"):
        train(X, y, checkpoint=tmp_path / "training", every=0)
    with pytest.raises(ValueError, match="is a folder"):
        train(X, y, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        train(X, y, checkpoint=tmp_path / "nowhere" / "training")
    with pytest.raises(TypeError, match="must be the path of a file"):
        train(X, y, checkpoint=3)
    with pytest.raises(ValueError, match="keep=True"):
        train(
            X, X[:, 0], loss="squared_error", schedule="constant", strategy=MapReduce(Exact(keep=True)), shuffle=False,
            checkpoint=tmp_path / "training",
        )  # fmt: skip


TRAINING = """
import sys
import numpy as np
from symsgd import schedules, train
from symsgd.combiners import Curvature
from symsgd.strategies import MapReduce

rng = np.random.default_rng(0)
X = rng.standard_normal((3000, 10))
y = X @ rng.standard_normal(10) + rng.standard_normal(3000) > 0
result = train(
    X, y, strategy=MapReduce(Curvature(), block_size=32), n_threads=2, n_passes=400, schedule=schedules.Constant(0.01),
    checkpoint=sys.argv[1] or None,
)
print(result.coef.tobytes().hex(), result.n_passes)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINING]
    expected = subprocess.run([*command, ""], check=True, capture_output=True, text=True).stdout
    path = tmp_path / "training"
    moments = random.Random(0)
    reached = 0
    for _ in range(8):
        with subprocess.Popen([*command, str(path)], stdout=subprocess.DEVNULL) as process:
            while not path.exists() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(moments.uniform(0.0, 0.1))
            process.kill()
        archive = np.load(path)  # whatever is there is whole
        passes = len(json.loads(bytes(archive["checkpoint.json"]))["passes"])
        assert passes >= reached
        reached = passes
    ended = subprocess.run([*command, str(path)], check=True, capture_output=True, text=True).stdout
    assert ended == expected
    assert [file.name for file in tmp_path.iterdir() if not file.name.startswith(".")] == ["training"]
