"""How many threads are used: every core by default, fewer where the environment or joblib says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from symsgd import SGDClassifier, decision, threads
from symsgd.threads import available_cores, resolve_threads

VARIABLES = ["SYMSGD_NUM_THREADS", "OMP_NUM_THREADS"]


@pytest.fixture(autouse=True)
def _eight_cores_and_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(threads, "available_cores", lambda: 8)


@pytest.mark.parametrize(
    ("n_jobs", "expected"), [(None, 8), (1, 1), (3, 3), (20, 20), (-1, 8), (-2, 7), (-8, 1), (-9, 1), (-100, 1)]
)
def test_as_in_joblib(n_jobs: int | None, expected: int) -> None:
    assert resolve_threads(n_jobs) == expected


@pytest.mark.parametrize("number", [np.int8(3), np.int64(3), np.uint32(3)], ids=lambda number: number.dtype.name)
def test_integers_of_every_type(number: Any) -> None:
    assert resolve_threads(number) == 3
    assert type(resolve_threads(number)) is int


@pytest.mark.parametrize("n_jobs", [0, 1.0, 1.5, "x", "2", True, False, [1], np.float64(2.0)], ids=repr)
def test_bad_values(n_jobs: Any) -> None:
    with pytest.raises(ValueError, match=r"n_jobs=.* is not accepted; it must be None or an integer other than 0"):
        resolve_threads(n_jobs)
    with pytest.raises(ValueError, match=r"workers=.* is not accepted"):
        resolve_threads(n_jobs, "workers")


# The environment


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("3", 3), ("8", 8), ("100", 8)])
def test_the_environment_lowers_the_default(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, expected: int
) -> None:
    monkeypatch.setenv(variable, text)
    assert resolve_threads(None) == expected


def test_the_smaller_of_two_variables_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for first, second in [("2", "5"), ("5", "2")]:
        monkeypatch.setenv(VARIABLES[0], first)
        monkeypatch.setenv(VARIABLES[1], second)
        assert resolve_threads(None) == 2


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "2.5"])
def test_variables_that_say_nothing_useful_are_passed_over(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    for variable in VARIABLES:
        monkeypatch.setenv(variable, text)
    assert resolve_threads(None) == 8


def test_who_asks_for_a_number_gets_it_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMSGD_NUM_THREADS", "2")
    assert resolve_threads(5) == 5


# The machine


def test_cores_are_those_of_the_affinity_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_group_limit", lambda: 1 << 30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert available_cores() == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max 100000", 16), ("400000 100000", 4), ("150000 100000", 2), ("1000 100000", 1), ("nonsense", 16), ("", 16)],
)
def test_cores_are_limited_by_the_control_group(monkeypatch: pytest.MonkeyPatch, text: str, expected: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    assert available_cores() == expected


def test_no_control_group_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: Path) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)
    monkeypatch.setattr(Path, "read_text", missing)
    assert available_cores() == 16


# joblib


def resolved(n_jobs: int | None) -> int:
    """In another process, where the fixture above does not reach and loky has set a variable of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS", raising=False)
        patch.setattr(threads, "available_cores", lambda: 8)
        return resolve_threads(n_jobs)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_one_thread_inside_a_worker_of_joblib(backend: str) -> None:
    answers = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(resolved)(None) for _ in range(4))
    assert answers == [1] * 4


def test_a_number_asked_for_holds_inside_a_worker_too() -> None:
    assert joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(resolved)(3) for _ in range(2)) == [3, 3]


def test_joblib_around_a_single_job_is_no_worker() -> None:
    """With n_jobs=1 joblib runs the jobs in place, and nothing else wants the cores."""
    assert joblib.Parallel(n_jobs=1)(joblib.delayed(resolved)(None) for _ in range(2)) == [8, 8]
    assert resolve_threads(None) == 8


# The answer does not depend on it


@pytest.mark.parametrize("n_jobs", [1, 2, 5, -1])
def test_models_and_scores_are_the_same_whatever_the_number(n_jobs: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 7))
    y = X[:, 0] > 0
    one = SGDClassifier(random_state=0, max_iter=2, tol=None, n_jobs=1).fit(X, y)
    many = SGDClassifier(random_state=0, max_iter=2, tol=None, n_jobs=n_jobs).fit(X, y)
    assert_array_equal(many.coef_, one.coef_)
    assert_array_equal(many.decision_function(X), one.decision_function(X))
    coef, intercept = rng.standard_normal((5, 7)), rng.standard_normal(5)
    assert_array_equal(decision(X, coef, intercept, n_threads=n_jobs), decision(X, coef, intercept, n_threads=1))
