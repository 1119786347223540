"""Each part of scaling answers its question, and what cannot be measured is a row that says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from symsgd import devices
from symsgd.bench.environment import Environment
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling import PARTS, Scaling
from symsgd.bench.protocols.scaling.growth import made
from symsgd.bench.protocols.scaling.memory import bandwidth
from symsgd.bench.protocols.scaling.plan import PLANS
from symsgd.bench.protocols.scaling.runs import LOOPS, side_by_side
from symsgd.bench.records import Record, Row, Run
from symsgd.bench.report.base import Chart, Table
from symsgd.bench.report.scaling import sections
from symsgd.bench.systems import pytorch
from symsgd.bench.systems.base import Task

TINY = PLANS["tiny"]
NO_PYTORCH, NO_GPU = "PyTorch is not installed", "CUDA sees no device"
RUN = Run("a", "2026-01-01", "symsgd bench scaling --size tiny", "tiny", Environment.here())


def measure(*parts: str) -> list[Row]:
    return list(Scaling().measure(replace(TINY, parts=parts), Surroundings()))


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytorch, "reason_against", lambda: NO_PYTORCH)
        patch.setattr(devices, "why_not_cuda", lambda: NO_GPU)
        return measure(*PARTS)


def test_there_are_rows_of_every_part(rows: list[Row]) -> None:
    assert {row.part for row in rows} == set(PARTS)
    assert all(bool(row.measures) != bool(row.reason) for row in rows)
    assert all(np.isfinite(value) for row in rows for value in row.measures.values())


def test_parts_can_be_chosen_and_unknown_ones_are_refused() -> None:
    assert {row.part for row in measure("rows")} == {"rows"}
    with pytest.raises(ValueError, match=r"'colours'.*rows, features"):
        measure("colours")


def test_rows_grow_in_one_number(rows: list[Row]) -> None:
    for part, values in (("rows", TINY.rows), ("features", TINY.features), ("nonzeros", TINY.nonzeros)):
        own = [row for row in rows if row.part == part]
        assert [row.settings[part] for row in own if row.system == "sequential"] == list(values)
        others = {tuple(row.settings[name] for name in ("rows", "features", "nonzeros") if name != part) for row in own}
        assert len(others) == 1


def test_made_rows_can_be_learned() -> None:
    data = made(2_000, 50, 5)
    assert data.X.shape == (2_000, 50)
    assert set(np.unique(data.y)) == {-1, 1}
    solved = np.linalg.lstsq(data.X.toarray(), data.y, rcond=None)[0]
    assert np.mean(np.sign(data.X @ solved) == data.y) > 0.8


def test_one_thread_is_measured_once(rows: list[Row]) -> None:
    own = [(row.system, row.threads) for row in rows if row.part == "threads"]
    assert sorted(own) == sorted([
        ("sequential", 1), ("Hogwild!", 1), ("auto", 2), ("Hogwild!", 2), ("averaging", 2), (LOOPS, 2),
    ])  # fmt: skip
    by_system = {(row.system, row.threads): row.measures for row in rows if row.part == "threads"}
    assert by_system["sequential", 1]["distance"] == 0.0
    assert by_system["Hogwild!", 1]["distance"] < 1e-4  # after as many passes, which are fewer
    assert by_system["averaging", 2]["distance"] > 0.01


def test_loops_side_by_side_that_fail_say_why() -> None:
    data = made(200, 20, 3)
    plan = replace(TINY, step_sizes={data.name: 1e30})
    assert side_by_side(Task(data, "squared_error", n_threads=3), plan, 2) == "diverges in pass 1"
    with pytest.raises(ValueError, match="loss"):  # and nobody waits for the others
        side_by_side(Task(data, "no such loss", n_threads=3), plan, 2)


def test_the_memory_is_read_by_every_number_of_threads(rows: list[Row]) -> None:
    own = [row for row in rows if row.part == "memory"]
    assert {row.threads for row in own if row.system == "reads alone"} == {1, 2}
    assert all(row.measures["share"] > 0 for row in own if row.system != "reads alone")
    assert bandwidth(3, 1000, reads=2) > 0


def test_without_pytorch_and_cupy_the_gpu_is_a_reason(rows: list[Row]) -> None:
    own = [(row.system, row.reason) for row in rows if row.part == "GPU"]
    ours = [("symsgd, exact, CUDA", NO_GPU), ("symsgd, CUDA", NO_GPU)]
    assert own == [*ours, *((f"GPU, batches of {size:,}", NO_PYTORCH) for size in pytorch.BATCHES)]


def test_a_gpu_is_judged_as_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def train_apart(X: sp.csr_matrix, positive: np.ndarray, *_: object) -> list[pytorch.Trained]:  # type: ignore[type-arg]
        w = np.asarray(X.T @ np.where(positive, 1.0, -1.0)).astype(np.float32)
        none = np.full_like(w, np.nan)
        return [pytorch.Trained(w, 0.5, 2.0), pytorch.Trained(none, 0.0, 1.0)]

    monkeypatch.setattr(pytorch, "reason_against", lambda: "")
    monkeypatch.setattr(pytorch, "train_apart", train_apart)
    monkeypatch.setattr(devices, "why_not_cuda", lambda: NO_GPU)
    trained, diverged = measure("GPU")[2:]
    assert trained.measures["pass_seconds"] == 2.0 / TINY.passes
    assert trained.measures["auc"] > 0.8
    assert trained.measures["distance"] > 0
    assert diverged.reason == "diverges"
    assert not diverged.measures


def test_a_narrow_batch_is_the_batch() -> None:
    rng = np.random.default_rng(0)
    rows = sp.random(7, 10_000, 0.001, format="csr", dtype=np.float32, random_state=0)
    w = rng.standard_normal(10_000)
    narrow, features = pytorch.narrowed(rows)
    assert features is not None
    assert narrow.shape[1] == len(features) < 100
    np.testing.assert_allclose(narrow @ w[features], rows @ w)
    g, whole = rng.standard_normal(7), np.zeros(10_000)
    whole[features] += narrow.T @ g
    np.testing.assert_allclose(whole, rows.T @ g)
    assert pytorch.narrowed(sp.csr_matrix(np.ones((2, 3))))[1] is None
    assert pytorch.narrowed(np.ones((2, 3)))[1] is None


def test_the_report_has_a_section_a_question(rows: list[Row]) -> None:
    found = sections([Record(RUN, row) for row in rows])
    assert len(found) == 4
    tables = [item for section in found for item in section.items if isinstance(item, Table)]
    assert all(len(line) == len(table.columns) for table in tables for line in table.rows)
    texts = {cell.text for table in tables for line in table.rows for cell in line}
    assert {NO_PYTORCH, NO_GPU} <= texts
    by_threads = next(table for table in tables if table.title.startswith("Every system"))
    times = {(line[1].text, line[2].text): line[5].value for line in by_threads.rows}
    assert times["sequential", "1"] == 1.0


def test_the_charts_draw_with_what_there_is(rows: list[Row]) -> None:
    pytest.importorskip("matplotlib")
    found = sections([Record(RUN, row) for row in rows])
    charts = {item.name: item for section in found for item in section.items if isinstance(item, Chart)}
    assert set(charts) == {"scaling-growth", "scaling-threads-rcv1-twin", "scaling-memory"}
    for chart in charts.values():
        labels = {text.get_text() for text in chart.draw("light").legends[0].get_texts()}
        assert labels >= ({"ideal"} if chart.name != "scaling-memory" else {"reads alone"})


def test_a_report_of_one_part(rows: list[Row]) -> None:
    (section,) = sections([Record(RUN, row) for row in rows if row.part == "GPU"])
    assert "GPU" in section.title
