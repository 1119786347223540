"""Rounds that are refined because no merge is good enough: nobody has asked for the sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from curvature_cases import curved, labels_of, off, sequential, trained, zipf_rows
from symsgd import penalties, schedules, strategies
from symsgd.data import twin

CASE: dict[str, Any] = {"penalty": penalties.L2(1e-6), "schedule": schedules.Constant(0.035), "n_passes": 3}


def one_hot(n: int = 60_000, fields: int = 20, values: int = 200) -> tuple[sp.csr_array, np.ndarray]:
    """Fields of a few common values and many rare ones, and steps that none of them sees often enough to settle."""
    rng = np.random.default_rng(0)
    columns = np.minimum(rng.geometric(3 / values, (n, fields)) - 1, values - 1) + np.arange(fields) * values
    X = sp.csr_array((np.ones(n * fields), columns.ravel(), np.arange(n + 1) * fields), shape=(n, fields * values))
    return X, rng.random(n) < 1 / (1 + np.exp(-0.3 * (X @ rng.standard_normal(fields * values))))


def each_its_own(n: int = 40_000) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
    """Six frequent features and one of its own for every row, which waits for its merge; and the numbers of those."""
    X = sp.hstack([zipf_rows(n, 6, 3), sp.identity(n)], format="csr")
    order = np.random.default_rng(2).permutation(n + 6)
    X = sp.csr_matrix((X.data, order[X.indices], X.indptr), shape=X.shape)
    return X, labels_of(X), order[6:]


@pytest.mark.parametrize("n_threads", [4, 8, 16])
def test_they_are_where_no_merge_will_do(n_threads: int) -> None:
    X, y = one_hot()
    case = CASE | {"schedule": schedules.Constant(0.03)}
    found, wanted = trained(X, y, curved(), n_threads, **case), sequential(X, y, **case)
    for record in found.passes:
        assert record.sweeps > 0
    assert sum(record.rows_alone for record in found.passes) < 0.2 * len(found.passes) * len(y)
    assert all(record.rows_alone < 0.3 * len(y) for record in found.passes[1:])
    assert off(found, wanted, X) < 0.02
    assert found.passes[-1].loss == pytest.approx(wanted.passes[-1].loss, rel=2e-3)
    merged = trained(X, y, curved(int(found.passes[-1].mean_block or 0), refine=0), n_threads, **case)
    assert off(merged, wanted, X) > 3 * off(found, wanted, X)


def test_the_end_of_a_pass_is_trained_alone() -> None:
    """What sweeps leave is off along steep directions, here all predictions together: by .014 of what another seed
    changes without these rows."""
    X, y = one_hot()
    case = CASE | {"schedule": schedules.Constant(0.03)}
    found, wanted, other = (
        trained(X, y, curved(), 8, **case),
        sequential(X, y, **case),
        sequential(X, y, seed=1, **case),
    )

    def predictions(result: Any) -> np.ndarray:
        return np.asarray(X @ result.coef.ravel() + result.intercept[0])

    for record in found.passes:
        assert record.sweeps > 0
        assert record.rows_alone > 0
    off_by = abs((predictions(found) - predictions(wanted)).mean())
    assert off_by < 0.005 * np.std(predictions(other) - predictions(wanted))


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_what_counts_is_what_the_next_block_leaves(seed: int) -> None:
    """What all rows have moves all predictions, until the next rows have moved them back. By what they are off by at
    the end of a round, blocks would be of 250 to 520 rows, or all rows alone."""
    data = twin("url", 0.05)
    y = np.asarray(data.y) > 0
    case = CASE | {"schedule": schedules.Constant(1.0), "n_passes": 4}
    _, *later, last = trained(data.X, y, curved(), 16, seed=seed, **case).passes
    assert last.sweeps > 0
    assert (last.mean_block or 0) > 800
    for record in (*later, last):
        assert record.rows_alone < 0.1 * len(y)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("l2", [1e-6, 1e-3])
def test_what_waits_sees_its_rows_once(monkeypatch: pytest.MonkeyPatch, index: Any, dtype: Any, l2: float) -> None:
    monkeypatch.setattr(strategies, "RENUMBER_FROM", 8)
    monkeypatch.setattr(strategies, "MOST_PLACES", 4)
    X, y, own = each_its_own()
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    case = CASE | {"schedule": schedules.Constant(0.05), "penalty": penalties.L2(l2)}
    found, wanted = trained(X, y, curved(tolerance=0.001), 8, **case), sequential(X, y, **case)
    assert sum(record.sweeps for record in found.passes) >= 4
    assert sum(record.rows_alone for record in found.passes) < len(y)
    assert np.linalg.norm((found.coef - wanted.coef)[0, own]) < 5e-3 * np.linalg.norm(wanted.coef[0, own])


@pytest.mark.parametrize("dense", [False, True])
def test_several_classes(dense: bool) -> None:
    X, _ = one_hot(40_000, 4, 40)
    y = np.argmax(
        X @ np.random.default_rng(1).standard_normal((160, 3)) + np.random.default_rng(2).gumbel(size=(40_000, 3)), 1
    )
    matrix = X.toarray() if dense else X
    case = CASE | {"schedule": schedules.Constant(0.1)}
    found, wanted = trained(matrix, y, curved(), 8, **case), sequential(matrix, y, **case)
    assert sum(record.sweeps for record in found.passes) > 0
    assert off(found, wanted, X) < 0.02


def test_first_passes_with_decreasing_steps_have_none() -> None:
    """What large steps leave behind is not taken back by small ones."""
    X, y = one_hot()
    case = CASE | {"schedule": schedules.InvScaling(0.3, 0.1)}
    first, *rest = trained(X, y, curved(), 8, **case).passes
    assert first.sweeps == 0
    assert first.rows_alone > 0.5 * len(y)
    assert sum(record.sweeps for record in rest) > 0


def test_the_same_bits_whoever_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = one_hot(30_000)
    found = set()
    for cores in (1, 2, 5, 5):
        monkeypatch.setattr(strategies, "available_cores", lambda cores=cores: cores)
        result = trained(X, y, curved(), 5, **CASE)
        assert sum(record.sweeps for record in result.passes) > 0
        found.add(result.coef.tobytes())
    assert len(found) == 1


def test_they_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    X, y = one_hot(30_000)
    whole = trained(X, y, curved(), 8, **CASE)
    checkpoint = tmp_path / "training"
    trained(X, y, curved(), 8, checkpoint=checkpoint, callbacks=[lambda record: record.number == 1], **CASE)
    found = trained(X, y, curved(), 8, checkpoint=checkpoint, **CASE)
    assert [record.sweeps for record in found.passes] == [record.sweeps for record in whole.passes]
    np.testing.assert_array_equal(found.coef, whole.coef)


@pytest.mark.parametrize(
    "other",
    [
        {"loss": "hinge"}, {"penalty": penalties.L1(1e-6)}, {"average": True}, {"n_threads": 3},
        {"strategy": curved(512)},
    ],
    ids=["gradients that jump", "L1", "averages", "three blocks", "blocks of a given size"],
)  # fmt: skip
def test_they_are_not(other: dict[str, Any]) -> None:
    """Where sweeps do not settle, or would cost as much as they give, or the rounds are the caller's."""
    X, y = one_hot()
    case = {"strategy": curved(), "n_threads": 8} | CASE | other
    for record in trained(X, y, **case).passes:
        assert record.sweeps == 0
