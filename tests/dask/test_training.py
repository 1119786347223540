"""Training on a cluster follows the sequential run in its order, whatever the partitions and whoever trains them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import dask
import symsgd
from dask_cases import CHOICES, cut, dense_rows, in_order, off, pieces, sparse_rows, write_store
from symsgd import History, schedules
from symsgd.combiners import AdaGradMean, Curvature, Mean, Sum
from symsgd.dask import train
from symsgd.strategies import AllReduce, Averaging, MapReduce

ROUNDS = MapReduce(Curvature(tolerance=0.05), block_size="auto")  # a few thousand rows are stiffer than many


def futures(client: Any, X: Any, y: Any, parts: int = 4) -> list[Any]:
    return list(client.scatter(pieces(X, y, parts), hash=False))


@pytest.mark.parametrize("rows", [sparse_rows, dense_rows])
def test_rounds_follow_the_sequential_run_in_their_order(client: Any, rows: Any) -> None:
    X, y = rows()
    result = train(client, futures(client, X, y), **CHOICES, strategy=ROUNDS)
    assert sum(record.merges for record in result.passes) >= 24
    errors = [own.error for rounds in result.rounds for own in rounds if own.error is not None]
    assert errors
    assert errors[-1] < 0.05
    assert off(result, in_order(X, y, result.journal, CHOICES)) < 0.07


@pytest.mark.parametrize("rows", [sparse_rows, dense_rows])
def test_where_movements_do_not_add_up_they_are_merged(client: Any, rows: Any) -> None:
    X, y = rows()
    choices = {**CHOICES, "schedule": schedules.Constant(0.1)}
    merged, added = (
        train(client, futures(client, X, y), **choices, strategy=MapReduce(combiner, block_size=125))
        for combiner in (Curvature(), Sum())
    )
    assert off(merged, in_order(X, y, merged.journal, choices)) < 0.3
    assert off(added, in_order(X, y, added.journal, choices)) > 1


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "modified_huber"])
def test_other_losses_follow_it_too(client: Any, loss: str) -> None:
    X, y = sparse_rows()
    choices = {**CHOICES, "loss": loss, "n_passes": 1}
    result, total = (
        train(client, futures(client, X, y), **choices, strategy=MapReduce(combiner, block_size=100))
        for combiner in (Curvature(), Sum())
    )
    assert result.passes[0].merges >= 40
    apart = [off(one, in_order(X, y, one.journal, choices)) for one in (result, total)]
    assert apart[0] < 0.15
    assert apart[0] < 0.7 * apart[1]


@pytest.mark.parametrize(
    "schedule",
    [schedules.Optimal(1e-4), schedules.InvScaling(0.3, 0.25), schedules.Linear(), schedules.Linear(0.2)],
    ids=lambda schedule: schedule.name,
)
def test_every_schedule_counts_its_steps_over_all_blocks(client: Any, schedule: Any) -> None:
    X, y = dense_rows(1_000)
    choices = {**CHOICES, "schedule": schedule}
    result = train(client, futures(client, X, y), **choices, strategy="sequential")
    assert result.t == 2_001
    if schedule == schedules.Linear():  # the sample here is all rows, as it is on one machine
        whole = symsgd.train(X, y, **choices, strategy="sequential")
        assert abs(result.passes[0].loss - whole.passes[0].loss) < 0.02
        return
    if isinstance(schedule, schedules.Linear):
        choices["schedule"] = schedules.Linear(0.2, n_steps=2_000)
    assert off(result, in_order(X, y, result.journal, choices)) < 1e-5


def test_one_block_after_the_other_is_sequential(client: Any) -> None:
    X, y = sparse_rows()
    result = train(client, futures(client, X, y), **CHOICES, strategy="sequential")
    assert result.passes[0].rows_alone == X.shape[0]
    assert off(result, in_order(X, y, result.journal, CHOICES)) < 1e-5


def test_auto_leaves_small_work_to_one_worker_and_says_so(client: Any) -> None:
    X, y = sparse_rows()
    result = train(client, futures(client, X, y), **CHOICES)
    assert "one machine would be faster" in result.strategy
    assert sum(record.merges for record in result.passes) == 0
    assert off(result, in_order(X, y, result.journal, CHOICES)) < 1e-5


def test_averaging_is_the_mean_of_the_lanes(client: Any) -> None:
    X, y = sparse_rows()
    result = train(client, futures(client, X, y), **{**CHOICES, "n_passes": 1}, strategy=Averaging(), blocks=4)
    own = []
    for block in result.journal.passes[0][0]:
        (segment,) = block.segments
        begin, end = cut(X.shape[0], 4)[segment.partition]
        own.append(
            symsgd.train(
                X[begin:end], y[begin:end], **{**CHOICES, "n_passes": 1, "seed": segment.seed}, strategy="sequential"
            )
        )
    np.testing.assert_allclose(result.coef, np.mean([one.coef for one in own], axis=0), atol=1e-6)
    np.testing.assert_allclose(result.intercept, np.mean([one.intercept for one in own], axis=0), atol=1e-9)


def test_allreduce_weighs_by_what_adagrad_has_gathered(client: Any) -> None:
    X, y = sparse_rows()
    choices = {**CHOICES, "n_passes": 1}
    result = train(client, futures(client, X, y), **choices, strategy=AllReduce(0.3), blocks=4)
    top, bottom, squares = 0.0, 0.0, 0.0
    for block in result.journal.passes[0][0]:
        (segment,) = block.segments
        begin, end = cut(X.shape[0], 4)[segment.partition]
        own = symsgd.train(
            X[begin:end], y[begin:end], **{**choices, "seed": segment.seed}, strategy=AllReduce(0.3), n_threads=1
        )
        G = own.gathered_coef.astype(np.float64)
        top, bottom, squares = top + G * own.coef, bottom + G, squares + G**2
    there = bottom > 0
    np.testing.assert_allclose(result.coef[there], (top / np.where(there, bottom, 1))[there], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(result.gathered_coef[there], (squares / np.where(there, bottom, 1))[there], rtol=1e-3)
    again = train(client, futures(client, X, y), **{**choices, "n_passes": 3}, strategy=AllReduce(0.3), blocks=4)
    assert again.passes[-1].loss < again.passes[0].loss


@pytest.mark.parametrize("combiner", [Mean(), AdaGradMean(0.3)])
def test_means_of_rounds(client: Any, combiner: Any) -> None:
    X, y = sparse_rows()
    result = train(client, futures(client, X, y), **CHOICES, strategy=MapReduce(combiner, block_size=500), blocks=4)
    assert result.passes[0].merges == X.shape[0] // 500
    assert result.passes[-1].loss < 0.69


def test_uneven_and_empty_partitions(client: Any) -> None:
    X, y = sparse_rows()
    ends = [0, 3_500, 3_500, 3_507, 4_000, 6_000]
    parts = client.scatter([(X[a:b], y[a:b]) for a, b in pairwise(ends)], hash=False)
    result = train(client, parts, **CHOICES, strategy=ROUNDS, blocks=3)
    assert off(result, in_order(X, y, result.journal, CHOICES)) < 0.06
    sizes = [[block.rows for block in blocks] for blocks in result.journal.passes[1]]
    assert all(
        max(own) <= 1.5 * min(own) + 2 for own in sizes if len(own) > 1
    )  # lanes are even where partitions are not
    crossing = [b for rounds in result.journal.passes for blocks in rounds for b in blocks if len(b.segments) > 1]
    assert crossing


def test_the_bits_do_not_depend_on_the_workers(client: Any) -> None:
    """Two workers of two threads, or threads of this process, one of which joins late: the same model."""
    from distributed import Client, LocalCluster

    X, y = sparse_rows()
    choices = {**CHOICES, "strategy": ROUNDS, "n_threads": 1, "blocks": 5}
    one = train(client, futures(client, X, y, 7), **choices)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as other,
    ):
        other_parts = other.scatter(pieces(X, y, 7), hash=False)

        def join(record: Any) -> None:
            if record.number == 1:
                cluster.scale(2)
                other.wait_for_workers(2)

        two = train(other, list(other_parts), **choices, callbacks=join)
    assert np.array_equal(one.coef, two.coef)
    assert np.array_equal(one.intercept, two.intercept)
    assert [r.error for r in one.passes] == [r.error for r in two.passes]


def test_collections_are_the_same_rows(client: Any, tmp_path: Path) -> None:
    """A Dask array, dense or of CSR blocks, a dataframe, delayed values, stores: the same rows, the same bits."""
    X, y = sparse_rows(2_000, 60)
    dense = X.toarray()
    spans = cut(2_000, 4)
    choices = {**CHOICES, "strategy": ROUNDS, "blocks": 4}
    expected = train(client, futures(client, X, y), **choices)
    meta = sp.csr_matrix((0, 60), dtype=np.float32)
    blocks = [da.from_delayed(dask.delayed(X[a:b]), (b - a, 60), np.float32, meta=meta) for a, b in spans]
    ways = {
        "array of CSR blocks": (da.concatenate(blocks), da.from_array(y, chunks=500)),
        "y cut otherwise": (da.concatenate(blocks), da.from_array(y, chunks=300)),
        "delayed": ([dask.delayed((X[a:b], y[a:b])) for a, b in spans], None),
        "delayed columns": ([dask.delayed(X[a:b]) for a, b in spans], [dask.delayed(y[a:b]) for a, b in spans]),
        "stores": ([write_store(tmp_path / f"{a}.store", X[a:b], y[a:b]) for a, b in spans], None),
    }
    for name, (rows, targets) in ways.items():
        assert np.array_equal(train(client, rows, targets, **choices).coef, expected.coef), name
    one = write_store(tmp_path / "all.store", X, y)
    assert np.array_equal(train(client, one, **choices).coef, expected.coef)  # one partition has the same lanes
    from_array = train(client, da.from_array(dense, chunks=(500, 30)), da.from_array(y, chunks=500), **choices)
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(dense).assign(y=y), npartitions=4)
    from_frame = train(client, frame.drop(columns="y"), frame["y"], **choices)
    assert np.array_equal(from_array.coef, from_frame.coef)
    assert off(from_array, in_order(dense, y, from_array.journal, CHOICES)) < 0.02


def test_weights_classes_and_numbers(client: Any) -> None:
    X, y = dense_rows()
    rng = np.random.default_rng(0)
    weight = rng.uniform(0, 2, len(y))
    weight[:600] = 0.0  # whole blocks of rows that do not count
    parts = client.scatter([(X[a:b], y[a:b], weight[a:b]) for a, b in cut(len(y), 4)], hash=False)
    result = train(client, parts, **CHOICES, class_weight=[1.0, 2.0], strategy=ROUNDS)
    sequential = in_order(X, y, result.journal, {**CHOICES, "class_weight": [1.0, 2.0]}, weight)
    assert off(result, sequential) < 0.05
    three = np.where(X[:, 0] > 0.3, "c", np.where(X[:, 1] > 0, "a", "b"))
    result = train(client, futures(client, X, three), **CHOICES, strategy=ROUNDS)
    assert result.coef.shape == (3, X.shape[1])
    assert result.classes.tolist() == ["a", "b", "c"]
    assert off(result, in_order(X, three, result.journal, CHOICES)) < 0.05
    numbers = X @ rng.standard_normal(X.shape[1]) + 1
    choices = {**CHOICES, "loss": "squared_error", "schedule": schedules.Constant(0.05)}
    result = train(client, futures(client, X, numbers), **choices, strategy=ROUNDS)
    assert off(result, in_order(X, numbers, result.journal, choices)) < 0.05


def test_tolerance_validation_and_callbacks(client: Any) -> None:
    X, y = dense_rows()
    history = History()
    parts = futures(client, X, y)
    result = train(
        client, parts, **{**CHOICES, "n_passes": 60}, strategy=ROUNDS, tol=1e-2, patience=2,
        eval_set=(da.from_array(X, chunks=1_500), da.from_array(y, chunks=1_500)), callbacks=history,
    )  # fmt: skip
    assert result.converged
    assert len(history.records) == result.n_passes < 60
    accuracy = np.mean((result.decision(X) > 0) == (y > 0))
    assert result.passes[-1].validation_score == pytest.approx(accuracy)
    here = train(client, parts, **CHOICES, eval_set=(X, y), callbacks=lambda record: record.number == 1)
    assert here.n_passes == 1
    assert here.passes[0].validation_score is not None
    steps = train(
        client, parts, **{**CHOICES, "n_passes": 40, "schedule": schedules.Adaptive(0.1)}, strategy="sequential",
        tol=1e-3, patience=1,
    )  # fmt: skip
    assert steps.n_passes > 3


def test_it_goes_on_from_a_result(client: Any) -> None:
    X, y = sparse_rows()
    parts = futures(client, X, y)
    first = train(client, parts, **CHOICES, strategy=ROUNDS)
    second = train(client, parts, **CHOICES, strategy=ROUNDS, init=first)
    assert second.t == first.t + 2 * X.shape[0]
    assert second.passes[0].loss < first.passes[0].loss


def test_divergence_carries_the_last_finite_model(client: Any) -> None:
    X, _ = dense_rows()
    choices = {**CHOICES, "loss": "squared_error", "schedule": schedules.Constant(1e37), "n_passes": 3}
    with pytest.raises(symsgd.DivergenceError) as caught:
        train(client, futures(client, X, X[:, 0]), **choices, strategy=ROUNDS)
    assert np.isfinite(caught.value.result.coef).all()


def test_a_merge_that_would_do_harm_is_undone(client: Any) -> None:
    """Steps so long that a round of large blocks is far off: the model stays near the sequential one."""
    X, y = dense_rows(8_000, 40)
    X = np.ascontiguousarray(3 * X)
    choices = {**CHOICES, "schedule": schedules.Constant(1.0), "n_passes": 2}
    result = train(client, futures(client, X, y), **choices, strategy=ROUNDS, blocks=8)
    sequential = in_order(X, y, result.journal, choices)
    assert sum(record.caught + (record.rows_alone > 500) for record in result.passes) > 0
    assert abs(np.mean((result.decision(X) > 0) == (y > 0)) - np.mean((sequential.decision(X) > 0) == (y > 0))) < 0.01
