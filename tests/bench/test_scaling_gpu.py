"""Our GPU backend beside the CPU: rows with measures where there is a GPU, here one of NumPy, else with a reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from symsgd import devices
from symsgd.bench.datasets import Dataset
from symsgd.bench.environment import Environment
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.scaling import Scaling, graphics
from symsgd.bench.protocols.scaling.plan import PLANS
from symsgd.bench.records import Record, Row, Run
from symsgd.bench.report.base import Chart, Table
from symsgd.bench.report.scaling import sections
from symsgd.bench.systems import pytorch
from symsgd.gpu import build
from symsgd.gpu.host import Host

TINY = replace(
    PLANS["tiny"], parts=("GPU",), sets=("epsilon twin", "rcv1 twin"), scales={"epsilon": 0.001, "rcv1": 0.002}
)
RUN = Run("a", "2026-01-01", "symsgd bench scaling --size tiny", "tiny", Environment.here())
BLOCKS = 8


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "cuda", lambda: Host(blocks=BLOCKS))
        patch.setattr(devices, "why_not_cuda", lambda: "")
        patch.setattr(build, "LEAST_ROWS", 1)  # so that "auto" is in rounds
        patch.setattr(pytorch, "reason_against", lambda: "PyTorch is not installed")
        return list(Scaling().measure(TINY, Surroundings()))


def of(rows: list[Row], data: str) -> dict[tuple[str, int], Row]:
    return {(row.system, row.threads): row for row in rows if row.data == data and not row.system.startswith("GPU")}


def test_a_gpu_is_beside_the_cpu_at_every_number_of_threads(rows: list[Row]) -> None:
    own = of(rows, "epsilon twin")
    assert list(own) == [("sequential", 1), ("auto", 2), ("symsgd, exact, CUDA", 2), ("symsgd, CUDA", 2)]
    for row in own.values():
        assert not row.reason
        assert row.measures.keys() >= {"pass_seconds", "first_seconds", "auc", "auc_difference", "distance"}
        assert row.measures["seconds"] >= row.measures["first_seconds"] > 0
        assert all(np.isfinite(value) for value in row.measures.values())
    assert own["sequential", 1].measures["distance"] == 0.0


def test_exact_is_the_sequential_model_and_rounds_say_how_near_they_are(rows: list[Row]) -> None:
    own = of(rows, "epsilon twin")
    exact, merged = own["symsgd, exact, CUDA", 2].measures, own["symsgd, CUDA", 2].measures
    assert exact["distance"] < 1e-5
    assert abs(exact["auc_difference"]) < 1e-4
    assert "round" not in exact
    assert merged["round"] == BLOCKS * merged["block"]
    assert merged["error"] >= 0
    assert 0 < merged["distance"] < 0.1


def test_what_a_gpu_refuses_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cuda", _broken)
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "")
    monkeypatch.setattr(pytorch, "reason_against", lambda: "PyTorch is not installed")
    plan = replace(TINY, sets=("epsilon twin",))
    own = of(list(Scaling().measure(plan, Surroundings())), "epsilon twin")
    assert {row.reason for row in own.values() if row.settings["device"] == "cuda"} == {"it is on fire"}
    assert not own["sequential", 1].reason


def _broken() -> Host:
    raise RuntimeError("it is on fire\nat line 7")


def test_sparse_rows_have_a_number_or_a_reason(rows: list[Row]) -> None:
    own = of(rows, "rcv1 twin")
    assert len(own) == 4
    assert all(bool(row.reason) != bool(row.measures) for row in own.values())


def test_sparse_rows_that_are_nearly_full_are_also_stored_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "CUDA sees no device")
    monkeypatch.setattr(pytorch, "reason_against", lambda: "PyTorch is not installed")
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(np.where(rng.random((60, 20)) < 0.3, 1.0, 0.0), dtype=np.float32)
    y = np.where(rng.random(60) < 0.5, 1, -1)
    data = Dataset("full rows", X, y, X, y)
    plan = replace(TINY, step_sizes={data.name: 0.07})
    found = list(graphics.measure(data, plan, Surroundings()))
    assert {row.data for row in found} == {"full rows", "full rows, stored dense"}
    assert {row.settings["step_size"] for row in found} == {0.07}
    np.testing.assert_array_equal(graphics.stored_dense(data).X, X.toarray())
    thin = replace(data, X=sp.csr_matrix((60, 20), dtype=np.float32))
    assert {row.data for row in graphics.measure(thin, plan, Surroundings())} == {"full rows"}


def test_the_report_has_a_table_and_a_chart_of_it(rows: list[Row]) -> None:
    (section,) = sections([Record(RUN, row) for row in rows])
    table = next(item for item in section.items if isinstance(item, Table) and item.title.startswith("A GPU"))
    assert all(len(line) == len(table.columns) for line in table.rows)
    lines = {(line[0].text, line[1].text): dict(zip(table.columns, line, strict=True)) for line in table.rows}
    ours = lines["epsilon twin", "symsgd, CUDA"]
    assert ours["threads"].text == ""
    assert all(ours[name].text for name in ("ms a pass", "first pass, s", "AUC", "distance", "rows a round"))
    assert lines["epsilon twin", "auto"]["threads"].text == "2"


def test_the_chart_has_a_line_for_every_system(rows: list[Row]) -> None:
    pytest.importorskip("matplotlib")
    (section,) = sections([Record(RUN, row) for row in rows])
    charts = [item for item in section.items if isinstance(item, Chart)]
    assert [chart.name for chart in charts] == ["scaling-gpu-epsilon-twin-rcv1-twin"]
    labels = {text.get_text() for text in charts[0].draw("light").legends[0].get_texts()}
    assert labels >= {"auto", "symsgd, exact, CUDA", "symsgd, CUDA", "ideal"}
