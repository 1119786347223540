"""A training on a machine that was stopped ends with the same bits as one that was not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from gpu_cases import in_rounds, on_cpu, on_machine
from strategy_cases import dense_rows, targets
from symsgd import CheckpointError, EarlyStopping, losses, penalties, schedules
from symsgd.combiners import Curvature
from symsgd.gpu.host import Host
from symsgd.strategies import MapReduce

ROWS = 600


class KilledError(Exception):
    pass


def killed_after(number: int) -> Any:
    def kill(record: Any) -> None:
        if record.number == number:
            raise KilledError

    return kill


EXACT = "sequential"
AUTO = MapReduce(Curvature(), block_size="auto")
CASES: dict[str, dict[str, Any]] = {
    "exact": {"strategy": EXACT},
    "exact, full order": {"strategy": EXACT, "shuffle": "full"},
    "exact, storage order": {"strategy": EXACT, "shuffle": False},
    "exact, blocks": {"strategy": EXACT, "shuffle": "blocks"},
    "exact, float32": {"strategy": EXACT, "dtype": "f4"},
    "exact, linear": {"strategy": EXACT, "schedule": "linear"},
    "exact, optimal": {"strategy": EXACT, "schedule": schedules.Optimal(1e-2)},
    "exact, adaptive": {"strategy": EXACT, "schedule": schedules.Adaptive(0.5), "tol": 1e-2, "patience": 1},
    "exact, classes": {"strategy": EXACT, "classes": 4, "tol": 2e-2, "patience": 1},
    "exact, held out": {
        "strategy": EXACT, "early_stopping": EarlyStopping(np.arange(ROWS) % 6 == 0), "tol": 1e-3, "patience": 3
    },
    "rounds": {"strategy": AUTO},
    "rounds, storage order": {"strategy": AUTO, "shuffle": False},
    "rounds, float32": {"strategy": AUTO, "dtype": "f4"},
    "rounds, hinge": {"strategy": AUTO, "loss": "hinge"},
    "rounds, few directions": {
        "strategy": MapReduce(Curvature(rank=2, tolerance=1e-3), "auto"), "schedule": schedules.Constant(0.3)
    },
    "rounds, blocks given": {"strategy": MapReduce(Curvature(), 4)},
    "rounds, swept": {"strategy": MapReduce(Curvature(refine=1), 8)},
    "rounds, classes": {"strategy": AUTO, "classes": 4, "tol": 2e-2, "patience": 1},
    "rounds, linear": {"strategy": AUTO, "schedule": "linear"},
    "rounds, sparse": {"strategy": AUTO, "sparse": True},
}  # fmt: skip


def prepared(case: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    case = dict(case)
    X = dense_rows(ROWS, 6).astype(case.pop("dtype", "f8"))
    classes = case.pop("classes", 2)
    y = targets(X, losses.LogLoss())
    if case.pop("sparse", False):
        X = sp.csr_matrix(np.where(X > 0, X, 0.0))
    if classes > 2:
        y = np.argmax(X[:, :classes] + 0.5 * dense_rows(ROWS, classes, seed=9), axis=1)
    return X, y, {"n_passes": 4, "schedule": schedules.Constant(0.1), "penalty": penalties.L2(1e-3), "seed": 2, **case}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_killed_and_resumed(case: dict[str, Any], tmp_path: Path) -> None:
    X, y, choices = prepared(case)
    expected = on_machine(Host(), X, y, **choices)
    path = tmp_path / "training"
    for number in range(2, expected.n_passes + 1, 2):  # killed in pass 2, 4, …: what is kept is of the one before
        with pytest.raises(KilledError):
            on_machine(Host(), X, y, checkpoint=path, callbacks=killed_after(number), **choices)
    result = on_machine(Host(), X, y, checkpoint=path, **choices)
    assert_array_equal(result.coef, expected.coef)
    assert_array_equal(result.intercept, expected.intercept)
    assert (result.t, result.converged) == (expected.t, expected.converged)
    assert [dataclasses.replace(record, seconds=0.0) for record in result.passes] == [
        dataclasses.replace(record, seconds=0.0) for record in expected.passes
    ]


def test_a_checkpoint_of_the_cpu_is_of_another_training(tmp_path: Path) -> None:
    X, y, choices = prepared({"strategy": EXACT})
    on_cpu(X, y, checkpoint=tmp_path / "training", **choices)
    with pytest.raises(CheckpointError, match="another training"):
        on_machine(Host(), X, y, checkpoint=tmp_path / "training", **choices)


def test_a_checkpoint_of_rounds_is_not_one_of_rows(tmp_path: Path) -> None:
    X, y, choices = prepared({})
    in_rounds(X, y, AUTO, checkpoint=tmp_path / "training", **choices)
    with pytest.raises(CheckpointError, match="another training"):
        on_machine(Host(), X, y, checkpoint=tmp_path / "training", **choices)
