"""Tables that cannot be read: the error names the file, the line, the column, the value and what helps."""

from __future__ import annotations

import datetime
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from symsgd.data.dataset import Schema
from symsgd.data.tables import CsvReader, TableOptions, read_csv, read_parquet
from symsgd.errors import DataError


def csv(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


def failure(path: Any, **options: Any) -> DataError:
    reads = read_parquet if str(path).endswith(".parquet") else read_csv
    with pytest.raises(DataError) as caught:
        reads(path, **{"label": "y"} | options)
    return caught.value


GOOD = "x,c,y\n" + "1,a,0\n" * 10


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        (",a,0", "x", "missing='zero'"),
        ("NA,a,0", "x", "missing='zero'"),
        ("2,,0", "c", "has no value"),
        ("2,a,", "y", "has no label"),
        ("two,a,0", "x", "'two' is not a number; mend it, or name the column in categorical="),
        ("inf,a,0", "x", "inf is not a finite number of type float32"),
        ("1e39,a,0", "x", "1e+39 is not a finite number of type float32"),
        ("2,a,inf", "y", "inf is not a finite number"),
        ("2,a", None, "has 2 columns, not 3"),
        ("2,a,0,0", None, "has 4 columns, not 3"),
    ],
)
@pytest.mark.parametrize(("before", "line"), [("", 12), ("\n\n2,a,1\n", 15), ('3,"two\nlines",1\n', 14)])
def test_the_line_and_the_column_are_named(
    tmp_path: Path, row: str, column: str | None, said: str, before: str, line: int
) -> None:
    path = csv(tmp_path, f"{GOOD}{before}{row}\n1,a,0\n")
    error = failure(path, numeric=["x"])
    assert (error.path, error.line, error.column) == (str(path), line, column)
    assert said in str(error)
    assert f"{path}, line {line}" in str(error)
    streamed = failure(io.BytesIO(path.read_bytes()), numeric=["x"])
    assert (streamed.line, streamed.column) == (None, column)
    assert f"row {11 + bool(before)}: " in str(streamed)
    assert said in str(streamed)


def test_the_first_missing_value_is_named_whatever_the_column(tmp_path: Path) -> None:
    path = csv(tmp_path, "x,c,y\n1,a,0\n1,,0\n,a,0\n")
    error = failure(path)
    assert (error.line, error.column) == (3, "c")


def test_errors_of_parquet_have_a_row(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": [1.0, 2.0, None], "y": [0, 1, 0]}).to_parquet(path)
    error = failure(path)
    assert (error.path, error.column) == (str(path), "x")
    assert "row 3: has no value" in str(error)
    pd.DataFrame({"x": ["1", "2", "three"], "y": [0, 1, 0]}).to_parquet(path)
    assert "row 3: 'three' is not a number" in str(failure(path, numeric=["x"]))


def test_dates_are_refused_with_advice(tmp_path: Path) -> None:
    error = failure(csv(tmp_path, "day,y\n2024-02-29,1\n"))
    assert error.column == "day"
    assert "days since a date" in str(error)
    assert len(read_csv(tmp_path / "t.csv", label="y", categorical=["day"])) == 1
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"day": [datetime.date(2024, 2, 29)], "y": [1]}), path)
    assert "days since a date" in str(failure(path))
    assert "numeric= does not take" in str(failure(path, numeric=["day"]))


def test_types_that_are_no_features_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"list": [[1, 2]], "x": [1.0], "y": [1]}), path)
    assert failure(path).column == "list"
    assert read_parquet(path, label="y", drop=["list"]).X.tolist() == [[1.0]]


def test_columns_without_a_value_have_no_kind(tmp_path: Path) -> None:
    path = csv(tmp_path, "x,empty,y\n1,,0\n2,,1\n")
    error = failure(path)
    assert error.column == "empty"
    assert read_csv(path, label="y", numeric=["empty"], missing="zero").X.tolist() == [[1.0, 0.0], [2.0, 0.0]]


def test_too_many_categories_are_refused_where_they_appear(tmp_path: Path) -> None:
    path = csv(tmp_path, "c,y\n" + "".join(f"v{i},0\n" for i in range(20)))
    for batch_bytes in (64, 1 << 20):
        with pytest.raises(DataError, match=r"more than 10 different values; name the column in hashed=") as caught:
            list(CsvReader(path, label="y", max_categories=10, batch_bytes=batch_bytes).parts())
        assert (caught.value.line, caught.value.column) == (12, "c")
    assert read_csv(path, label="y", hashed=["c"]).X.shape == (20, 1 << 18)


def test_labels_that_the_schema_does_not_know_are_refused(tmp_path: Path) -> None:
    schema = read_csv(csv(tmp_path, "x,y\n1,cat\n2,dog\n"), label="y").schema
    error = failure(csv(tmp_path, "x,y\n1,cat\n2,cow\n"), schema=schema, label=None)
    assert (error.line, error.column) == (3, "y")
    assert "'cow' is not one of the labels ['cat', 'dog']" in str(error)


