"""CSV and Parquet to rows of features: the same as pandas and scikit-learn make of them, however they are cut up."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import OneHotEncoder

from symsgd.data import append, convert
from symsgd.data.dataset import Dataset, Schema, SparseColumns, gather
from symsgd.data.tables import CsvReader, ParquetReader, feature_name, read_csv, read_parquet

FRAME = pd.DataFrame(
    {
        "age": [31.5, 18.0, 77.25, 40.0],
        "city": ["Paris", "Oslo", "Paris", "Bern"],
        "clicks": [3, 0, 7, 1],
        "member": [True, False, False, True],
        "colour": ["red", "red", "blue", "green"],
        "bought": [1, 0, 0, 1],
    }
)
NAMES = ("age", "clicks", "member", "city=Paris", "colour=red", "city=Oslo", "colour=blue", "city=Bern", "colour=green")


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def read(path: Path, **options: Any) -> Dataset:
    return read_parquet(path, **options) if path.suffix == ".parquet" else read_csv(path, **options)


@pytest.fixture(params=["t.csv", "t.parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def dense(data: Dataset) -> np.ndarray:
    return data.X.toarray() if sp.issparse(data.X) else data.X


def column(data: Dataset, name: str) -> list[float]:
    assert data.schema.feature_names is not None
    return dense(data)[:, data.schema.feature_names.index(name)].tolist()


def test_numbers_stay_and_categories_become_ones(table: Path) -> None:
    data = read(write(FRAME, table), label="bought")
    assert data.schema.feature_names == NAMES
    assert data.schema.n_features == data.X.shape[1] == len(NAMES)
    assert data.X.has_canonical_format
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [1.0, 0.0, 0.0, 1.0]
    expected = pd.get_dummies(FRAME.drop(columns="bought"), columns=["city", "colour"], prefix_sep="=", dtype=float)
    np.testing.assert_array_equal(dense(data), expected[list(NAMES)].to_numpy(np.float32))
    assert data.X.nnz == np.count_nonzero(expected)  # zeros are not kept


def test_a_table_of_numbers_is_dense(table: Path) -> None:
    frame = FRAME[["age", "clicks", "bought"]]
    data = read(write(frame, table), label="bought", dtype=np.float64)
    assert isinstance(data.X, np.ndarray)
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, frame[["age", "clicks"]].to_numpy())
    assert data.schema.feature_names == ("age", "clicks")


CELLS = {
    "number": st.floats(-1e6, 1e6, width=32) | st.just(0.0),
    "city": st.sampled_from(["Paris", "Oslo", "Bern", "São Paulo", "a=b", 'with "quotes", and a comma', "two\nlines"]),
    "code": st.integers(0, 5).map(lambda code: f"k{code}"),
    "y": st.integers(-1, 1),
}
ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=30)


@given(ROWS)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tables_equal_one_hot_encoder_whatever_the_batches(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    frame = pd.DataFrame(rows)
    csv, parquet = write(frame, tmp_path / "t.csv"), tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), parquet, row_group_size=4)
    options: dict[str, Any] = {"label": "y", "categorical": ["city", "code"]}
    readers = [CsvReader(csv, **options), CsvReader(csv, **options, batch_bytes=128)]
    readers += [ParquetReader(parquet, **options, batch_rows=count) for count in (1, 3, 1000)]
    sets = [gather(reader) for reader in readers]

    encoder = OneHotEncoder(sparse_output=False).fit(frame[["city", "code"]])
    ones = pd.DataFrame(encoder.transform(frame[["city", "code"]]), columns=encoder.get_feature_names_out())
    for data in sets:
        assert data.schema == sets[0].schema
        np.testing.assert_array_equal(dense(data), dense(sets[0]))
        np.testing.assert_array_equal(data.y, frame["y"])
        np.testing.assert_allclose(column(data, "number"), frame["number"], rtol=1e-7)
        assert set(data.schema.feature_names[1:]) == {  # type: ignore[index]
            f"{name}={value}" for name in ("city", "code") for value in frame[name].unique()
        }
        for name in ("city", "code"):
            for value in frame[name].unique():
                assert column(data, f"{name}={value}") == ones[f"{name}_{value}"].tolist()


def test_small_batches_stay_small(tmp_path: Path) -> None:
    frame = pd.concat([FRAME] * 100)
    csv, parquet = write(frame, tmp_path / "t.csv"), write(frame, tmp_path / "t.parquet")
    options = {"label": "bought"}
    for reader in (CsvReader(csv, **options, batch_bytes=500), ParquetReader(parquet, **options, batch_rows=10)):
        sizes = [len(part.y) for part in reader.parts()]
        assert sum(sizes) == 400
        assert max(sizes) <= 30


@pytest.mark.parametrize("hash_bits", [4, 18])
def test_hashed_columns_and_words_equal_feature_hasher(table: Path, hash_bits: int) -> None:
    frame = FRAME[["age", "city", "colour", "bought"]].assign(
        review=["Good, good value!", "  bad ", "", "ein Größen_maß; 3x3 — bad/BAD"]
    )
    data = read(
        write(frame, table), label="bought", hashed=["city"], text=["review"], hash_bits=hash_bits, dtype=np.float64
    )
    words = [
        {"review=good": 2, "review=value": 1},
        {"review=bad": 1},
        {},
        {"review=ein": 1, "review=größen_maß": 1, "review=3x3": 1, "review=bad": 2},
    ]
    told = [row | {"city": city} for row, city in zip(words, frame["city"], strict=True)]
    expected = FeatureHasher(1 << hash_bits, input_type="dict").transform(told)
    np.testing.assert_array_equal(data.X[:, 1 : 1 + (1 << hash_bits)].toarray(), expected.toarray())
    assert data.X.has_canonical_format
    assert data.schema.n_features == 1 + (1 << hash_bits) + 3
    assert data.schema.feature_names is None
    assert feature_name(data.schema, 0) == "age"
    assert feature_name(data.schema, 5) == "hash 4 of city, review"
    assert feature_name(data.schema, data.schema.n_features - 1) == "colour=green"
    with pytest.raises(ValueError, match="feature=-1"):
        feature_name(data.schema, -1)
    (note,) = data.notes
    assert f"into {1 << hash_bits:,} columns" in note
    assert ("0 of them" in note) == (hash_bits == 18)


def test_hashing_does_not_depend_on_batches(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": [f"u{i * 7 % 97}" for i in range(300)], "y": [0, 1] * 150})
    path = write(frame, tmp_path / "t.parquet")
    options: dict[str, Any] = {"label": "y", "hashed": ["user"], "hash_bits": 5}
    whole, cut = (gather(ParquetReader(path, **options, batch_rows=rows)) for rows in (1000, 7))
    np.testing.assert_array_equal(whole.X.toarray(), cut.X.toarray())
    assert whole.notes == cut.notes


HOLES = pd.DataFrame(
    {
        "age": [31.0, None, 77.0],
        "city": ["Paris", None, None],
        "user": [None, "ann", "bob"],
        "comment": ["fine", "fine", "fine"],
        "y": [1, 0, 1],
    }
)
HOLE_OPTIONS: dict[str, Any] = {"label": "y", "hashed": ["user"], "text": ["comment"], "hash_bits": 10}


def test_missing_values_can_count_as_zero(table: Path) -> None:
    data = read(write(HOLES, table), missing="zero", **HOLE_OPTIONS)
    assert dense(data)[:, 0].tolist() == [31.0, 0.0, 77.0]
    assert dense(data)[:, -1].tolist() == [1.0, 0.0, 0.0]
    assert feature_name(data.schema, data.schema.n_features - 1) == "city=Paris"
    told = [{"comment=fine": 1}, {"user": "ann", "comment=fine": 1}, {"user": "bob", "comment=fine": 1}]
    expected = FeatureHasher(1 << 10).transform(told).toarray()
    np.testing.assert_array_equal(dense(data)[:, 1:-1], expected)


def test_missing_values_can_have_features_of_their_own(table: Path) -> None:
    data = read(write(HOLES, table), missing="indicator", **HOLE_OPTIONS)
    assert [feature_name(data.schema, feature) for feature in (0, 1)] == ["age", "age is missing"]
    last = data.schema.n_features - 1
    assert [feature_name(data.schema, feature) for feature in (last - 1, last)] == ["city=Paris", "city is missing"]
    assert dense(data)[:, :2].tolist() == [[31.0, 0.0], [0.0, 1.0], [77.0, 0.0]]
    assert dense(data)[:, -2:].tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    told = [{"user": 1, "comment=fine": 1}, {"user": "ann", "comment=fine": 1}, {"user": "bob", "comment=fine": 1}]
    np.testing.assert_array_equal(dense(data)[:, 2:-2], FeatureHasher(1 << 10).transform(told).toarray())


def test_indicators_of_a_dense_table_come_after_its_numbers(table: Path) -> None:
    data = read(write(HOLES[["age", "y"]], table), label="y", missing="indicator")
    assert data.X.tolist() == [[31.0, 0.0], [0.0, 1.0], [77.0, 0.0]]
    assert data.schema.feature_names == ("age", "age is missing")


def test_labels_that_are_names_are_numbered_in_their_order(table: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["virginica", "setosa", "versicolor", "setosa"]})
    data = read(write(frame, table), label="y")
    assert data.schema.label_names == ("setosa", "versicolor", "virginica")
    assert data.y.tolist() == [2.0, 0.0, 1.0, 0.0]
    given = read(table, label="y", label_names=["virginica", "versicolor", "setosa"])
    assert given.y.tolist() == [0.0, 2.0, 1.0, 2.0]


def test_numbers_can_be_read_as_label_names(table: Path) -> None:
    data = read(write(FRAME, table), label="clicks", label_names=["0", "1", "3", "7"])
    assert data.y.tolist() == [2.0, 0.0, 3.0, 1.0]


def test_weights_come_from_a_column(table: Path) -> None:
    data = read(write(FRAME, table), label="bought", weight="age")
    assert data.sample_weight is not None
    assert data.sample_weight.tolist() == FRAME["age"].tolist()
    assert "age" not in (data.schema.feature_names or ())


def again(schema: Schema) -> Schema:
    return Schema.from_json(json.loads(json.dumps(schema.to_json())))


def test_the_next_file_is_read_as_the_first(table: Path, tmp_path: Path) -> None:
    frame = FRAME.assign(kind=["good", "bad", "bad", "good"]).drop(columns="bought")
    first = read(write(frame, table), label="kind")
    shuffled = frame[["colour", "member", "kind", "city", "age", "clicks"]].iloc[[2, 0]]
    strange = shuffled.assign(city=["Rome", "Paris"], extra=[1, 2])
    for other in ("next.csv", "next.parquet"):
        data = read(write(strange, tmp_path / other), schema=again(first.schema))
        assert data.schema == first.schema
        expected = dense(first)[[2, 0]].copy()
        expected[0, 3] = 0  # Rome is not known
        np.testing.assert_array_equal(dense(data), expected)
        assert data.y.tolist() == [0.0, 1.0]
        assert data.notes == (
            "columns that the schema does not name were ignored: extra",
            "column 'city': 1 cells have values that the schema does not know: ignored",
        )


def test_a_file_without_labels_can_be_read_by_a_schema(table: Path, tmp_path: Path) -> None:
    schema = read(write(FRAME, table), label="bought").schema
    bare = read_csv(write(FRAME.drop(columns="bought"), tmp_path / "bare.csv"), schema=schema)
    assert np.isnan(bare.y).all()
    some = read_csv(write(FRAME.assign(bought=[1, None, 0, None]), tmp_path / "some.csv"), schema=schema)
    np.testing.assert_array_equal(some.y, [1, np.nan, 0, np.nan])


def test_hashed_and_missing_columns_are_read_by_a_schema(table: Path) -> None:
    first = read(write(HOLES, table), missing="indicator", **HOLE_OPTIONS)
    second = read(table, schema=again(first.schema))
    np.testing.assert_array_equal(dense(first), dense(second))
    assert second.schema == first.schema


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.xz", "t.csv.zst", "t.csv.bz2"])
def test_compressed_files_are_read(tmp_path: Path, name: str) -> None:
    FRAME.to_csv(tmp_path / name, index=False)
    assert (tmp_path / name).read_bytes()[:3] != b"age"
    assert len(read_csv(tmp_path / name, label="bought")) == 4


def test_streams_are_read_once(tmp_path: Path) -> None:
    text = FRAME.to_csv(index=False).encode()
    data = read_csv(io.BytesIO(text), label="bought")
    np.testing.assert_array_equal(dense(data), dense(read_csv(write(FRAME, tmp_path / "t.csv"), label="bought")))
    named = read_csv(io.BytesIO(text), label="city", label_names=["Bern", "Oslo", "Paris"])
    assert named.y.tolist() == [2.0, 1.0, 2.0, 0.0]


def test_standard_input_is_read(tmp_path: Path) -> None:
    code = "from symsgd.data import read_csv; d = read_csv('-', label='bought'); print(d.X.shape, d.y.sum())"
    text = FRAME.to_csv(index=False)
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(4, 9) 2.0"


def test_a_stream_longer_than_what_types_are_found_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symsgd.data.tables.csv.SNIFFED_BYTES", 100)
    frame = pd.DataFrame({"x": range(500), "c": list(string.ascii_lowercase * 20)[:500], "y": [0, 1] * 250})
    data = read_csv(io.BytesIO(frame.to_csv(index=False).encode()), label="y")
    assert data.X.shape == (500, 27)
    assert column(data, "x") == list(range(500))


def test_whole_numbers_may_become_fractions_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("symsgd.data.tables.csv.SNIFFED_BYTES", 100)
    (tmp_path / "t.csv").write_text("x,y\n" + "1,0\n" * 100 + "1.5,1\n")
    assert read_csv(tmp_path / "t.csv", label="y").X[-1].tolist() == [1.5]


def test_delimiters_and_files_without_names(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("1\t0.5\tred\n0\t0.25\tblue\n")
    data = read_csv(tmp_path / "t.tsv", label="f0", header=False)
    assert data.schema.feature_names == ("f1", "f2=red", "f2=blue")
    (tmp_path / "t.csv").write_text("y;x\n1;2\n")
    assert read_csv(tmp_path / "t.csv", label="y", delimiter=";").X.tolist() == [[2.0]]
    assert data.y.tolist() == [1.0, 0.0]


def test_parquet_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, 2], pa.int8()),
            "large": pa.array([2**60, 2**53 + 1], pa.int64()),
            "price": pa.array(["1.25", "-3.50"]).cast(pa.decimal128(5, 2)),
            "zip": pa.array([75001, 3000], pa.int32()),
            "category": pa.array(["b", "a"]).dictionary_encode(),
            "long": pa.array(["x", "y"], pa.large_string()),
            "day": pa.array([0, 1], pa.date32()),
            "written": pa.array(["1.5", "-2"]),
            "y": pa.array([True, False]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    data = read_parquet(
        tmp_path / "t.parquet", label="y", categorical=["zip", "day"], numeric=["written"], dtype=np.float64
    )
    names = ("small", "large", "price", "written", "zip=75001", "category=b", "long=x", "day=1970-01-01")
    assert data.schema.feature_names == (*names, "zip=3000", "category=a", "long=y", "day=1970-01-02")
    assert dense(data)[:, :4].tolist() == [[1, 2.0**60, 1.25, 1.5], [2, 2.0**53, -3.5, -2]]
    assert data.y.tolist() == [1.0, 0.0]


def test_folders_as_spark_writes_them(tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    FRAME.iloc[:2].to_parquet(folder / "part-00000.parquet", index=False)
    FRAME.iloc[2:].to_parquet(folder / "part-00001.parquet", index=False)
    (folder / "_SUCCESS").touch()
    FRAME.to_parquet(folder / "_metadata.parquet", index=False)
    data = read_parquet(folder, label="bought")
    np.testing.assert_array_equal(dense(data), dense(read(write(FRAME, tmp_path / "one.parquet"), label="bought")))


def test_a_dictionary_may_have_values_that_no_row_has(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int32()), pa.array(["a", "never", "c"]))
    pq.write_table(pa.table({"c": column, "y": [0, 1, 0]}), tmp_path / "t.parquet")
    data = read_parquet(tmp_path / "t.parquet", label="y")
    assert data.schema.feature_names == ("c=c", "c=a")
    hashed = read_parquet(tmp_path / "t.parquet", label="y", hashed=["c"])
    assert "2 are used" in hashed.notes[0]


def test_readers_give_what_a_store_takes(table: Path) -> None:
    reader = (ParquetReader if table.suffix == ".parquet" else CsvReader)(write(FRAME, table), label="bought")
    (part,) = reader.parts()
    assert isinstance(part.rows, SparseColumns)
    assert part.rows.starts.dtype == np.int64
    assert part.rows.indices.dtype == np.int32
    assert part.y.dtype == np.float64
    assert reader.index_shift == 0


def test_tables_go_into_stores_and_the_next_file_after_them(table: Path, tmp_path: Path) -> None:
    store = convert(write(FRAME, table), tmp_path / "t.store", label="bought")
    np.testing.assert_array_equal(store.X.toarray(), dense(read(table, label="bought")))
    assert store.schema.feature_names == NAMES
    store = append(tmp_path / "t.store", write(FRAME.iloc[::-1].assign(city="Rome"), tmp_path / "next.csv"))
    assert store.X.shape == (8, len(NAMES))
    np.testing.assert_array_equal(store.X[4:, :3].toarray(), store.X[:4, :3].toarray()[::-1])
    assert store.X[4:, NAMES.index("city=Paris")].nnz == 0


def test_gzip_and_xz_of_the_standard_library(tmp_path: Path) -> None:
    text = FRAME.to_csv(index=False).encode()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(text))
    for name in ("t.csv.gz", "t.csv.xz"):
        assert read_csv(tmp_path / name, label="bought").schema.feature_names == NAMES
