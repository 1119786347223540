"""What goes into a store comes out of it, and is mapped, not read."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store_cases import assert_holds, dense_part, quick_folder, source, sparse_part, weighted, write
from symsgd.data.dataset import Dataset, DatasetReader, Part, Schema, SparseColumns, gather
from symsgd.data.store import StoreWriter, open_store
from symsgd.data.store import writer as writer_module
from symsgd.data.store.columns import next_length
from symsgd.errors import StoreError
from symsgd.inputs import is_mapped

LINUX = sys.platform == "linux"


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    sizes=st.lists(st.one_of(st.integers(0, 30), st.just(3000)), max_size=6),
    n_features=st.integers(0, 50),
    sparse=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    weights=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_a_store_holds_what_gathering_the_same_parts_gives(
    seed: int, sizes: list[int], n_features: int, sparse: bool, dtype: type, weights: list[bool]
) -> None:
    known = weighted(source(seed, sizes, n_features, sparse, dtype=dtype), weights[: len(sizes)])
    with quick_folder() as folder:
        path = Path(folder) / "rows.store"
        write(path, known)
        store = open_store(path)
        assert_holds(store, gather(known))
        assert store.schema == known.schema
        assert store.notes == tuple(known.notes)
        assert os.listdir(folder) == ["rows.store"]


@pytest.mark.parametrize("entries", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_data_set_is_read_in_parts_of_any_size(tmp_path: Path, entries: int, sparse: bool) -> None:
    known = gather(weighted(source(sizes=[60, 40], sparse=sparse), [True, True]))
    reader = DatasetReader(known, entries)
    lengths = [len(part.y) for part in reader.parts()]
    assert sum(lengths) == 100
    assert len(lengths) == {1: 100, 1 << 20: 1}.get(entries, len(lengths))
    write(tmp_path / "a.store", reader)
    assert_holds(open_store(tmp_path / "a.store"), known)


def test_indices_are_shifted_once_the_reader_knows_by_how_much(tmp_path: Path) -> None:
    known = source(sizes=[9000, 9000], n_features=100, mean_length=4)  # several extents
    shifted = replace(known, index_shift=1, schema=Schema("test", 101))
    write(tmp_path / "a.store", shifted)
    store = open_store(tmp_path / "a.store")
    assert len(store._table.arrays["indices"].extents) > 2
    assert store.X.indices.min() == 1
    assert_holds(store, gather(shifted))


def test_indices_get_64_bits_when_one_needs_them(tmp_path: Path) -> None:
    few, wide = sparse_part(np.random.default_rng(0), 20_000, 100), 1 << 40
    many = SparseColumns(np.array([0, 2]), np.array([3, wide - 1]), np.ones(2, np.float32))
    path = tmp_path / "a.store"
    with StoreWriter(path) as writer:
        writer.add(few)
        writer.add(Part(many, np.ones(1)))
        writer.add(few)
        writer.commit(Schema("test", wide))
    store = open_store(path)
    assert (store.X.indices.dtype, store.X.indptr.dtype) == (np.int64, np.int64)
    np.testing.assert_array_equal(store.X.indices, np.concatenate([few.rows.indices, many.indices, few.rows.indices]))
    store.verify()


def test_a_shift_beyond_32_bits_makes_indices_wider(tmp_path: Path) -> None:
    last = np.iinfo(np.int32).max
    with StoreWriter(tmp_path / "a.store") as writer:
        writer.add(Part(SparseColumns(np.array([0, 1]), np.array([last], np.int32), np.ones(1)), np.ones(1)))
        writer.commit(Schema("test", last + 2), index_shift=1)
    assert open_store(tmp_path / "a.store").X.indices.tolist() == [last + 1]


def test_starts_get_64_bits_when_there_are_so_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = source(sizes=[20_000, 300, 0, 7])
    monkeypatch.setattr(writer_module, "NARROW", len(known.rows[0].rows.indices) + 5)
    write(tmp_path / "a.store", known)
    store = open_store(tmp_path / "a.store")
    assert (store.X.indices.dtype, store.X.indptr.dtype) == (np.int32, np.int64)
    assert_holds(store, gather(known))


def test_starts_and_indices_have_32_bits_otherwise(tmp_path: Path) -> None:
    part = sparse_part(np.random.default_rng(0), 10, 100)
    with StoreWriter(tmp_path / "a.store") as writer:
        writer.add(replace(part, rows=replace(part.rows, indices=part.rows.indices.astype(np.int64))))
        writer.commit(Schema("test", 100))
    X = open_store(tmp_path / "a.store").X
    assert (X.indices.dtype, X.indptr.dtype) == (np.int32, np.int32)


def test_a_type_can_be_asked_for(tmp_path: Path) -> None:
    known = source(dtype=np.float64)
    write(tmp_path / "a.store", known, dtype="float32")
    values = open_store(tmp_path / "a.store").X.data
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, gather(known).X.data.astype(np.float32))


@pytest.mark.parametrize("sparse", [True, False])
def test_a_summary_says_what_the_rows_are_like(tmp_path: Path, sparse: bool) -> None:
    known = source(sparse=sparse)
    write(tmp_path / "a.store", known)
    summary, expected = open_store(tmp_path / "a.store").summary, gather(known)
    labels = expected.y[~np.isnan(expected.y)]
    assert summary.labels == {label: int((labels == label).sum()) for label in (-1.0, 1.0)}
    assert summary.unlabelled == np.isnan(expected.y).sum()
    assert summary.finite
    if sparse:
        lengths = np.diff(expected.X.indptr)
        assert (summary.longest_row, summary.empty_rows) == (lengths.max(), (lengths == 0).sum())
        assert not summary.canonical


@pytest.mark.parametrize(("indices", "canonical"), [([1, 2, 0, 2], True), ([1, 2, 2, 0], False), ([1, 1, 0, 2], False)])
def test_a_summary_knows_whether_indices_ascend_in_every_row(
    tmp_path: Path, indices: list[int], canonical: bool
) -> None:
    rows = SparseColumns(np.array([0, 0, 2, 2, 4, 4]), np.array(indices), np.ones(4))
    write(tmp_path / "a.store", replace(source(), rows=[Part(rows, np.ones(5))]))
    store = open_store(tmp_path / "a.store")
    assert store.summary.canonical == canonical
    assert store.X.has_canonical_format == canonical


def test_values_that_are_not_finite_are_kept_and_said(tmp_path: Path) -> None:
    rows = np.array([[np.nan, 1.0], [np.inf, 2.0]])
    write(tmp_path / "a.store", replace(source(sparse=False, n_features=2), rows=[Part(rows, np.arange(2.0))]))
    store = open_store(tmp_path / "a.store")
    assert not store.summary.finite
    np.testing.assert_array_equal(store.X, rows)


def test_more_labels_than_a_summary_lists(tmp_path: Path) -> None:
    known = replace(source(sparse=False), rows=[Part(np.zeros((300, 30)), np.arange(300.0))])
    write(tmp_path / "a.store", known)
    assert open_store(tmp_path / "a.store").summary.labels is None


def test_nothing_at_all_is_a_store_too(tmp_path: Path) -> None:
    write(tmp_path / "a.store", replace(source(), rows=[]))
    store = open_store(tmp_path / "a.store")
    store.verify()
    assert (len(store), store.X.shape, store.y.shape) == (0, (0, 30), (0,))


def test_feature_and_label_names_are_kept(tmp_path: Path) -> None:
    schema = Schema("csv", 30, tuple(f"größe {i}" for i in range(30)), ("no", "yes\udc80"), {"columns": [1, None, "x"]})
    write(tmp_path / "a.store", replace(source(), schema=schema))
    assert open_store(tmp_path / "a.store").schema == schema


def test_numbers_in_the_file_are_little_endian(tmp_path: Path) -> None:
    part = dense_part(np.random.default_rng(0), 4, 30)
    swapped = Part(part.rows.astype(">f4"), part.y.astype(">f8"))
    write(tmp_path / "a.store", replace(source(sparse=False), rows=[swapped]))
    data = (tmp_path / "a.store").read_bytes()
    assert part.rows.astype("<f4").tobytes() in data
    assert part.y.astype("<f8").tobytes() in data


@pytest.mark.parametrize("path", ["a.store", Path("a.store")])
def test_paths_are_text_or_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | Path) -> None:
    monkeypatch.chdir(tmp_path)
    write(path, source())
    assert len(open_store(path)) == 47


def mappings(path: Path) -> list[tuple[int, int]]:
    """The addresses at which this process has mapped a file."""
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]
    return [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in lines]  # type: ignore[misc]


@pytest.mark.skipif(not LINUX, reason="reads /proc")
@pytest.mark.parametrize("sparse", [True, False])
def test_arrays_are_the_file_itself_as_long_as_somebody_has_them(tmp_path: Path, sparse: bool) -> None:
    path = tmp_path / "a.store"
    write(path, weighted(source(sizes=[9000], sparse=sparse), [True]))
    store = open_store(path)
    X = store.X
    arrays = [X.data, X.indices, X.indptr] if sparse else [X]
    for array in [*arrays, store.y, store.sample_weight]:
        begin = array.__array_interface__["data"][0]
        assert any(low <= begin < high for low, high in mappings(path))
        assert not array.flags.writeable
        assert is_mapped(array)
    assert store.X is X
    y = store.y[10:20]
    expected = y.copy()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        _ = store.X
    del store, X, arrays, array
    gc.collect()
    np.testing.assert_array_equal(y, expected)
    assert mappings(path)
    del y
    gc.collect()
    assert not mappings(path)


def test_a_store_is_a_context(tmp_path: Path) -> None:
    write(tmp_path / "a.store", source())
    with open_store(tmp_path / "a.store") as store:
        assert store.nbytes == (tmp_path / "a.store").stat().st_size
        assert "47 rows × 30 features" in repr(store)
    with pytest.raises(StoreError, match=r"a\.store: it has been closed"):
        _ = store.y


def test_a_store_replaces_one_of_its_name_and_leaves_readers_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    write(path, source(0))
    old = open_store(path)
    write(path, source(1))
    assert_holds(open_store(path), gather(source(1)))
    assert_holds(old, gather(source(0)))


def test_a_link_stays_and_a_store_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "a.store", tmp_path / "link"
    link.symlink_to(target)
    write(link, source(0))
    target.chmod(0o640)
    write(link, source(1))
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert_holds(open_store(target), gather(source(1)))
    assert os.listdir(tmp_path / "folder") == ["a.store"]


@pytest.mark.parametrize("sparse", [True, False])
def test_scipy_and_numpy_compute_with_it(tmp_path: Path, sparse: bool) -> None:
    known = source(sparse=sparse)
    write(tmp_path / "a.store", known)
    X, expected, w = open_store(tmp_path / "a.store").X, gather(known).X, np.arange(30.0)
    np.testing.assert_array_equal(X @ w, expected @ w)
    np.testing.assert_array_equal(X.T @ np.ones(47), expected.T @ np.ones(47))
    for rows in (slice(3, 9), [5, 1, 40], slice(None, None, 7)):
        a, b = X[rows], expected[rows]
        np.testing.assert_array_equal(a.toarray() if sparse else a, b.toarray() if sparse else b)


def resident(path: Path) -> int:
    """KiB of the file that this process has in its page table."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    places = [i for i, line in enumerate(lines) if line.endswith(str(path))]
    return sum(int(next(line for line in lines[i:] if line.startswith("Rss:")).split()[1]) for i in places)


