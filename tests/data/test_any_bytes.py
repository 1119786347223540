"""Whatever the bytes are, readers of tables and matrices give rows or a ValueError that names the file."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from symsgd.data import Dataset, read_csv, read_matrix, read_parquet
from symsgd.errors import DataError

CELLS = st.sampled_from(["", "1", "-2.5", "1e400", "nan", "inf", "x", "true", "2020-01-01", '"a\nb"', '"', "\x00", "é"])
LINES = st.lists(CELLS, min_size=1, max_size=4).map(",".join)
FUZZ = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(read: Callable[[], Dataset], name: str) -> None:
    """Reads, and looks at the rows or at the error."""
    try:
        data = read()
    except DataError as error:
        refused: DataError | None = error
    else:
        refused = None
        assert np.isfinite(data.X.data if sp.issparse(data.X) else data.X).all()  # a damaged width may be any
    assert refused is None or refused.path == name


@given(st.lists(LINES, max_size=6).map("\n".join).map(str.encode) | st.binary(max_size=60))
@example(b"y,x\n1,\xff\n")
@example(b"y,x\n1,2\n3,4,5\n")
@example(b"\xef\xbb\xbfy,x\n1,2\n")
@FUZZ
def test_any_csv(tmp_path: Path, body: bytes) -> None:
    data = b"y,x,c\n" + body
    (tmp_path / "t.csv").write_bytes(data)
    for source, name in ((tmp_path / "t.csv", str(tmp_path / "t.csv")), (io.BytesIO(data), "<BytesIO>")):
        check(partial(read_csv, source, label="y", text=["c"], missing="indicator", hash_bits=4), name)


def damaged(whole: bytes, changes: list[tuple[int, int]], cut: int) -> bytes:
    data = bytearray(whole)
    for place, value in changes:
        data[place % len(data)] = value
    return bytes(data[: len(data) - cut % 50])


CHANGES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2.0, None], "c": ["a", "b", "a"], "y": [0, 1, 0]}), out)
    return out.getvalue()


WHOLE_PARQUET = parquet()


@given(CHANGES, st.integers(0, 49))
@example([(2479, 0)], 0)  # metadata that does not parse
@example([(327, 128)], 0)  # a name that is not UTF-8
@FUZZ
def test_damaged_parquet(tmp_path: Path, changes: list[tuple[int, int]], cut: int) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(damaged(WHOLE_PARQUET, changes, cut))
    check(partial(read_parquet, path, label="y", missing="zero"), str(path))


def archives() -> list[bytes]:
    made = []
    for save in (
        lambda out: np.savez(out, X=np.eye(3), y=np.arange(3)),
        lambda out: np.savez_compressed(out, X=np.eye(3), y=np.arange(3)),
        lambda out: sp.save_npz(out, sp.eye(3, format="csr"), compressed=False),
        lambda out: np.save(out, np.eye(3)),
    ):
        out = io.BytesIO()
        save(out)
        made.append(out.getvalue())
    return made


ARCHIVES = archives()


@pytest.mark.parametrize("whole", ARCHIVES, ids=["stored", "compressed", "sparse", "npy"])
@given(changes=CHANGES, cut=st.integers(0, 49))
@example(changes=[(271, 0)], cut=0)  # a header that is not Python
@example(changes=[(1753, 2)], cut=0)  # a member before the beginning of the file
@FUZZ
def test_damaged_matrices(tmp_path: Path, whole: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    path = tmp_path / "t.npz"
    path.write_bytes(damaged(whole, changes, cut))
    check(partial(read_matrix, path), str(path))
