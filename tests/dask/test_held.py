"""Workers keep the model, and rounds are asked for before the last one is known: neither changes a bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dask
from dask_cases import CHOICES, cut, dense_rows, sparse_rows, write_store
from symsgd import TrainingInterrupted, schedules
from symsgd.combiners import Curvature
from symsgd.dask import held, rounds, train, worker
from symsgd.dask.cluster import Asked, Cluster
from symsgd.dask.held import Model, ModelMissingError, Version, forget, model_at
from symsgd.dask.lanes import Segment
from symsgd.dask.merging import Movement
from symsgd.dask.packing import Packed, pack
from symsgd.strategies import MapReduce

BLOCKS: dict[str, Any] = {**CHOICES, "blocks": 4, "n_threads": 1}
GIVEN, ADAPTS = MapReduce(Curvature(), block_size=150), MapReduce(Curvature(), block_size="auto")


def step(change: Any, log_kept: float = 0.0) -> Movement:
    one = np.ones(len(change))
    return Movement(pack(np.asarray(change, np.float32)), one, log_kept * one, one, one, 3)


def version(number: int, before: int = -1, training: str = "own", active: tuple[int, ...] = (0, 1)) -> Version:
    return Version(training, number, before, active)


@pytest.fixture(autouse=True)
def empty() -> None:
    held._held.clear()
    held._merged.clear()
    held._ended.clear()


def test_a_model_follows_from_the_one_before() -> None:
    first = Model(pack(np.array([[1.0, 0.0, 2.0], [3.0, 4.0, 0.0]])), np.array([5.0, 6.0]))
    assert model_at(version(0), first, None, "f8").coef.tolist() == [[1, 0, 2], [3, 4, 0]]
    moved = step([[0.0, 8.0, 0.0], [0.0, 1.0, 0.0]], np.log(0.5))
    found = model_at(version(1, 0), None, lambda: moved, "f8")
    np.testing.assert_allclose(found.coef, [[0.5, 8, 1], [1.5, 3, 0]], rtol=1e-15)
    assert found.intercept.tolist() == [6.0, 7.0]
    assert model_at(version(1, 0), None, lambda: moved, "f8") is found  # made once
    stopped = model_at(version(2, 1, active=(1,)), None, lambda: moved, "f8")
    assert stopped.coef[0].tolist() == found.coef[0].tolist()
    assert stopped.intercept.tolist() == [6.0, 8.0]


def test_a_worker_says_what_it_does_not_have() -> None:
    moved, first = step([[1.0]]), Model(pack(np.ones((1, 1))), np.zeros(1))
    with pytest.raises(ModelMissingError, match="no model 0 of own"):
        model_at(version(1, 0), None, lambda: moved, "f4")
    model_at(version(0), first, None, "f4")
    with pytest.raises(ModelMissingError, match="no model 3 of own"):
        model_at(version(4, 3), None, lambda: moved, "f4")
    model_at(version(4, 3), first, None, "f4")  # sent whole
    forget("own")
    forget("another")
    with pytest.raises(ModelMissingError):
        model_at(version(5, 4), None, lambda: moved, "f4")
    model_at(version(6), first, None, "f4")  # of a block that nobody waits for any more
    assert not held._held


def test_a_round_is_merged_once_on_a_worker() -> None:
    made: list[Movement] = []

    def merge() -> Movement:
        made.append(step([[1.0]]))
        return made[-1]

    assert held.merged_once("own", 3, merge) is held.merged_once("own", 3, merge)
    assert held.merged_once("another", 3, merge) is not made[0]
    assert held.merged_once("own", 4, merge) is made[2]
    forget("own")
    assert "own" not in held._merged
    held.merged_once("own", 5, merge)  # for a client that is not there any more
    assert "own" not in held._merged
    for name in "abcdefg":
        held.merged_once(name, 0, merge)
    assert len(held._merged) == held.MOST_TRAININGS


def test_few_trainings_keep_a_model_at_a_time() -> None:
    first = Model(Packed(1, np.ones((1, 1), np.float32)), np.zeros(1))
    for name in "abcd":
        model_at(version(0, training=name), first, None, "f4")
    model_at(version(0, training="a"), None, None, "f4")
    model_at(version(0, training="e"), first, None, "f4")
    assert list(held._held) == ["c", "d", "a", "e"]


def stores_of(folder: Path, X: Any, y: Any, parts: int = 3) -> list[Path]:
    return [write_store(folder / f"{a}.store", X[a:b], y[a:b]) for a, b in cut(len(y), parts)]


def same(one: Any, other: Any) -> None:
    assert np.array_equal(one.coef, other.coef)
    assert np.array_equal(one.intercept, other.intercept)
    assert [record.error for record in one.passes] == [record.error for record in other.passes]
    assert [record.loss for record in one.passes] == [record.loss for record in other.passes]
    assert one.journal.passes == other.journal.passes


@pytest.mark.parametrize("strategy", [GIVEN, ADAPTS, "parameter-server", "sequential"], ids=["150", "auto", "sum", "1"])
def test_asking_ahead_changes_nothing(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: Any
) -> None:
    data = stores_of(tmp_path, *sparse_rows(8_000, 300))
    found = train(client, data, **BLOCKS, strategy=strategy)
    for ahead in (1, 4):
        monkeypatch.setattr(rounds, "AHEAD", ahead)
        same(train(client, data, **BLOCKS, strategy=strategy), found)


@pytest.mark.parametrize("strategy", [GIVEN, "parameter-server"], ids=["150", "sum"])
def test_workers_that_merge_for_themselves_have_the_same_bits(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: Any
) -> None:
    data = stores_of(tmp_path, *sparse_rows(8_000, 300))
    asked: list[bool] = []
    leads_on = vars(Asked)["leads_on"]

    def noted(self: Asked) -> Any:
        found = leads_on.__get__(self)
        asked.append(found is not self.root)
        return found

    monkeypatch.setattr(Asked, "leads_on", property(noted))
    found = train(client, data, **BLOCKS, strategy=strategy)
    assert sum(asked) > len(asked) / 2  # there are two workers
    monkeypatch.setattr(Asked, "leads_on", property(lambda self: self.root))
    same(train(client, data, **BLOCKS, strategy=strategy), found)


def test_rounds_that_were_asked_for_too_soon_leave_nothing(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps so long that merges of a given size do harm: what was asked for after them is dropped."""
    X, y = dense_rows(8_000, 40)
    X = np.ascontiguousarray(3 * X)
    parts = [dask.delayed((X[a:b], y[a:b])) for a, b in cut(len(y), 4)]
    choices = {**BLOCKS, "schedule": schedules.Constant(1.0), "blocks": 8, "strategy": ADAPTS, "n_passes": 3}
    found = train(client, parts, **choices)
    assert sum(own.undone for pass_ in found.rounds for own in pass_) > 0
    monkeypatch.setattr(rounds, "AHEAD", 1)
    same(train(client, parts, **choices), found)


