"""Every library minimises the same objective: its parameters are mapped right, whichever label comes first."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from symsgd.bench.apart import Apart
from symsgd.bench.datasets import Dataset
from symsgd.bench.newton import Objective, least
from symsgd.bench.stored_task import write_task
from symsgd.bench.systems import liblinear, liblinear_multicore
from symsgd.bench.systems.base import Model, System, Task
from symsgd.bench.systems.registry import LEAST_SQUARES, LOGISTIC, PLACES, make

ALPHA = 1e-3
IN_THIS_PROCESS = ("symsgd", "scikit-learn", "LAPACK", "randomised sketch")

# of these the method, or its noise, has an end of its own above the least value; weights of 0 are at 0.61
ROUGH = {
    "scikit-learn SGD constant": 0.2,
    "scikit-learn SGD averaged": 0.01,
    "Vowpal Wabbit": 0.4,
    "Vowpal Wabbit SGD": 0.01,
    "xlearn SGD": 0.3,
    "xlearn AdaGrad": 0.05,
}
BUDGETS = {"saga": 100, "LIBLINEAR": 16, "liblinear": 16, "LAPACK": 1, "lbfgs": 40, "newton": 20, "sketch": 30}


def a_task(loss: str = "log_loss", dense: bool = False, turned: bool = False) -> Task:
    """Rows of length 1, one of them empty, and a planted model; ``turned``: the other labels."""
    random = np.random.RandomState(0)
    X = sp.random(1500, 25, 0.3, format="csr", dtype=np.float32, random_state=random, data_rvs=random.standard_normal)
    X = sp.csr_matrix(X.multiply(1 / np.maximum(1e-6, np.sqrt(X.multiply(X).sum(1)))), dtype=np.float32)
    chances = 1 / (1 + np.exp(-3 * np.asarray(X @ random.standard_normal(25)) - 1))
    y = np.where(random.rand(1500) < chances, 1, -1)
    data = Dataset("planted", X.toarray() if dense else X, -y if turned else y)
    return Task(data, loss, ALPHA, fit_intercept=False, n_threads=1)


def solved(name: str, task: Task, budget: int, folder: Path) -> Model:
    system = make(name)
    if reason := system.reason_against(task):
        pytest.skip(reason)
    if name.startswith(IN_THIS_PROCESS):
        system.set_up(task)
        system.run(budget)
        return system.model()
    write_task(task, folder)
    with Apart(name, folder, task.n_threads) as apart:
        assert apart.set_up(120).reason == ""
        answer = apart.train(budget, 120)
        assert answer.reason == ""
        assert answer.model is not None
        return answer.model


def gap(model: Model, task: Task) -> float:
    objective = Objective(task.data.X.astype(np.float64), np.asarray(task.targets), task.alpha, task.loss)
    return objective.of_predictions(model.coef, model.decision(objective.X)) / least(objective).value - 1


def budget_of(name: str) -> int:
    return next((budget for part, budget in BUDGETS.items() if part in name), 60)


@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
@pytest.mark.parametrize("name", [name for name in LOGISTIC if name != "symsgd"])
def test_logistic_regression(name: str, turned: bool, tmp_path: Path) -> None:
    task = a_task(turned=turned)
    model = solved(name, task, budget_of(name), tmp_path)
    found = gap(model, task)
    assert found < ROUGH.get(name, 1e-3)
    if not name.startswith("xlearn"):
        assert model.intercept == 0
        assert found > -1e-9


@pytest.mark.parametrize("name", ["scikit-learn newton-cholesky", "scikit-learn lbfgs", "LIBLINEAR", "snapml"])
def test_dense_rows(name: str, tmp_path: Path) -> None:
    task = a_task(dense=True)
    assert gap(solved(name, task, budget_of(name), tmp_path), task) < 1e-3


@pytest.mark.parametrize("name", [name for name in LEAST_SQUARES if name != "symsgd"])
def test_least_squares(name: str, tmp_path: Path) -> None:
    task = a_task("squared_error", dense=True)
    assert gap(solved(name, task, budget_of(name), tmp_path), task) < 1e-5


def test_the_sketch_comes_nearer_with_every_few_steps(tmp_path: Path) -> None:
    task = a_task("squared_error", dense=True)
    gaps = [gap(solved("randomised sketch", task, budget, tmp_path), task) for budget in (1, 4, 12)]
    assert gaps[0] > 10 * gaps[1]
    assert gaps[1] > gaps[2] >= -1e-9


def test_lapack_in_double_precision_has_more_digits(tmp_path: Path) -> None:
    task = replace(a_task("squared_error", dense=True), alpha=0.0)
    best = np.linalg.lstsq(task.data.X.astype(np.float64), task.targets)[0]
    errors = [np.abs(solved("LAPACK QR", task, budget, tmp_path).coef - best).max() for budget in (1, 2)]
    assert errors[1] < 1e-9 < errors[0] < 1e-2


@pytest.mark.parametrize("name", list(PLACES))
def test_it_says_what_it_is_not_compared_on(name: str) -> None:
    system = make(name)
    assert isinstance(system, System)
    if name == "symsgd":
        return
    other = "squared_error" if name in LOGISTIC else "log_loss"
    assert other in system.reason_against(a_task(other, dense=True))
    assert "intercept" in system.reason_against(
        replace(a_task("log_loss" if name in LOGISTIC else "squared_error", dense=True), fit_intercept=True)
    )


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(liblinear.Liblinear, "module", "no_such_module_anywhere")
    monkeypatch.setattr(liblinear_multicore, "folder", lambda: tmp_path / "none")
    assert make("LIBLINEAR").reason_against(a_task()) == (
        "liblinear-official is not installed: pip install liblinear-official"
    )
    reason = make("liblinear-multicore").reason_against(a_task())
    assert "liblinear-multicore is not installed" in reason
    assert f"--target {tmp_path / 'none'}" in reason


@pytest.mark.parametrize("name", list(PLACES))
def test_budgets_grow(name: str) -> None:
    budgets = list(itertools.islice(make(name).budgets(), 12))
    assert budgets == sorted(set(budgets))
    assert all(make(name).settings(budget)["budget"] == budget for budget in budgets)


def test_a_system_that_nobody_has_is_refused() -> None:
    with pytest.raises(ValueError, match="system='sklearn' is not known; accepted are symsgd, scikit-learn SGD"):
        make("sklearn")
