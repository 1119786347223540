"""A system in a process of its own: whatever it does, the parent gets an answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from symsgd.bench.apart import Apart
from symsgd.bench.datasets import Dataset
from symsgd.bench.stored_task import read_task, write_task
from symsgd.bench.systems.base import Task

PLENTY = 120.0


def a_task(dense: bool = False) -> Task:
    X = sp.random(40, 7, 0.4, format="csr", dtype=np.float32, random_state=0)
    y = np.where(np.arange(40) % 3 == 0, 1, -1).astype(np.int8)
    return Task(Dataset("small", X.toarray() if dense else X, y), alpha=1e-3, fit_intercept=False, seed=5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_task(a_task(), tmp_path)
    own = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([own, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    monkeypatch.setenv("STRANGE_PLACE", str(tmp_path / "place"))
    return tmp_path


def started(folder: Path, name: str, n_threads: int = 1) -> Apart:
    apart = Apart(f"strange_systems:{name}", folder, n_threads)
    assert apart.set_up(PLENTY).reason == ""
    return apart


@pytest.fixture
def even(folder: Path) -> Iterator[Apart]:
    with started(folder, "Even") as apart:
        yield apart


@pytest.mark.parametrize("dense", [False, True])
def test_a_task_is_read_as_it_was_written(tmp_path: Path, dense: bool) -> None:
    task = a_task(dense)
    write_task(task, tmp_path)
    found = read_task(tmp_path, n_threads=3)
    difference = found.data.X - task.data.X
    assert abs(difference).max() == 0
    assert found.data.X.dtype == task.data.X.dtype
    np.testing.assert_array_equal(found.targets, task.targets)
    assert (found.loss, found.alpha, found.fit_intercept, found.seed) == ("log_loss", 1e-3, False, 5)
    assert (found.n_threads, found.data.task, found.data.name) == (3, "binary", "small")


def test_each_budget_is_answered_with_its_model(even: Apart) -> None:
    for budget in (1, 4, 2):
        answer = even.train(budget, PLENTY)
        assert answer.reason == ""
        assert answer.seconds >= 0
        assert answer.model is not None
        np.testing.assert_array_equal(answer.model.coef, np.full(7, float(budget)))
        assert answer.model.intercept == 0.5


def test_what_a_library_prints_is_no_answer(folder: Path) -> None:
    with started(folder, "Prints") as apart:
        answers = [apart.train(budget, PLENTY) for budget in (3, 4)]
    assert [own.reason for own in answers] == ["", ""]
    assert [own.model.coef[0] for own in answers if own.model is not None] == [3, 4]


def test_an_exception_is_a_reason_and_the_process_goes_on(folder: Path) -> None:
    with started(folder, "Raises") as apart:
        failed, fine = apart.train(2, PLENTY), apart.train(3, PLENTY)
    assert failed.reason == "ArithmeticError: two is too much"
    assert failed.model is None
    assert fine.reason == ""


def test_an_exception_while_it_is_set_up_is_a_reason(folder: Path) -> None:
    with Apart("strange_systems:RaisesAtOnce", folder, 1) as apart:
        assert apart.set_up(PLENTY).reason == "ImportError: it is not there"
        assert apart.train(1, PLENTY).model is None


def test_a_name_that_nobody_has_is_a_reason(folder: Path) -> None:
    with Apart("nothing of the kind", folder, 1) as apart:
        assert "nothing of the kind" in apart.set_up(PLENTY).reason


def test_a_crash_is_a_reason_with_its_last_words(folder: Path) -> None:
    with started(folder, "Crashes") as apart:
        answer = apart.train(1, PLENTY)
        assert answer.reason == "its process ended by SIGABRT: last words"
        assert not apart.alive
        assert apart.train(1, PLENTY).reason == "its process has ended"
        assert apart.set_up(PLENTY).reason == ""  # it can be started again


def test_an_end_without_words_is_a_reason(folder: Path) -> None:
    with started(folder, "Leaves") as apart:
        assert apart.train(1, PLENTY).reason == "its process ended with status 0"


def test_a_process_that_hangs_is_ended(folder: Path) -> None:
    with started(folder, "Hangs") as apart:
        answer = apart.train(1, 3.0)
        assert answer.reason == "no answer within 3 s"
        place = folder / "place"
        if place.exists():  # a busy machine may not have come so far
            with pytest.raises(ProcessLookupError):
                os.kill(int(place.read_text()), 0)


def test_weights_that_are_not_finite_are_a_reason(folder: Path) -> None:
    with started(folder, "Infinite") as apart:
        answer = apart.train(1, PLENTY)
    assert answer.reason == "its weights are not finite"
    assert answer.model is None


def test_it_has_the_threads_and_cores_that_it_is_given(folder: Path) -> None:
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    with started(folder, "Tells", n_threads=1) as apart:
        answer = apart.train(1, PLENTY)
    assert answer.model is not None
    rows, features, threads, cores, *limits = answer.model.coef
    assert (rows, features, threads) == (40, 7, 1)
    assert limits == [1, 1]
    if before is not None:
        assert cores == 1
        assert os.sched_getaffinity(0) == before  # ours are as they were


def test_it_cleans_up_when_it_is_closed(folder: Path) -> None:
    with started(folder, "Cleans") as apart:
        assert apart.train(1, PLENTY).reason == ""
    assert (folder / "place").read_text() == "clean"
    assert not [path for path in folder.iterdir() if path.is_dir()]