def test_columns_that_the_schema_names_must_be_there(tmp_path: Path) -> None:
    schema = read_csv(csv(tmp_path, "a,b,c,y\n1,2,3,0\n"), label="y").schema
    error = failure(csv(tmp_path, "c,y\n3,0\n"), schema=schema, label=None)
    assert "there is no columns 'a', 'b'" in str(error)


def test_label_names_of_a_stream_must_be_given() -> None:
    assert "give label_names=" in str(failure(io.BytesIO(b"x,y\n1,cat\n")))


@pytest.mark.parametrize(("text", "said"), [("", "is empty"), ("x,y\n", "has no"), ("x,x,y\n1,2,3\n", "two columns")])
def test_files_without_rows_or_with_a_name_twice(tmp_path: Path, text: str, said: str) -> None:
    assert said in str(failure(csv(tmp_path, text)))


def test_a_parquet_file_without_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.int8())}), tmp_path / "t.parquet")
    assert "has no rows" in str(failure(tmp_path / "t.parquet"))


def test_weights_are_not_negative(tmp_path: Path) -> None:
    for weight in ("-1", "nan", "inf"):
        error = failure(csv(tmp_path, f"x,w,y\n1,1,0\n2,{weight},1\n"), weight="w")
        assert (error.line, error.column) == (3, "w")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(GOOD.encode() + b"1,\xff\xfe,0\n")
    error = failure(tmp_path / "t.csv")
    assert (error.line, error.column) == (12, "c")
    assert "UTF-8" in str(error)


def test_strings_of_parquet_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    names = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"c": names, "y": [0, 1]}), path)
    for options in ({}, {"hashed": ["c"]}, {"text": ["c"]}):
        assert "UTF8" in str(failure(path, **options))


def test_rows_longer_than_a_batch(tmp_path: Path) -> None:
    path = csv(tmp_path, GOOD + f"1,{'a' * 1000},0\n")
    with pytest.raises(DataError, match="batch_bytes"):
        list(CsvReader(path, label="y", batch_bytes=100).parts())


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.xz", "t.csv.bz2", "t.csv.zst"])
def test_compressed_files_that_are_cut_short(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(5000, 3)), columns=["x", "c", "y"])
    frame.to_csv(tmp_path / name, index=False)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    error = failure(tmp_path / name)
    assert error.path == str(tmp_path / name)
    (tmp_path / name).write_bytes(b"no such format" * 100)
    assert failure(tmp_path / name).path == str(tmp_path / name)


def test_files_that_are_not_there_or_not_whole(tmp_path: Path) -> None:
    for name, reads in (("no.csv", read_csv), ("no.parquet", read_parquet)):
        with pytest.raises(FileNotFoundError, match=name):
            reads(tmp_path / name, label="y")
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": range(1000), "y": [0, 1] * 500}).to_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "not a whole Parquet file" in str(failure(path))
    damaged = bytearray(whole)
    damaged[4:400] = bytes(396)
    path.write_bytes(damaged)
    assert "not a whole Parquet file" in str(failure(path))
    (tmp_path / "folder.parquet").mkdir()
    assert "no .parquet file" in str(failure(tmp_path / "folder.parquet"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "z"}, "there is no column 'z'; it has columns 'x', 'c', 'y'"),
        ({"drop": ["z"]}, "there is no column 'z'"),
        ({"drop": ["x", "c"]}, "no column is left"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    assert said in str(failure(csv(tmp_path, GOOD), **options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"numeric": ["a"], "text": ["a"]}, "'a' is in numeric= and in text="),
        ({"label": "a", "drop": ["a"]}, "'a' is in label= and in drop="),
        ({"numeric": "age"}, "numeric='age' is not accepted; it must be a list"),
        ({"missing": "mean"}, "missing='mean'"),
        ({"hash_bits": 31}, "hash_bits=31"),
        ({"max_categories": 0}, "max_categories=0"),
        ({"dtype": int}, "dtype="),
        ({"schema": Schema("svmlight", 3)}, "format 'svmlight'"),
        ({"schema": Schema("table", 3), "numeric": ["a"]}, "numeric= cannot be given"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TableOptions(**options)


def test_label_names_are_different(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a name twice"):
        read_csv(csv(tmp_path, GOOD), label="c", label_names=["a", "a"])


def test_parquet_is_not_read_from_standard_input() -> None:
    with pytest.raises(ValueError, match="from its end"):
        read_parquet("-", label="y")


def test_without_pyarrow_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import symsgd\n"
        "try: symsgd.data.read_csv('t.csv', label='y')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'symsgd[tables]'" in done.stdout
