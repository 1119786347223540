"""The peers protocol at its tiny size, and the report that is made of its rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from symsgd.bench.datasets import Dataset
from symsgd.bench.environment import Environment
from symsgd.bench.protocols import base, find
from symsgd.bench.protocols.base import SIZES, Surroundings
from symsgd.bench.protocols.peers import PeersPlan
from symsgd.bench.protocols.peers_contest import TARGETS
from symsgd.bench.records import Record, Row, Run
from symsgd.bench.report.base import Chart, Section, Table
from symsgd.bench.report.peers import sections
from symsgd.bench.systems.registry import LEAST_SQUARES, LOGISTIC

HERE = Environment("a processor", 2, 8.0, "", "baseline", False, "Linux", "3.11", "")
RUN = Run("one", "2026-01-01T00:00:00+00:00", "symsgd bench peers", "tiny", HERE)


def planted(task: str = "binary", dense: bool = False) -> Dataset:
    random = np.random.RandomState(1)
    X = sp.random(400, 12, 0.5, format="csr", dtype=np.float32, random_state=random)
    y: Any = np.asarray(X @ random.standard_normal(12)) + 0.3 * random.standard_normal(400)
    if task == "binary":
        y = np.where(y > np.median(y), 1, -1)
    X = X.toarray() if dense else X
    return Dataset("planted", X[:300], y[:300], X[300:], y[300:], task)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Row]]:
    """Rows of the protocol on a data set that is given."""
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))

    def measure(data: Dataset, **plan: Any) -> list[Row]:
        monkeypatch.setattr(base, "load", lambda *_: data)
        chosen = PeersPlan(threads=(1,), most_seconds=plan.pop("most_seconds", 2.0), **plan)
        return list(find("peers").measure(chosen, Surroundings()))

    return measure


def of(rows: list[Row], part: str, system: str | None = None) -> list[Row]:
    return [row for row in rows if row.part == part and system in (None, row.system)]


def test_the_tiny_plan_runs_from_end_to_end() -> None:
    protocol = find("peers")
    rows = list(protocol.measure(protocol.plans["tiny"], Surroundings()))
    assert {(row.data, row.loss) for row in rows} == {("rcv1 twin", "log_loss"), ("epsilon twin", "squared_error")}
    assert {row.system for row in rows} == {"", "symsgd", "scikit-learn SGD", "LAPACK Cholesky"}
    for row in rows:
        assert row.reason or row.measures
        assert all(np.isfinite(value) for value in row.measures.values())
        json.dumps(row.settings)
    curve = of(rows, "curve", "scikit-learn SGD")
    assert curve[-1].measures["gap"] < curve[0].measures["gap"]
    assert 0.5 < curve[-1].measures["auc"] <= 1
    assert of(rows, "time to target", "LAPACK Cholesky")[0].measures["gap"] < 1e-3
    records = [Record(RUN, row) for row in rows]
    assert [section.title for section in sections(records)] == [
        f"Peers: {what}, {'2 threads' if rows[0].threads == 2 else '1 thread'}"
        for what in ("logistic regression", "least squares on dense rows")
    ]


def test_a_curve_ends_at_the_last_target_and_both_are_timed_again(measured: Callable[..., list[Row]]) -> None:
    rows = measured(planted(), sets=("planted",), systems=("scikit-learn lbfgs",), repeats=3)
    curve = [row for row in of(rows, "curve") if row.repeat == 0]
    budgets = [row.settings["budget"] for row in curve]
    assert budgets == sorted(set(budgets))
    assert curve[-1].measures["gap"] <= min(TARGETS) < curve[-2].measures["gap"]
    twice = {row.settings["budget"] for row in of(rows, "curve") if row.repeat == 1}
    assert twice == {row.settings["budget"] for row in of(rows, "time to target")}
    again = of(rows, "time to target")
    assert [row.repeat for row in again] == [0, 0, 1, 1, 2, 2]
    for row in again:
        assert row.measures["gap"] <= row.settings["target"]
        first = next(own for own in curve if own.measures["gap"] <= row.settings["target"])
        assert row.settings["budget"] == first.settings["budget"]
    assert of(rows, "set up")[0].measures["seconds"] > 0
    (best,) = of(rows, "best")
    assert best.measures["objective"] <= min(row.measures["objective"] for row in curve)


def test_what_fails_is_a_row_with_its_reason_and_the_others_go_on(measured: Callable[..., list[Row]]) -> None:
    systems = ("strange_systems:Crashes", "strange_systems:RaisesAtOnce", "strange_systems:Even", "scikit-learn lbfgs")
    rows = measured(planted(), sets=("planted",), systems=systems, repeats=1)
    assert of(rows, "curve", systems[0])[0].reason == "its process ended by SIGABRT: last words"
    assert of(rows, "curve", systems[1])[0].reason == "ImportError: it is not there"
    assert all("it comes no nearer at" in row.reason for row in of(rows, "time to target", systems[2]))
    assert all(not row.reason for row in of(rows, "time to target", systems[3]))


def test_a_target_that_is_reached_once_is_not_reached(measured: Callable[..., list[Row]]) -> None:
    rows = measured(planted(), sets=("planted",), systems=("strange_systems:Lucky",), repeats=1)
    curve = of(rows, "curve")
    assert [row.repeat for row in curve[:4]] == [0, 1, 0, 1]
    assert curve[0].measures["gap"] < min(TARGETS) < max(TARGETS) < curve[1].measures["gap"]
    assert all("it comes no nearer" in row.reason for row in of(rows, "time to target"))


def test_time_that_is_spent_is_a_reason(measured: Callable[..., list[Row]]) -> None:
    rows = measured(planted(), sets=("planted",), systems=("scikit-learn SGD averaged",), most_seconds=1e-9)
    assert [row.settings["budget"] for row in of(rows, "curve")] == [1]
    reasons = [row.reason for row in of(rows, "time to target")]
    assert len(reasons) == len(TARGETS)
    assert all("s are spent at" in reason for reason in reasons)


def test_a_missing_library_is_a_row_that_names_its_package(measured: Callable[..., list[Row]]) -> None:
    from symsgd.bench.systems.snapml import SnapML

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SnapML, "module", "no_such_module_anywhere")
        rows = measured(planted(), sets=("planted",), systems=("snapml",))
    assert of(rows, "curve")[0].reason == "snapml is not installed: pip install snapml"


@pytest.mark.parametrize(
    ("data", "plan", "reason"),
    [
        (planted("regression"), {"sets": ("planted",)}, "its task is regression"),
        (planted(), {"least_squares": ("planted",)}, "its rows are sparse"),
        (replace(planted("regression", True), task="multiclass"), {"least_squares": ("planted",)}, "two classes"),
        (Dataset("planted", reason="it is away"), {"sets": ("planted",)}, "it is away"),
        (Dataset("planted", reason="it is away"), {"least_squares": ("planted",)}, "it is away"),
    ],
)  # fmt: skip
def test_a_set_that_does_not_fit_is_a_row(
    measured: Callable[..., list[Row]], data: Dataset, plan: Any, reason: str
) -> None:
    (row,) = measured(data, **plan)
    assert reason in row.reason


@pytest.mark.parametrize("dense", [False, True])
def test_least_squares_of_a_regression(measured: Callable[..., list[Row]], dense: bool) -> None:
    """Few features are made dense, and targets far from 0 need no intercept."""
    data = planted("regression", dense)
    data = replace(data, y=data.y + 100, y_test=data.y_test + 100)
    rows = measured(data, least_squares=("planted",), systems=("LAPACK QR", "randomised sketch"), repeats=1)
    for system in ("LAPACK QR", "randomised sketch"):
        assert len(of(rows, "time to target", system)) == len(TARGETS)
    assert of(rows, "curve", "LAPACK QR")[-1].measures["r2"] > 0.3


def test_plans_know_their_choices() -> None:
    for size in SIZES:
        plan = find("peers").plans[size]
        chosen = plan.with_choices(sets=("a9a",), threads=(1, 2), repeats=7, systems=("symsgd",))
        assert isinstance(chosen, PeersPlan)
        assert (chosen.sets, chosen.least_squares, chosen.thread_counts) == (("a9a",), ("a9a",), (1, 2))
        assert (chosen.repeats, chosen.systems_for("log_loss")) == (7, ["symsgd"])
    everything = PeersPlan()
    assert everything.systems_for("log_loss") == list(LOGISTIC)
    assert set(everything.systems_for("squared_error")) == set(LEAST_SQUARES)
    assert max(everything.thread_counts) <= 2


def test_a_system_that_nobody_has_is_refused_before_anything_is_measured() -> None:
    plan = PeersPlan(sets=("rcv1 twin",), systems=("symsgd", "nobody"))
    with pytest.raises(ValueError, match="nobody"):
        next(iter(find("peers").measure(plan, Surroundings())))


def a_row(part: str, system: str, settings: Any = None, reason: str = "", repeat: int = 0, **measures: float) -> Record:
    return Record(RUN, Row("peers", part, "a set", system, 2, "log_loss", 0, repeat, settings or {}, measures, reason))


def rows_of_a_report() -> list[Record]:
    to = [{"target": target, "budget": 3} for target in TARGETS]
    return [
        a_row("set up", "symsgd", seconds=0.01),
        a_row("curve", "symsgd", {"budget": 1}, seconds=0.1, objective=0.5, gap=0.25),
        a_row("curve", "symsgd", {"budget": 3}, seconds=0.3, objective=0.4001, gap=0.00025),
        a_row("curve", "slow", {"budget": 3}, seconds=2.0, objective=0.402, gap=0.005),
        a_row("curve", "absent", reason="absent is not installed: pip install absent"),
        a_row("time to target", "slow", {"target": 0.001}, reason="60 s are spent at 0.5 %"),
        *(
            a_row("time to target", "symsgd", own, repeat=i, seconds=s, gap=0.0009 if i else 0.5)
            for own in to
            for i, s in enumerate([9, 0.5, 0.4])
        ),
        a_row("time to target", "slow", to[0], seconds=2.0, gap=0.005),
        *(
            a_row("time to target", "lucky", to[0], repeat=i, seconds=0.1, gap=gap)
            for i, gap in enumerate([0.009, 0.02, 0.03])
        ),
        a_row("best", "", objective=0.4),
    ]


def tables_of(section: Section) -> dict[str, Table]:
    return {item.title: item for item in section.items if isinstance(item, Table)}


def test_the_report_says_who_is_faster() -> None:
    (section,) = sections(rows_of_a_report())
    tables = tables_of(section)
    ahead = tables["symsgd against the fastest of the others"]
    assert [cell.text for cell in ahead.rows[0]] == ["a set", "slow", "2", "0.5", "4.00", "none", "", "0.5", ""]
    assert ahead.rows[0][4].good is True
    first = tables["Seconds to within 1 % of the best objective"]
    assert [[cell.text for cell in row] for row in first.rows] == [
        ["symsgd", "0.5"], ["slow", "2"], ["absent", "–"], ["lucky", "–"],
    ]  # fmt: skip
    assert [row[1].good for row in first.rows] == [True, None, None, None]
    last = tables["Seconds to within 0.1 % of the best objective"]
    assert [row[1].text for row in last.rows] == ["0.5", "–", "–", "–"]
    why = tables["What there is no time for, and why"]
    assert ["a set", "slow", "0.1 %", "60 s are spent at 0.5 %"] in [[cell.text for cell in row] for row in why.rows]
    assert any(row[1].text == "lucky" and "repeats did not come so near" in row[3].text for row in why.rows)
    assert section.command == "symsgd bench peers"


def test_a_larger_budget_that_is_faster_counts_for_both_targets() -> None:
    rows = rows_of_a_report() + [
        a_row("time to target", "snappy", {"target": target, "budget": budget}, seconds=seconds, gap=0.0009)
        for target, budget, seconds in ((0.01, 3, 4.0), (0.001, 5, 1.5))
    ]
    (section,) = sections(rows)
    ahead = tables_of(section)["symsgd against the fastest of the others"]
    assert [cell.text for cell in ahead.rows[0][1:5]] == ["snappy", "1.5", "0.5", "3.00"]
    assert [cell.text for cell in ahead.rows[0][5:7]] == ["snappy", "1.5"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_chart_has_a_line_for_each_system_and_target(theme: Any) -> None:
    pytest.importorskip("matplotlib")
    (section,) = sections(rows_of_a_report())
    (chart,) = [item for item in section.items if isinstance(item, Chart)]
    assert "slow 0.5 %" in chart.text
    (axes,) = chart.draw(theme).axes
    drawn = {line.get_label(): line for line in axes.get_lines() if not str(line.get_label()).startswith("_")}
    assert set(drawn) == {"symsgd", "slow"}
    np.testing.assert_allclose(drawn["symsgd"].get_ydata(), [0.25, 0.00025])
    levels = [line.get_ydata()[0] for line in axes.get_lines() if str(line.get_label()).startswith("_")]
    assert levels == list(TARGETS)


@pytest.mark.parametrize("keep", ["curve", "set up", "time to target", "best"])
def test_a_report_can_be_made_of_any_part(keep: str) -> None:
    records = [record for record in rows_of_a_report() if record.row.part == keep]
    for section in sections(records):
        for item in section.items:
            if isinstance(item, Chart):
                item.draw("light")
            else:
                assert item.rows
                assert all(len(row) == len(item.columns) for row in item.rows)


def test_a_report_of_nothing_but_a_set_that_is_away() -> None:
    row = Row("peers", "curve", "imdb", "", reason="no folder of data sets given (--data-dir)")
    (section,) = sections([Record(RUN, row)])
    (table,) = section.items
    assert isinstance(table, Table)
    assert table.rows[0][3].text == "no folder of data sets given (--data-dir)"
