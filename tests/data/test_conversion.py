"""Any source into a store, and which reader reads a file."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import symsgd
from store_cases import assert_holds, source, together, weighted
from symsgd.data import conversion, formats
from symsgd.data.dataset import Dataset, Schema, gather
from symsgd.data.formats import Format, format_of, reader_for
from symsgd.data.twins import TWINS, twin, twin_readers
from symsgd.errors import StoreError


@dataclass
class SeedReader:
    """Reads files that hold the seed of their rows."""

    path: Path
    schema: Schema | None = None
    dtype: Any = None
    sizes: tuple[int, ...] = (40, 7)

    index_shift = 0
    notes = ("read",)

    def parts(self) -> Any:
        known = source(int(Path(self.path).read_text()), self.sizes)
        given, self.schema = self.schema, known.schema
        assert given is None or given == self.schema
        self.notes = ("read",) if given is None else ("read as before",)
        yield from known.parts()


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format that drops in."""
    monkeypatch.setitem(formats.FORMATS, "seed", Format("seed_format", "SeedReader", (".seed",)))
    monkeypatch.setitem(sys.modules, "seed_format", SimpleNamespace(SeedReader=SeedReader))


@pytest.mark.usefixtures("seeds")
def test_a_file_becomes_a_store_and_the_next_is_read_as_the_first_was(tmp_path: Path) -> None:
    first, second, out = tmp_path / "a.seed", tmp_path / "b.seed.gz", tmp_path / "out.store"
    first.write_text("3")
    second.write_text("4")
    store = symsgd.data.convert(first, out)
    assert_holds(store, gather(source(3)))
    assert store.notes == ("read",)
    store = symsgd.data.append(out, str(second), sizes=(5,))
    assert_holds(store, gather(together(source(3), source(4, (5,)))))
    assert store.notes == ("read", "read as before")
    assert_holds(symsgd.data.open(out), gather(together(source(3), source(4, (5,)))))


@pytest.mark.usefixtures("seeds")
def test_a_format_and_a_type_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_text("3")
    store = symsgd.data.convert(tmp_path / "a.dat", tmp_path / "a.store", format="seed", dtype="float64", sizes=(9,))
    assert len(store) == 9
    assert store.X.dtype == np.float64


@pytest.mark.parametrize("dtype", [None, "float64"])
def test_text_becomes_what_its_reader_reads(tmp_path: Path, dtype: str | None) -> None:
    first, second = tmp_path / "a.svm", tmp_path / "b.svm"
    first.write_text("-1 1:0.1 3:2.5\n1 2:1e-9\n" * 30)
    second.write_text("1 3:0.7\n")
    store = symsgd.data.convert(first, tmp_path / "a.store", dtype=dtype, n_threads=1)
    expected = symsgd.data.read_svmlight(first, dtype=dtype or "float32")
    assert_holds(store, expected)
    assert store.schema == expected.schema
    store = symsgd.data.append(tmp_path / "a.store", second)
    assert store.X.shape == (61, 3)
    assert store.X.data[-1] == np.dtype(dtype or "float32").type(0.7)  # not rounded on the way


