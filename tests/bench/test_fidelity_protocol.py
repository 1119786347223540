"""What is near the sequential run is said to be near it, and what is not is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from symsgd.bench.environment import Environment
from symsgd.bench.protocols import fidelity
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.contenders import CONTENDERS, Contender
from symsgd.bench.protocols.fidelity import Fidelity
from symsgd.bench.protocols.step_sizes import seeds_from
from symsgd.bench.records import Record, Row, Run
from symsgd.bench.report.base import Chart, Table
from symsgd.bench.report.fidelity import holds, sections, worst
from symsgd.errors import DivergenceError
from symsgd.strategies import Sequential, Strategy

TINY = replace(Fidelity.plans["tiny"], losses=("log_loss",))
RUN = Run("a", "2026-01-01", "symsgd bench fidelity --size tiny", "tiny", Environment.here())


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(Fidelity().measure(TINY, Surroundings()))


def only(rows: list[Row], system: str) -> list[Row]:
    return [row for row in rows if row.system == system]


def test_every_contender_is_judged_against_the_sequential_run(rows: list[Row]) -> None:
    expected = {contender.system for contender in CONTENDERS if "log_loss" in contender.losses}
    assert {row.system for row in rows} == {"sequential", *expected}
    for row in rows:
        assert not row.reason
        assert all(np.isfinite(value) for value in row.measures.values())
        if row.system != "sequential":
            first = only(rows, "sequential")[0]
            assert row.measures["difference"] == row.measures["auc"] - first.measures["auc"]
            assert row.settings["step_size"] == first.settings["step_size"]


def test_refined_blocks_are_nearer_than_plain_ones_and_the_mean_is_far(rows: list[Row]) -> None:
    plain, refined, mean = (only(rows, name)[0] for name in ("curvature", "curvature, refined", "mean"))
    assert refined.measures["distance"] < plain.measures["distance"] < mean.measures["distance"]
    assert refined.measures["sweeps"] > 0
    assert holds(refined)
    assert not holds(mean)


def test_races_run_several_times_on_no_more_threads_than_cores(rows: list[Row]) -> None:
    runs = only(rows, "Hogwild!")
    assert [row.repeat for row in runs] == [0, 1]
    contender = Contender("x", "", lambda _: Sequential(), racy=True)
    assert max(contender.thread_counts((1, 10**6))) < 10**6
    assert max(replace(contender, racy=False).thread_counts((1, 10**6))) == 10**6


def test_the_spread_is_of_orders_that_differ(rows: list[Row]) -> None:
    scores = [row.measures["log_loss"] for row in only(rows, "sequential")]
    assert len(set(scores)) == len(scores) == TINY.seeds
    assert seeds_from(0, 3) == (0, 2, 3)
    assert seeds_from(5, 2) == (5, 6)


def test_what_diverges_is_a_row_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverges(_: int) -> Strategy:
        raise DivergenceError(3, None)  # type: ignore[arg-type]

    monkeypatch.setattr(fidelity, "CONTENDERS", (Contender("sum", "sum", diverges, racy=True),))
    found = only(list(Fidelity().measure(TINY, Surroundings())), "sum")
    assert [row.reason for row in found] == ["diverges in pass 3"]  # and is not tried again
    assert not found[0].measures
    steep = replace(TINY, losses=("squared_error",), step_sizes={"squared_error": (1e30,)})
    (row,) = Fidelity().measure(steep, Surroundings())
    assert "diverges at every step size" in row.reason


def test_a_set_that_is_not_there_is_a_row_that_says_so() -> None:
    (row,) = Fidelity().measure(replace(TINY, sets=("imdb",)), Surroundings())
    assert row.data == "imdb"
    assert "--data-dir" in row.reason


def test_of_several_runs_the_worst_counts() -> None:
    good, bad = (Row("fidelity", "distance", "d", "s", measures={"difference": d}) for d in (1e-6, -1e-3))
    failed = Row("fidelity", "distance", "d", "s", reason="diverges in pass 1")
    assert worst([good, bad]) is bad
    assert worst([good, failed, bad]) is failed


def test_the_report_has_every_run_and_every_failure(rows: list[Row]) -> None:
    failed = replace(only(rows, "sum")[0], system="mean", threads=9, measures={}, reason="diverges in pass 2")
    (section,) = sections([Record(RUN, row) for row in [*rows, failed]])
    tables = {item.title: item for item in section.items if isinstance(item, Table)}
    summary = {line[0].text: line for line in tables["Which systems hold the sequential answer"].rows}
    assert summary["mean"][1].text == "0 of 2"
    assert summary["mean"][1].good is False
    assert summary["curvature, refined"][1].good
    every = tables["Every run"]
    assert len(every.rows) == len({row.key for row in [*rows, failed] if row.part == "distance"})
    assert all(len(line) == len(every.columns) for line in every.rows)
    assert any("diverges in pass 2" in cell.text for line in every.rows for cell in line)
    assert section.command == RUN.command


def test_the_charts_draw_in_both_themes(rows: list[Row]) -> None:
    pytest.importorskip("matplotlib")
    (section,) = sections([Record(RUN, row) for row in rows])
    (chart,) = (item for item in section.items if isinstance(item, Chart))
    for theme in ("light", "dark"):
        drawn = chart.draw(theme)  # type: ignore[arg-type]
        labels = {text.get_text() for text in drawn.legends[0].get_texts()}
        assert labels == {row.system for row in rows if row.part == "distance"}


def test_a_report_of_nothing_but_skips() -> None:
    row = Row("fidelity", "distance", "imdb", "", reason="no folder of data sets given (--data-dir)")
    (section,) = sections([Record(RUN, row)])
    assert any("--data-dir" in cell.text for item in section.items for line in item.rows for cell in line)  # type: ignore[union-attr]
