"""A task as files of a folder, for another process: all but the held-out rows, which no training sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from symsgd.bench.datasets import Dataset
from symsgd.bench.systems.base import Task

FILE_NAME = "task.json"
SPARSE_PARTS = ("data", "indices", "indptr")


def write_task(task: Task, folder: Path) -> None:
    """Writes arrays and, last, the file that names them."""
    X = task.data.X
    sparse = sp.issparse(X)
    parts = {part: getattr(X, part) for part in SPARSE_PARTS} if sparse else {"X": np.ascontiguousarray(X)}
    for name, array in (parts | {"y": np.asarray(task.data.y)}).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    content = {
        "sparse": sparse, "shape": [int(own) for own in X.shape], "data": task.data.name, "task": task.data.task,
        "loss": task.loss, "alpha": task.alpha, "fit_intercept": task.fit_intercept, "seed": task.seed,
    }  # fmt: skip
    (folder / FILE_NAME).write_text(json.dumps(content), encoding="utf-8")


def read_task(folder: Path, n_threads: int) -> Task:
    """The task, its arrays read into memory."""
    content = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    X: Any
    if content["sparse"]:
        data, indices, indptr = (_array(folder, part) for part in SPARSE_PARTS)
        X = sp.csr_matrix((data, indices, indptr), shape=content["shape"], copy=False)
    else:
        X = _array(folder, "X")
    return Task(
        data=Dataset(content["data"], X, _array(folder, "y"), task=content["task"]),
        loss=content["loss"],
        alpha=content["alpha"],
        fit_intercept=content["fit_intercept"],
        n_threads=n_threads,
        seed=content["seed"],
    )


def _array(folder: Path, name: str) -> Any:
    return np.load(folder / f"{name}.npy", allow_pickle=False)