def test_a_matrix_in_a_file(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    np.savez(tmp_path / "a.npz", X=X, y=np.arange(20))
    assert_holds(symsgd.data.convert(tmp_path / "a.npz", tmp_path / "a.store"), Dataset(X, np.arange(20.0)))


def test_readers_data_sets_and_stores_are_sources_too(tmp_path: Path) -> None:
    known = weighted(source(0), [True, False])
    expected = gather(known)
    first = symsgd.data.convert(known, tmp_path / "reader.store")
    second = symsgd.data.convert(expected, tmp_path / "set.store")
    third = symsgd.data.convert(first, tmp_path / "store.store")
    fourth = symsgd.data.convert(tmp_path / "store.store", tmp_path / "file.store")
    for store in (first, second, third, fourth):
        assert_holds(store, expected)
        assert store.schema == known.schema
    twice = symsgd.data.append(tmp_path / "set.store", tmp_path / "file.store")
    assert_holds(twice, gather(together(known, known)))


@pytest.mark.parametrize("X", [sp.random_array((50, 9), density=0.3, format="csc", rng=0), np.eye(50)])
def test_a_matrix_of_ones_own(tmp_path: Path, X: Any) -> None:
    store = symsgd.data.convert(Dataset(X, np.arange(50)), tmp_path / "a.store")
    assert_holds(store, Dataset(X.tocsr() if sp.issparse(X) else X, np.arange(50.0)))
    assert store.schema == Schema("matrix", X.shape[1])


def test_a_store_that_was_appended_to_often_is_smaller_when_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    symsgd.data.convert(source(0), path)
    for i in range(20):
        symsgd.data.append(path, source(i))
    again = symsgd.data.convert(path, tmp_path / "b.store")
    assert again.nbytes < path.stat().st_size
    np.testing.assert_array_equal(again.X.data, symsgd.data.open(path).X.data)


def test_a_file_is_not_converted_to_itself(tmp_path: Path) -> None:
    symsgd.data.convert(source(0), tmp_path / "a.store")
    os.link(tmp_path / "a.store", tmp_path / "b.store")
    with pytest.raises(StoreError, match=r"b\.store: it cannot be converted to itself"):
        symsgd.data.convert(tmp_path / "a.store", tmp_path / "b.store")


def test_a_source_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        symsgd.data.convert(tmp_path / "none.store", tmp_path / "out.store")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.svm", "svmlight"),
        ("a.LIBSVM", "svmlight"),
        ("a.txt.bz2", "svmlight"),
        ("a.svmlight.zst", "svmlight"),
        ("a.vw.gz", "vowpal"),
        ("a.b.csv.xz", "csv"),
        ("a.parquet", "parquet"),
        ("a.npz", "npz"),
        ("a.npy", "npy"),
        ("a.store", "store"),
    ],
)
def test_names_that_tell(name: str, format: str) -> None:
    assert format_of(Path("somewhere") / name) == format


def test_contents_that_tell(tmp_path: Path) -> None:
    symsgd.data.convert(source(0), tmp_path / "rows")
    np.save((tmp_path / "array").open("wb"), np.eye(3))
    (tmp_path / "table").write_bytes(b"PAR1...")
    assert [format_of(tmp_path / name) for name in ("rows", "array", "table")] == ["store", "npy", "parquet"]


@pytest.mark.parametrize("content", [b"", b"1 2:3\n", None])
def test_files_that_do_not_tell_are_asked_about(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "rows").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"rows' does not say what format it has; .*\.svm, .*format=, one of 'svmlight'"
    ):
        reader_for(tmp_path / "rows")


def test_an_unknown_format_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format='xls' is not known; accepted are 'svmlight', 'vowpal', 'csv'"):
        conversion.convert(tmp_path / "a.xls", tmp_path / "out", format="xls")


@pytest.mark.parametrize("name", ["rcv1", "epsilon"])
def test_a_twin_goes_straight_into_a_store(tmp_path: Path, name: str) -> None:
    spec = TWINS[name]
    scale = 2.5 * spec.chunk_rows / spec.n_rows if name == "rcv1" else 0.002
    expected = twin(name, scale, seed=3, n_threads=1)
    stored = twin(name, scale, seed=3, n_threads=3, store=tmp_path / f"{name}.store")
    for part in ("", "_test"):
        X, y = getattr(expected, f"X{part}"), getattr(expected, f"y{part}")
        store = symsgd.data.open(tmp_path / f"{name}{part.replace('_', '.')}.store")
        assert_holds(store, Dataset(X, y))
        assert store.notes[0].startswith(f"twin of {name}, scale ")
        np.testing.assert_array_equal(getattr(stored, f"y{part}"), y)
        assert getattr(stored, f"X{part}").shape == X.shape


def test_a_twin_is_read_chunk_by_chunk_in_order() -> None:
    spec = TWINS["rcv1"]
    training, held_out = twin_readers("rcv1", 2.5 * spec.chunk_rows / spec.n_rows, n_threads=2)
    sizes = [len(part.y) for part in training.parts()]
    assert sizes == [spec.chunk_rows, spec.chunk_rows, spec.chunk_rows // 2]
    first = next(held_out.parts())
    np.testing.assert_array_equal(gather(held_out).y[: len(first.y)], first.y)
