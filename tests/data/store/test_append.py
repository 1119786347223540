"""Appending: what is added follows what there was, and whoever reads sees one state or the other."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store_cases import assert_holds, quick_folder, source, sparse_part, superblock_of, together, weighted, write
from symsgd.data.dataset import Part, Schema, SparseColumns, gather
from symsgd.data.store import StoreWriter, open_store
from symsgd.data.store.layout import SUPERBLOCK_OFFSETS, Superblock
from symsgd.errors import StoreError


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.one_of(st.integers(0, 30), st.integers(2000, 5000)), min_size=2, max_size=5),
    sparse=st.booleans(),
    weights=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_appended_rows_follow_those_before_them(sizes: list[int], sparse: bool, weights: list[bool]) -> None:
    with quick_folder() as folder:
        path = Path(folder) / "rows.store"
        states, written = [], []
        for i, size in enumerate(sizes):
            known = weighted(source(i, [size], sparse=sparse), [weights[i]])
            write(path, known, append=i > 0)
            written.append(known)
            states.append(open_store(path))
        for i, store in enumerate(states):  # also those opened before the last append
            assert_holds(store, gather(together(*written[: i + 1])))
            assert store.generation == i + 1
            assert store.notes == tuple(f"seed {j}" for j in range(i + 1))


def test_a_store_of_many_appends_is_hardly_larger_than_its_rows(tmp_path: Path) -> None:
    with quick_folder() as folder:
        path = Path(folder) / "rows.store"
        write(path, source(0, [10]))
        first = path.stat().st_size
        for i in range(50):
            write(path, source(i, [10]), append=True)
        assert path.stat().st_size - first < 50 * 4096


def test_indices_that_need_a_shift_are_shifted_from_the_first_new_one_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    first = source(0, [9000], 100)
    write(path, first)
    old = open_store(path)
    second = replace(source(1, [9000], 99), index_shift=1, schema=first.schema)
    write(path, second, append=True)
    expected = np.concatenate([gather(first).X.indices, gather(second).X.indices])
    store = open_store(path)
    store.verify()
    np.testing.assert_array_equal(store.X.indices, expected)
    assert_holds(old, gather(first))


def test_indices_become_wider_without_touching_the_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    first = source(0, [9000], 100)
    write(path, first)
    old, wide = open_store(path), 1 << 35
    with StoreWriter(path, append=True) as writer:
        writer.add(Part(SparseColumns(np.array([0, 1]), np.array([wide - 1]), np.ones(1, np.float32)), np.ones(1)))
        writer.commit(replace(first.schema, n_features=wide))
    store = open_store(path)
    store.verify()
    np.testing.assert_array_equal(store.X.indices[:-1], old.X.indices)
    assert store.X.indices[-1] == wide - 1
    assert_holds(old, gather(first))


def test_sparse_rows_may_have_more_features(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0, n_features=30))
    write(path, source(1, n_features=50), append=True)
    assert open_store(path).X.shape == (94, 50)
    write(path, source(2, n_features=10), append=True)
    assert open_store(path).schema.n_features == 50


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Schema("csv", 30, options={"base": 0}), "rows of format 'csv' cannot follow rows of format 'test'"),
        (Schema("test", 30, options={"base": 1}), "{'base': 1} cannot follow rows read with {'base': 0}"),
        (Schema("test", 30, options={"base": 0}, label_names=("no", "yes")), "label names"),
        (Schema("test", 30, options={"base": 0}, feature_names=("a",) * 30), "feature names"),
    ],
)
def test_rows_that_mean_something_else_are_refused(tmp_path: Path, schema: Schema, reason: str) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=reason):
        write(path, replace(source(1), schema=schema), append=True)
    assert path.stat().st_size == len(before)
    assert_holds(open_store(path), gather(source(0)))


def test_a_matrix_goes_with_any_format(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0))
    write(path, replace(source(1), schema=Schema("matrix", 30)), append=True)
    assert open_store(path).schema == source(0).schema


class Failing:
    """A reader whose file ends badly."""

    def parts(self) -> Iterator[Part]:
        yield sparse_part(np.random.default_rng(0), 20_000, 30)
        raise ZeroDivisionError


def test_a_source_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0))
    length = path.stat().st_size
    with pytest.raises(ZeroDivisionError):
        write(path, Failing(), append=True)
    assert path.stat().st_size == length
    assert_holds(open_store(path), gather(source(0)))


def test_a_source_that_fails_leaves_no_new_store(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "rows.store", Failing())
    assert not list(tmp_path.iterdir())


def test_two_writers_at_a_time_are_one_too_many(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0))
    with StoreWriter(path, append=True), pytest.raises(StoreError, match=r"rows\.store: another process is writing it"):
        StoreWriter(path, append=True)
    with StoreWriter(tmp_path / "new.store"), pytest.raises(StoreError, match="another process is writing it"):
        StoreWriter(tmp_path / "new.store")
    write(path, source(1), append=True)
    assert len(open_store(path)) == 94


def test_readers_need_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0))
    with path.open("rb") as file, StoreWriter(path, append=True) as writer:
        writer.add(source(1).rows[0])
        assert_holds(open_store(path), gather(source(0)))
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_append_mends_a_superblock_before_it_writes_the_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0))
    data = bytearray(path.read_bytes())
    data[SUPERBLOCK_OFFSETS[1]] ^= 1
    path.write_bytes(data)
    with StoreWriter(path, append=True):
        pass
    blocks = [path.read_bytes()[offset:][: Superblock.SIZE] for offset in SUPERBLOCK_OFFSETS]
    assert blocks[0] == blocks[1] == superblock_of(path).pack()


def test_damage_where_an_append_would_go_on_is_found(tmp_path: Path) -> None:
    path = tmp_path / "rows.store"
    write(path, source(0))
    offset = open_store(path)._table.arrays["y"].extents[-1].offset
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="'y' is damaged"):
        StoreWriter(path, append=True)


def test_files_of_another_kind_are_neither_replaced_nor_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "train.svm"
    path.write_text("1 2:3\n" * 20)
    with pytest.raises(StoreError, match="it exists and is not a store, so it is not replaced"):
        StoreWriter(path)
    with pytest.raises(StoreError, match="not a symsgd store"):
        StoreWriter(path, append=True)
    assert path.read_text() == "1 2:3\n" * 20
    with pytest.raises(IsADirectoryError):
        StoreWriter(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        StoreWriter(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        StoreWriter(tmp_path / "none", append=True)


@pytest.mark.parametrize(
    ("part", "error", "reason"),
    [
        (source(sparse=False).rows[0], StoreError, "sparse and dense rows"),
        (source(dtype=np.float64).rows[0], StoreError, "its values are float32, but those from row 47 on are float64"),
        (Part(source().rows[0].rows, np.zeros(3)), ValueError, r"40 rows, but its y has shape \(3,\)"),
        (replace(source().rows[0], weight=np.zeros(3)), ValueError, r"40 rows, but its weight has shape \(3,\)"),
        (Part(SparseColumns(np.array([0, 2]), np.zeros(1), np.zeros(1)), np.zeros(1)), ValueError, "do not ascend"),
        (Part(SparseColumns(np.array([1, 1]), np.zeros(1), np.zeros(1)), np.zeros(1)), ValueError, "do not ascend"),
        (Part(SparseColumns(np.array([0, 1, 0, 1]), np.zeros(1), np.zeros(1)), np.zeros(3)), ValueError, "ascend"),
        (Part(SparseColumns(np.array([0, 1]), np.zeros(1), np.zeros(2)), np.zeros(1)), ValueError, "1 indices, but 2"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path: Path, part: Part, error: type[Exception], reason: str) -> None:
    with StoreWriter(tmp_path / "rows.store") as writer:
        for known in source().rows:
            writer.add(known)
        with pytest.raises(error, match=reason):
            writer.add(part)


def test_dense_parts_of_another_width_are_refused(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "rows.store") as writer:
        writer.add(source(sparse=False).rows[0])
        with pytest.raises(ValueError, match=r"shape \(40, 31\), but the rows before it have 30 features"):
            writer.add(source(sparse=False, n_features=31).rows[0])
        with pytest.raises(StoreError, match="rows have 30 features, but the schema has 31"):
            writer.commit(Schema("test", 31))


@pytest.mark.parametrize(("n_features", "shift"), [(29, 0), (30, 1), (40, -1)])
def test_indices_that_the_schema_does_not_know_are_refused(tmp_path: Path, n_features: int, shift: int) -> None:
    known = replace(source(sizes=[1000]), schema=Schema("test", n_features), index_shift=shift)
    with pytest.raises(StoreError, match=f"rows have features {shift} to {29 + shift}, but .* {n_features} features"):
        write(tmp_path / "rows.store", known)
    assert not list(tmp_path.iterdir())


def test_a_type_that_values_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dtype='int8' is not accepted; it must be float32 or float64"):
        StoreWriter(tmp_path / "rows.store", dtype="int8")


def test_a_writer_commits_once(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "rows.store") as writer:
        writer.commit(Schema("test", 30))
        with pytest.raises(StoreError, match="its writer has been closed"):
            writer.commit(Schema("test", 30))
