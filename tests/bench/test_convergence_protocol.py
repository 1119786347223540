"""The curves are those of one training, pass by pass, and come no lower than the best there is."""

from __future__ import annotations

import numpy as np
import pytest

import symsgd
from symsgd.bench.datasets import Dataset
from symsgd.bench.environment import Environment
from symsgd.bench.protocols import convergence
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.convergence import NEWTON, SYSTEMS, Convergence
from symsgd.bench.protocols.scores import objective
from symsgd.bench.protocols.traces import ScikitLearn, ours
from symsgd.bench.records import Record, Row, Run
from symsgd.bench.report.base import Chart, Table
from symsgd.bench.report.convergence import curves_of, least_objective, sections
from symsgd.bench.systems.base import Task
from symsgd.penalties import L2
from symsgd.schedules import Constant

STEEP = 1e27  # gradients are cut at 1e12: less would only make the weights large
TINY = Convergence.plans["tiny"]
RUN = Run("a", "2026-01-01", "symsgd bench convergence --size tiny", "tiny", Environment.here())


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(Convergence().measure(TINY, Surroundings()))


@pytest.fixture(scope="module")
def task() -> Task:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)).astype(np.float32)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(400) > 0, 1, -1)
    return Task(Dataset("made", X[:300], y[:300], X[300:], y[300:]), alpha=1e-2, n_threads=2, fit_intercept=False)


def test_a_row_a_pass_of_every_system(rows: list[Row]) -> None:
    for loss in TINY.losses:
        for system in (*SYSTEMS, ScikitLearn.name):
            own = [row for row in rows if (row.loss, row.system) == (loss, system)]
            assert [row.settings["pass"] for row in own] == [1, 2, 3]
            seconds = [row.measures["seconds"] for row in own]
            assert seconds == sorted(seconds)
            assert all("auc" in row.measures and "objective" in row.measures for row in own)


def test_nothing_is_below_the_least_objective(rows: list[Row]) -> None:
    for loss in TINY.losses:
        own = [row for row in rows if row.loss == loss]
        best = next(row for row in own if row.system == NEWTON)
        floor = best.measures["objective"] - best.measures["decrement"]
        assert min(row.measures["objective"] for row in own if row.part == "passes") > floor


@pytest.mark.parametrize("strategy", ["sequential", "mr-symsgd", "averaging"])
def test_a_trace_has_the_models_of_shorter_trainings(task: Task, strategy: str) -> None:
    moments, reason = ours(task, strategy, 0.1, 4)
    assert reason == ""
    for number, moment in enumerate(moments, 1):
        shorter = symsgd.train(
            task.data.X, task.targets, penalty=L2(task.alpha), schedule=Constant(0.1), strategy=strategy, n_threads=2,
            n_passes=number, fit_intercept=False,
        )  # fmt: skip
        np.testing.assert_array_equal(moment.coef, shorter.coef[0])


def test_scikit_learn_has_another_order_in_every_pass(task: Task) -> None:
    moments = ScikitLearn.trace(task, 0.1, 30)
    assert len(moments) == 30
    last, before = moments[-1].coef, moments[-2].coef
    assert not np.array_equal(last, before)  # the same order again and again would end at a fixed point
    assert objective(task, last) == pytest.approx(objective(task, before), rel=0.05)


def test_the_objective_is_that_of_its_formula(task: Task) -> None:
    w, b = np.arange(5) / 5, 0.25
    p = task.data.X @ w + b
    expected = np.log1p(np.exp(-task.targets * p)).mean() + 0.5 * task.alpha * (w @ w)
    assert objective(task, w, b) == pytest.approx(expected, rel=1e-6)


def test_what_diverges_is_a_row_with_a_reason(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    squared = Task(task.data, "squared_error", 0.0, n_threads=1, fit_intercept=False)
    moments, reason = ours(squared, "sequential", STEEP, 50)
    assert (moments, reason) == ([], "diverges in pass 1")
    plan = convergence.ConvergencePlan(sets=("made",), losses=("squared_error",), passes=50, repeats=1, optimum_share=0)
    monkeypatch.setattr(convergence, "best_step_size", lambda *_: STEEP)
    found = list(Convergence()._followed(squared, plan, Surroundings()))
    assert {row.system for row in found if row.reason} == {*SYSTEMS, ScikitLearn.name}
    assert all(np.isfinite(value) for row in found for value in row.measures.values())


def test_the_report_draws_curves_and_tells_what_is_missing(rows: list[Row]) -> None:
    skipped = Row("convergence", "passes", "imdb", "", reason="no folder of data sets given (--data-dir)")
    (section,) = sections([Record(RUN, row) for row in [*rows, skipped]])
    charts = [item for item in section.items if isinstance(item, Chart)]
    tables = [item for item in section.items if isinstance(item, Table)]
    assert len(charts) == 2 * len(TINY.losses)
    assert len({chart.name for chart in charts}) == len(charts)
    systems = [line[0].text for line in tables[0].rows]
    assert systems == [*SYSTEMS, ScikitLearn.name]
    assert any("--data-dir" in cell.text for line in tables[-1].rows for cell in line)
    pytest.importorskip("matplotlib")
    for chart in charts:
        drawn = chart.draw("dark")
        assert len(drawn.axes[0].get_lines()) == len(systems)


def test_repeats_are_one_curve(rows: list[Row]) -> None:
    own = [row for row in rows if row.part == "passes" and row.loss == "log_loss"]
    again = [Row(**{**vars(row), "repeat": 1, "measures": {**row.measures, "seconds": 100.0}}) for row in own]
    once, twice = curves_of(own), curves_of([*own, *again])
    assert [curve.label for curve in once] == [curve.label for curve in twice]
    assert twice[0].points[0].measures["seconds"] == pytest.approx(
        (100 + once[0].points[0].measures["seconds"]) / 2
    )  # fmt: skip
    assert least_objective([], once) == min(value for curve in once for value in curve.values("objective"))