@pytest.mark.parametrize("source", ["stores", "delayed"])
def test_the_model_goes_whole_only_where_workers_do_not_have_it(client: Any, tmp_path: Path, source: str) -> None:
    X, y = sparse_rows(8_000, 300)
    if source == "stores":
        data: Any = stores_of(tmp_path, X, y, 1)
    else:  # a lane each, so that lanes stay on their worker
        data = [dask.delayed((X[a:b], y[a:b])) for a, b in cut(len(y), 4)]
    found = train(client, data, **BLOCKS, strategy=GIVEN)
    sent = [own.model_bytes for pass_ in found.rounds for own in pass_]
    if source == "stores":
        assert sent.count(0) >= len(sent) - 2 - 2 * found.repeated
    else:  # where partitions are, and who takes work from whom, is for the scheduler to say
        assert sent.count(0) > 0
    assert all(own.movement_bytes > 0 for pass_ in found.rounds for own in pass_)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_workers_that_have_lost_it_get_it_whole_and_go_on_with_the_same_bits(
    client: Any, tmp_path: Path, dtype: str
) -> None:
    X, y = sparse_rows(6_000, 300)
    data = stores_of(tmp_path, X.astype(dtype), y)

    def clear() -> None:
        from symsgd.dask import held

        held._held.clear()

    undisturbed = train(client, data, **BLOCKS, strategy=GIVEN)
    disturbed = train(client, data, **BLOCKS, strategy=GIVEN, callbacks=lambda record: bool(client.run(clear)) and None)
    same(undisturbed, disturbed)
    assert undisturbed.repeated < disturbed.repeated
    assert disturbed.coef.dtype == dtype