@pytest.mark.skipif(not LINUX, reason="reads /proc")
@pytest.mark.parametrize("sparse", [True, False])
def test_pages_of_rows_that_are_done_with_are_given_back(tmp_path: Path, sparse: bool) -> None:
    path = tmp_path / "a.store"
    write(path, weighted(source(sizes=[20_000], sparse=sparse), [True]))
    store = open_store(path)
    store.will_need(0, len(store))
    store.verify(1)
    before = resident(path)
    store.done_with(0, len(store) // 2)
    assert 0.3 * before < resident(path) < 0.7 * before
    store.done_with(-5, 2 * len(store))
    assert resident(path) < 0.1 * before
    store.done_with(7, 7)
    assert_holds(store, gather(weighted(source(sizes=[20_000], sparse=sparse), [True])))


def test_extents_waste_little_and_stay_few() -> None:
    capacity = n_extents = 0
    while capacity < 1 << 44:
        length = next_length(capacity)
        assert length % (1 << 16) == 0
        assert length <= max(1 << 16, capacity / 8 + (1 << 16))
        capacity, n_extents = capacity + length, n_extents + 1
    assert n_extents < 3000


def anonymous_memory() -> int:
    """Bytes of this process that no file backs."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) << 10


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_neither_writing_nor_reading_takes_memory_in_proportion(tmp_path: Path) -> None:
    part = sparse_part(np.random.default_rng(0), 10_000, 1000, 20)
    path, n_parts = tmp_path / "a.store", 40
    write(path, replace(source(n_features=1000), rows=[part]))  # what is allocated once is allocated now
    open_store(path).verify(2)
    before = anonymous_memory()
    write(path, replace(source(n_features=1000), rows=[part] * n_parts))
    written = anonymous_memory()
    store = open_store(path)
    store.verify(2)
    total = store.X.data.sum(dtype=np.float64) + store.X.indices.sum() + store.y.sum()
    assert np.isnan(total)  # some labels are
    size = path.stat().st_size
    assert size > 60 << 20
    assert written - before < size // 8
    assert anonymous_memory() - before < size // 8


def test_a_data_set_without_a_schema_gets_the_width_of_its_rows() -> None:
    assert DatasetReader(Dataset(np.zeros((3, 4)), np.zeros(3))).schema == Schema("matrix", 4)
