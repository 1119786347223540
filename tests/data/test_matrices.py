"""Matrices of NumPy and SciPy: every way to keep them gives the same rows, in parts; nothing is unpickled."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symsgd.data.arrays import open_npy, open_npz
from symsgd.data.dataset import Schema, SparseColumns, gather
from symsgd.data.matrices import MatrixReader, read_matrix
from symsgd.errors import DataError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 7)).astype(np.float32)
SPARSE = sp.random(50, 40, 0.1, "csr", dtype=np.float64, rng=RNG)
Y = RNG.integers(0, 3, 50)
WEIGHT = RNG.uniform(size=50)


def dense_files(folder: Path) -> list[tuple[Any, Any, Any]]:
    np.save(folder / "X.npy", X)
    np.save(folder / "F.npy", np.asfortranarray(X))
    np.save(folder / "y.npy", Y)
    np.save(folder / "w.npy", WEIGHT)
    np.savez(folder / "all.npz", X=X, y=Y, sample_weight=WEIGHT)
    np.savez_compressed(folder / "packed.npz", X=X, y=Y, sample_weight=WEIGHT)
    np.savez_compressed(folder / "columns.npz", X=np.asfortranarray(X), y=Y[:, None], sample_weight=WEIGHT)
    files = [(folder / name, None, None) for name in ("all.npz", "packed.npz", "columns.npz")]
    files += [(str(folder / name), folder / "y.npy", str(folder / "w.npy")) for name in ("X.npy", "F.npy")]
    return [*files, (X, Y, WEIGHT), (X.tolist(), Y.tolist(), WEIGHT.tolist())]


@pytest.mark.parametrize("part_bytes", [1, 100, 1 << 22])
def test_dense_rows_are_the_same_however_they_are_kept(tmp_path: Path, part_bytes: int) -> None:
    for source, y, weight in dense_files(tmp_path):
        reader = MatrixReader(source, y, sample_weight=weight, part_bytes=part_bytes, dtype=np.float32)
        data = gather(reader)
        np.testing.assert_array_equal(data.X, X)
        assert data.X.dtype == np.float32
        np.testing.assert_array_equal(data.y, Y)
        np.testing.assert_array_equal(data.sample_weight, WEIGHT)  # type: ignore[arg-type]
        assert data.schema == Schema("matrix", 7)
        assert max(len(part.y) for part in reader.parts()) <= {1: 1, 100: 3}.get(part_bytes, 50)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("part_bytes", [1, 300, 1 << 22])
def test_sparse_rows_are_the_same_however_they_are_kept(tmp_path: Path, compressed: bool, part_bytes: int) -> None:
    sp.save_npz(tmp_path / "X.npz", SPARSE, compressed=compressed)
    np.save(tmp_path / "y.npy", Y)
    for source, y in ((tmp_path / "X.npz", tmp_path / "y.npy"), (SPARSE, Y), (SPARSE.tocsc(), Y), (SPARSE.tocoo(), Y)):
        data = read_matrix(source, y, part_bytes=part_bytes)
        assert (data.X != SPARSE).nnz == 0
        assert data.X.dtype == np.float64
        np.testing.assert_array_equal(data.y, Y)


@given(
    st.integers(0, 12).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0.0, 0.0, 1.5, -2.0]), min_size=4, max_size=4), min_size=n, max_size=n
        )
    ),
    st.integers(1, 200),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_sparse_matrix_goes_through_a_file(tmp_path: Path, rows: list[list[float]], part_bytes: int) -> None:
    matrix = sp.csr_matrix(np.array(rows).reshape(-1, 4))
    sp.save_npz(tmp_path / "X.npz", matrix)
    parts = list(MatrixReader(tmp_path / "X.npz", part_bytes=part_bytes).parts())
    assert all(isinstance(part.rows, SparseColumns) and part.rows.starts[0] == 0 for part in parts)
    assert sum(len(part.y) for part in parts) == len(rows)
    read = read_matrix(tmp_path / "X.npz", part_bytes=part_bytes).X
    np.testing.assert_array_equal(read.toarray() if parts else np.zeros((0, 4)), matrix.toarray())


@pytest.mark.parametrize(
    ("kept", "read"),
    [("bool", "float32"), ("int8", "float32"), ("float16", "float32"), ("int32", "float64"), ("float64", "float64")],
)
def test_numbers_are_read_exactly(kept: str, read: str) -> None:
    assert read_matrix(np.ones((2, 2), kept)).X.dtype == read


def test_archives_are_known_by_what_they_hold(tmp_path: Path) -> None:
    with (tmp_path / "no suffix").open("wb") as file:
        np.savez(file, X=X, y=Y)
    assert read_matrix(tmp_path / "no suffix").y.tolist() == Y.tolist()


def test_without_labels_there_are_none() -> None:
    assert np.isnan(read_matrix(X).y).all()


def test_label_names_are_numbered_in_their_order(tmp_path: Path) -> None:
    names = np.array(["dog", "cat", "dog", "ant"])
    np.savez(tmp_path / "t.npz", X=X[:4], y=names)
    for data in (read_matrix(tmp_path / "t.npz"), read_matrix(X[:4], names.astype(object))):
        assert data.schema.label_names == ("ant", "cat", "dog")
        assert data.y.tolist() == [2.0, 1.0, 2.0, 0.0]
    again = read_matrix(X[:2], ["cat", "ant"], schema=Schema("matrix", 7, label_names=("dog", "cat", "ant")))
    assert again.y.tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="row 2: 'cow' is not one of the labels"):
        read_matrix(X[:2], ["cat", "cow"], schema=data.schema)


def test_a_data_frame_brings_names() -> None:
    data = read_matrix(pd.DataFrame({"age": [1.0], "height": [2.0]}))
    assert data.schema.feature_names == ("age", "height")


def test_the_schema_of_the_rows_before() -> None:
    schema = Schema("table", 7, tuple("abcdefg"))
    assert read_matrix(X, schema=schema).schema is schema
    with pytest.raises(DataError, match="has 7 features; the schema has 8"):
        read_matrix(X, schema=Schema("matrix", 8))


def test_files_are_mapped_where_they_can_be(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    np.savez(tmp_path / "plain.npz", X=X)
    np.savez_compressed(tmp_path / "packed.npz", X=X)
    assert isinstance(open_npy(tmp_path / "X.npy").take(3), np.memmap)
    for name, mapped in (("plain.npz", True), ("packed.npz", False)):
        with open_npz(tmp_path / name) as members:
            assert isinstance(members["X"]().take(3), np.memmap) == mapped


class Exploding:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
def test_nothing_is_unpickled(tmp_path: Path, pack: Any) -> None:
    pack(tmp_path / "t.npz", X=np.array([[Exploding()]], object), allow_pickle=True)
    np.save(tmp_path / "t.npy", np.array([[Exploding()]], object), allow_pickle=True)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(Exploding()))
    for name in ("t.npz", "t.npy", "plain.npy"):
        with pytest.raises(DataError, match=name):
            read_matrix(tmp_path / name)


def packed(folder: Path, **arrays: Any) -> Path:
    np.savez_compressed(folder / "bad.npz", **arrays)
    return folder / "bad.npz"


CSR = {"format": b"csr", "shape": (2, 3), "indptr": [0, 1, 2], "indices": [0, 2], "data": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": b"csc"}, "'csc'"),
        ({"shape": (2, 3, 4)}, "shape"),
        ({"shape": (-2, 3)}, "shape"),
        ({"shape": (3, 3)}, "do not fit"),
        ({"indptr": [0, 2, 1]}, "do not fit"),
        ({"indptr": [1, 1, 2]}, "do not fit"),
        ({"indptr": [0, 1, 3]}, "do not fit"),
        ({"indptr": [0.0, 1.0, 2.0]}, "do not fit"),
        ({"indices": [0, 3]}, "out of range"),
        ({"indices": [0, -1]}, "out of range"),
        ({"indices": [0.0, 1.0]}, "indices of type float64"),
        ({"data": ["a", "b"]}, "data of type"),
        ({"data": [1.0, np.inf]}, "row 2: feature 2 is not a finite number"),
        ({"y": [1.0]}, "y has shape"),
    ],
)
def test_sparse_files_that_make_no_sense(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    assert read_matrix(packed(tmp_path, **CSR)).X.toarray().tolist() == [[1, 0, 0], [0, 0, 2]]
    with pytest.raises(DataError, match=said) as caught:
        read_matrix(packed(tmp_path, **CSR | change))
    assert caught.value.path == str(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"Z": X}, "has the arrays"),
        ({"X": X[0]}, "accepted are"),
        ({"X": np.array([["a"]])}, "accepted are"),
        ({"X": X, "y": Y[:3]}, "there are 50 rows"),
        ({"X": X, "y": Y.astype(complex)}, "complex128"),
        ({"X": X[:2], "y": [0, np.nan]}, "row 2: y is nan"),
        ({"X": X[:2], "sample_weight": [1, -1]}, "row 2: weight -1.0"),
        ({"X": np.array([[1.0, 2.0], [3.0, np.nan]])}, "row 2: feature 1"),
    ],
)
def test_arrays_that_make_no_sense(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_matrix(packed(tmp_path, **arrays))


def test_numbers_too_large_for_the_type_wanted() -> None:
    with pytest.raises(DataError, match="not a finite number of type float32"):
        read_matrix(np.array([[1e300]]), dtype=np.float32)
    with pytest.raises(ValueError, match="dtype="):
        MatrixReader(X, dtype=np.int32)


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
def test_damaged_files_are_refused(tmp_path: Path, pack: Any) -> None:
    pack(tmp_path / "t.npz", X=X, y=Y)
    np.save(tmp_path / "t.npy", X)
    for name in ("t.npz", "t.npy"):
        whole = (tmp_path / name).read_bytes()
        for length in (0, 5, len(whole) // 2, len(whole) - 30):
            (tmp_path / name).write_bytes(whole[:length])
            with pytest.raises(DataError, match=name):
                read_matrix(tmp_path / name)


def test_a_member_shorter_than_it_says(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.save(whole, X)
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", whole.getvalue()[:-8])
    with pytest.raises(DataError, match="ends before"):
        read_matrix(tmp_path / "t.npz")