def test_what_is_dropped_takes_nothing_of_others_with_it(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions in memory, and futures that have nothing to do with it, outlive rounds that are asked for again, and
    an interrupt while two are under way."""
    X, y = sparse_rows(6_000, 300)
    parts = client.scatter([(X[a:b], y[a:b]) for a, b in cut(len(y), 2)], hash=False)
    another = client.submit(sum, [1, 2, 3], pure=False)
    choices = {**BLOCKS, "blocks": 2, "strategy": GIVEN}
    undisturbed = train(client, parts, **choices)
    taken, took = [0], Cluster.take

    def lost(self: Any, asked: Any) -> Any:
        taken[0] += 1
        if taken[0] % 5 == 0:
            raise ModelMissingError("as if a worker had lost it")
        return took(self, asked)

    monkeypatch.setattr(Cluster, "take", lost)
    disturbed = train(client, parts, **choices)
    same(undisturbed, disturbed)
    assert disturbed.repeated > 3

    def interrupted(self: Any, asked: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cluster, "take", interrupted)
    with pytest.raises(TrainingInterrupted):
        train(client, parts, **choices)
    assert another.result() == 6
    assert {part.status for part in parts} == {"finished"}
    monkeypatch.setattr(Cluster, "take", took)
    same(undisturbed, train(client, parts, **choices))


def test_classes_that_stop_are_the_same_on_the_workers(client: Any, tmp_path: Path) -> None:
    X, _ = sparse_rows(6_000, 300)
    y = np.minimum(np.asarray((X != 0).sum(axis=1)).ravel() % 4, 3)
    choices = {**BLOCKS, "tol": 1e-2, "patience": 1, "n_passes": 12, "strategy": GIVEN}
    data = stores_of(tmp_path, X, y)
    undisturbed = train(client, data, **choices)
    assert undisturbed.n_passes < 12

    def clear() -> None:
        from symsgd.dask import held

        held._held.clear()

    same(train(client, data, **choices, callbacks=lambda record: bool(client.run(clear)) and None), undisturbed)


def test_a_block_that_diverges_in_its_first_segment_has_diverged() -> None:
    one, nothing = np.ones(1), Packed(2, np.zeros((1, 0), np.float32), np.zeros(0, np.int32))
    lost = Movement(nothing, one, one, one, one, 5, diverged=True)
    start, none = held.Held(0, np.zeros((1, 2)), np.zeros(1)), cast("Any", None)
    found = worker._trained(start, None, lost, none, Segment(0, 0, 7, 0), 1.0, 0.0, none, None)
    assert found.diverged
    assert found.rows == 12


def test_nothing_stays_on_the_workers(client: Any, tmp_path: Path) -> None:
    def kept() -> int:
        from symsgd.dask import held

        return len(held._held) + len(held._merged)

    train(client, stores_of(tmp_path, *sparse_rows(4_000, 300)), **BLOCKS, strategy=GIVEN)
    assert set(client.run(kept).values()) == {0}
