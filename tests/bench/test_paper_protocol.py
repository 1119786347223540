"""The paper's protocol at a tiny scale, and its singular values against matrices multiplied out."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from symsgd.analysis import nfnz_ratio
from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols import find, sweeps
from symsgd.bench.protocols.base import Surroundings
from symsgd.bench.protocols.paper import ASYNC, AUTO, HOGWILD, MAP_REDUCE, SEQUENTIAL, Paper
from symsgd.bench.protocols.singular import REST, WHOLE, block_values
from symsgd.bench.protocols.sweeps import FOURTH_DIGIT, Trained
from symsgd.bench.systems.base import Model
from symsgd.data import twin
from symsgd.training import SPARSE_INTERCEPT_DECAY

SYSTEMS = [SEQUENTIAL, HOGWILD, ASYNC, MAP_REDUCE, AUTO]
LOSSES = ["log_loss", "squared_error"]


@pytest.fixture(scope="module")
def rows():
    plan = find("paper").plans["tiny"].with_choices(repeats=2)
    return list(find("paper").measure(plan, Surroundings()))


def of(rows, part, loss, system=None):
    return [row for row in rows if (row.part, row.loss) == (part, loss) and system in (None, row.system)]


def test_every_part_is_measured_with_plain_finite_numbers(rows):
    assert {row.part for row in rows} == {"step size", "data", "configuration", "speedup", "singular values"}
    for row in rows:
        assert not row.reason
        assert all(type(value) in (int, float) and np.isfinite(value) for value in row.measures.values())
        assert "step_size" in row.settings


@pytest.mark.parametrize("loss", LOSSES)
def test_the_step_size_is_the_best_and_then_fixed(rows, loss):
    aucs = {row.settings["step_size"]: row.measures["auc"] for row in of(rows, "step size", loss)}
    best = max(aucs, key=aucs.__getitem__)
    assert {row.settings["step_size"] for row in of(rows, "configuration", loss) + of(rows, "speedup", loss)} == {best}
    (facts,) = of(rows, "data", loss)
    assert facts.measures["auc"] == aucs[best]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("system", [ASYNC, MAP_REDUCE])
def test_the_fastest_configuration_that_holds_is_timed(rows, loss, system):
    tried = of(rows, "configuration", loss, system)
    assert {(row.settings["block_size"], row.settings["k"]) for row in tried} == {(16, 7), (64, 7)}
    for row in tried:
        assert row.measures["holds"] == (abs(row.measures["difference"]) < FOURTH_DIGIT)
    holding = [row for row in tried if row.measures["holds"]]
    if holding:
        expected = min(holding, key=lambda row: row.measures["seconds"])
    else:
        expected = min(tried, key=lambda row: abs(row.measures["difference"]))
    for row in of(rows, "speedup", loss, system):
        assert row.settings == expected.settings


@pytest.mark.parametrize("loss", LOSSES)
def test_systems_take_turns_at_every_number_of_threads(rows, loss):
    runs = [(row.system, row.settings.get("beside", row.threads), row.repeat) for row in of(rows, "speedup", loss)]
    assert runs == [(system, threads, repeat) for threads in (1, 2) for repeat in (0, 1) for system in SYSTEMS]


def test_the_sequential_run_is_that_of_the_sweep_to_the_last_bit(rows):
    for loss in LOSSES:
        for row in of(rows, "speedup", loss, SEQUENTIAL):
            assert row.threads == 1
            assert row.measures["distance"] == row.measures["difference"] == 0


def test_facts_are_those_of_the_data(rows):
    data = twin("rcv1", 0.002)
    for row in (row for row in rows if row.part == "data"):
        assert row.measures["features"] == data.X.shape[1]
        assert row.measures["rows"] == data.X.shape[0]
        assert row.measures["nonzeros"] == data.X.nnz
        assert row.measures["nfnz"] == pytest.approx(nfnz_ratio(data.X))


def test_no_key_and_repeat_comes_twice(rows):
    keys = [(row.key, row.repeat) for row in rows]
    assert len(set(keys)) == len(keys)


def test_sets_that_cannot_be_had_or_have_no_auc_are_rows_with_a_reason(tmp_path):
    (tmp_path / "realdata.py").write_text(
        "import numpy as np\n"
        "from types import SimpleNamespace as Of\n"
        "NAMES = ('prices',)\n"
        "def load(name):\n"
        "    X, y = np.ones((4, 2)), np.arange(4.0)\n"
        "    return Of(X_train=X, y_train=y, X_test=X, y_test=y, task='regression')\n"
    )
    plan = replace(Paper.plans["tiny"], sets=("nowhere", "prices"))
    rows = list(Paper().measure(plan, Surroundings(tmp_path)))
    assert [(row.data, row.part) for row in rows] == [("nowhere", "data"), ("prices", "data")]
    assert "does not know it" in rows[0].reason
    assert "regression" in rows[1].reason


def test_where_every_step_size_diverges_nothing_else_is_tried(monkeypatch):
    monkeypatch.setattr(sweeps, "train", lambda *_: Trained(reason="diverges in pass 1"))
    rows = list(Paper().measure(Paper.plans["tiny"], Surroundings()))
    assert {row.part for row in rows} == {"step size", "data"}
    assert all(row.reason for row in rows)


def test_a_system_that_cannot_be_trained_says_so_at_every_number_of_threads(monkeypatch):
    real = Paper.measure.__globals__["train"]

    def refusing(task, strategy, *rest):
        return Trained(reason="no room") if strategy.name == "async-symsgd" else real(task, strategy, *rest)

    monkeypatch.setitem(Paper.measure.__globals__, "train", refusing)
    plan = replace(Paper.plans["tiny"], steps={"log_loss": Paper.plans["tiny"].steps["log_loss"]}, singular_sets=0)
    rows = list(Paper().measure(plan, Surroundings()))
    assert [row.reason for row in of(rows, "configuration", "log_loss", ASYNC)] == ["no room", "no room"]
    failed = of(rows, "speedup", "log_loss", ASYNC)
    assert [row.threads for row in failed] == [1, 2]
    assert all(row.reason and not row.measures for row in failed)
    assert not any(row.reason for row in of(rows, "speedup", "log_loss", MAP_REDUCE))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_singular_values_are_those_of_the_product_of_all_steps(form):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, 9)) * (rng.random((6, 9)) < 0.5)
    data = Dataset("small", form(X), np.array([1, -1, 1, 1, -1, -1]))
    (whole, rest) = block_values(data, Model(rng.standard_normal(9), 0.3), "squared_error", 0.1, (6, 50), seed=3)
    assert (whole.matrix, rest.matrix) == (WHOLE, REST)
    decay = SPARSE_INTERCEPT_DECAY if sp.issparse(data.X) else 1.0
    M = np.eye(10)
    for x in X[np.random.default_rng(3).permutation(6)]:  # w −= 0.1 (x·w + b − y) x, b −= 0.1 decay (…)
        M = (np.eye(10) - 0.1 * np.outer(np.append(x, decay), np.append(x, 1.0))) @ M
    largest = np.linalg.svd(M - np.eye(10), compute_uv=False)
    assert {rank: rest.by_rank[rank] for rank in "12346"} == pytest.approx({r: largest[int(r) - 1] for r in "12346"})
    smallest = np.linalg.svd(M, compute_uv=False)[::-1]
    assert whole.by_rank["1"] == pytest.approx(smallest[0])


def test_blocks_larger_than_the_set_are_left_out():
    data = Dataset("small", np.eye(3), np.array([1, -1, 1]))
    assert {one.block_size for one in block_values(data, Model(np.zeros(3)), "log_loss", 0.1, (2, 3, 4), 0)} == {2, 3}
    assert list(block_values(data, Model(np.zeros(3)), "log_loss", 0.1, (4,), 0)) == []
