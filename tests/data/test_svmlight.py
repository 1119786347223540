"""The svmlight reader: scikit-learn's values, its own rules, and errors that say where."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from symsgd import _core
from symsgd.data import Dataset, Schema, SvmlightReader, read_svmlight, svmlight, text
from symsgd.errors import DataError


def read(content: bytes | str, **options: object) -> Dataset:
    return read_svmlight(io.BytesIO(content.encode() if isinstance(content, str) else content), **options)


def error_of(content: bytes | str, **options: object) -> DataError:
    with pytest.raises(DataError) as caught:
        read(content, **options)
    return caught.value


def same(a: Dataset, b: Dataset) -> None:
    assert a.X.shape == b.X.shape
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(a.X, part), getattr(b.X, part), strict=True)
    np.testing.assert_array_equal(a.y, b.y, strict=True)
    assert (a.schema, a.notes) == (b.schema, b.notes)


def many_lines(n_rows: int, seed: int = 0) -> bytes:
    """Rows of all lengths, among comments and blank lines."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_rows):
        indices = np.sort(rng.choice(5000, rng.integers(0, 20), replace=False)) + 1
        entries = " ".join(f"{i}:{v!r}" for i, v in zip(indices, rng.normal(size=len(indices)).tolist(), strict=True))
        lines.append(f"{rng.integers(0, 2)} {entries}")
        if rng.random() < 0.1:
            lines.append(rng.choice(["", "# a comment", " \t "]))
    return "\n".join(lines).encode()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks and pieces so small that a short text has many of them."""
    monkeypatch.setattr(text, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(svmlight, "PIECE_BYTES", 150)


def test_a_row_is_a_label_and_its_features() -> None:
    data = read("1 1:0.5 3:-2\n-1 2:1e3\n")
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, -2], [0, 1000, 0]])
    assert data.X.dtype == np.float32
    assert (data.X.indices.dtype, data.X.indptr.dtype) == (np.int32, np.int32)
    np.testing.assert_array_equal(data.y, [1.0, -1.0])
    assert data.y.dtype == np.float64
    assert data.schema == Schema("svmlight", 3, options={"base": 1})
    assert data.notes == ()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    X=hnp.arrays(np.float64, (5, 4), elements=st.floats(-1e30, 1e30) | st.just(0.0)),
    zero_based=st.booleans(),
    n_threads=st.sampled_from([1, 3]),
)
@settings(max_examples=50, deadline=None)
def test_what_sklearn_writes_is_read_as_sklearn_reads_it(
    dtype: type, X: np.ndarray, zero_based: bool, n_threads: int
) -> None:
    file = io.BytesIO()
    dump_svmlight_file(sp.csr_matrix(X), np.arange(5) / 7, file, zero_based=zero_based)
    content = file.getvalue()
    expected_X, expected_y = load_svmlight_file(
        io.BytesIO(content), n_features=4, dtype=dtype, zero_based=zero_based
    )  # fmt: skip
    data = read(content, dtype=dtype, zero_based=zero_based, n_features=4, n_threads=n_threads)
    np.testing.assert_array_equal(data.X.data, expected_X.data, strict=True)
    np.testing.assert_array_equal(data.X.indices, expected_X.indices)
    np.testing.assert_array_equal(data.X.indptr, expected_X.indptr)
    np.testing.assert_array_equal(data.y, expected_y, strict=True)


digits = st.integers(0, 10**25).map(str)
decimals = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}{}.{}e{}".format, st.sampled_from(["", "+", "-"]), digits, digits, st.integers(-330, 280)),
    st.builds("0.{}{}".format, st.integers(0, 30).map("0".__mul__), digits),
)


@given(st.lists(decimals, min_size=1, max_size=20))
@example(["9007199254740993", "9007199254740992.9999999999999999999999", "9007199254740993e0"])  # halfway, and near it
@example(["0.1", "1e22", "1e23", "-0.0", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400"])
@example(["1.7976931348623157e308", "1.7976931348623158e308", "0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400"])
@example(["123456789012345678", "1234567890123456789", "12345678901234567890", "00000000000000000000000000000001.5"])
@example(["4.35", "00.1e+00001", "1.", ".5", "+.5", "8.988465674311579e307", "1e0000000000000000000000000000001"])
@settings(max_examples=100, deadline=None)
def test_numbers_are_the_nearest_doubles(numbers: list[str]) -> None:
    content = "1 " + " ".join(f"{i}:{number}" for i, number in enumerate(numbers))
    wanted = np.array(list(map(float, numbers)))
    values = read(content, dtype=np.float64).X.data
    np.testing.assert_array_equal(values.view(np.int64), wanted.view(np.int64))
    with np.errstate(over="ignore"):
        single = wanted.astype(np.float32)
    if np.isfinite(single).all():
        np.testing.assert_array_equal(read(content).X.data.view(np.int32), single.view(np.int32))
    else:
        assert "too large for float32" in error_of(content).reason


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_the_number_of_threads_and_the_chunks_do_not_matter(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = many_lines(500) + b"\n1 1:" + b"0" * 5000 + b"7 2:1"  # a line of several chunks
    parallel = read(content, n_threads=n_threads)
    monkeypatch.undo()
    same(parallel, read(content, n_threads=1))
    X, y = load_svmlight_file(io.BytesIO(content), dtype=np.float32)
    assert (X != parallel.X).nnz == 0
    np.testing.assert_array_equal(parallel.y, y)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("place", [0, 1, 77, 400, 499])
def test_the_first_error_is_reported_at_its_line_and_column(n_threads: int, place: int) -> None:
    lines = many_lines(400).split(b"\n")
    place = min(place, len(lines) - 1)
    lines[place] = b"0 1:1 junk 2:2"
    lines.append(b"another")
    error = error_of(b"\n".join(lines), n_threads=n_threads)
    assert (error.line, error.column) == (place + 1, 7)


@pytest.mark.parametrize(
    ("content", "column", "reason"),
    [
        ("1 1:1 2", 7, "'2' has no value; accepted is INDEX:VALUE, as in 7:0.25"),
        ("1 1:1 x:2", 7, "'x:2' is not a feature; accepted is INDEX:VALUE, as in 7:0.25"),
        ("1 :2", 3, "':2' is not a feature"),
        ("1 1:", 5, "a value is missing after ':'"),
        ("1 1: 2", 5, "a value is missing after ':'"),
        ("1 1 :2", 3, "'1' has no value"),
        ("1 1:2:3", 5, "'2:3' is not a value: there is a second ':'"),
        ("1 1:2,3", 5, "'2,3' is not a value; accepted is a finite number"),
        ("1 1:nan", 5, "'nan' is not a value; accepted is a finite number"),
        ("1 1:-inf", 5, "'-inf' is not a value; accepted is a finite number"),
        ("1 1:1e", 5, "'1e' is not a value"),
        ("1 1:1e+", 5, "'1e+' is not a value"),
        ("1 1:.", 5, "'.' is not a value"),
        ("1 1:0x10", 5, "'0x10' is not a value"),
        ("1 1:1_000", 5, "'1_000' is not a value"),
        ("1 1:1e400", 5, "'1e400' is too large for float32"),
        ("1 1:3.5e38", 5, "'3.5e38' is too large for float32"),
        ("1 -1:2", 3, "index -1 is out of range; accepted are 0 to 9223372036854775806"),
        ("1 9223372036854775807:2", 3, "index 9223372036854775807 is out of range"),
        ("1 18446744073709551617:2", 3, "index 18446744073709551617 is out of range"),  # 2⁶⁴ + 1
        ("1 100000000000000000000000:2", 3, "index 100000000000000000000000 is out of range"),
        ("1 1.5:2", 3, "'1.5:2' is not a feature"),
        ("1:2 2:3", 1, "'1:2' stands where the label should be; a row begins with its label"),
        ("1,3 1:2", 1, "'1,3' are several labels; accepted is one number a row"),
        ("spam 1:2", 1, "'spam' is not a label; accepted is a finite number"),
        ("nan 1:2", 1, "'nan' is not a label; accepted is a finite number"),
        ("1e999 1:2", 1, "'1e999' is too large for a label"),
        ("\t +- 1:2", 3, "'+-' is not a label"),
        ("1 qid:x 1:2", 3, "'qid:x' is not a query; accepted is qid:INTEGER, as in qid:3"),
        ("1 qi", 3, "'qi' is not a query"),
        ("1 1:2 qid:3", 7, "'qid:3' is not accepted here; a query comes right after the label"),
        ("1 1:2\x00 2:3", 5, r"'2\x00' is not a value"),
        ("\x00", 1, r"'\x00' is not a label"),
        ("1 1:2 \x80é", 7, r"'\xc2\x80\xc3\xa9' is not a feature"),
        ("1 " + "x" * 100, 3, f"'{'x' * 40}…' is not a feature"),
    ],
)
@pytest.mark.parametrize("ending", ["", "\n", "\r\n", " # comment\n1 1:1\n"])
def test_what_is_wrong_is_said_with_its_place(content: str, column: int, reason: str, ending: str) -> None:
    error = error_of("# first\n\n" + content + ending)
    assert (error.line, error.column) == (3, column)
    assert error.reason.startswith(reason)


def test_errors_name_the_file_and_travel_between_processes(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:2\n1 1\n")
    with pytest.raises(DataError) as caught:
        read_svmlight(path)
    assert str(caught.value) == f"{path}, line 2, column 3: '1' has no value; accepted is INDEX:VALUE, as in 7:0.25"
    assert caught.value.path == str(path)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line, again.column) == (str(caught.value), 2, 3)
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_svmlight(tmp_path / "nothing.svm")


@pytest.mark.parametrize(
    "content",
    [
        "+1 1:2 3:4\n0 2:5",
        "+1 1:2 3:4\r\n0 2:5\r\n",
        "\n\n1\t1:2\t\t3:4\t\n \v\f0  2:5  \n\n",
        "# head\n1 1:2 3:4# tail 9:9\n#\n0 2:5 #",
        "1.0e0 1:+2 3:4.000\n-0 2:.5e1\n",
        "1 01:2 0003:4\n0 00000000000000000000002:5\n",
    ],
)
def test_spellings_of_the_same_rows(content: str) -> None:
    data = read(content)
    np.testing.assert_array_equal(data.X.toarray(), [[2, 0, 4], [0, 5, 0]])
    np.testing.assert_array_equal(data.y, [1, 0])


@pytest.mark.parametrize("content", ["", "\n", "# nothing\n\n  \n"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_file_without_rows_has_none(content: str, dtype: type) -> None:
    data = read(content, dtype=dtype)
    assert (data.X.shape, data.y.shape, data.X.dtype) == ((0, 0), (0,), dtype)


def test_rows_without_features_are_rows() -> None:
    data = read("1\n-1 # nothing\n2 2:1\n3\n")
    np.testing.assert_array_equal(data.X.toarray(), [[0, 0], [0, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(data.y, [1, -1, 2, 3])


def test_queries_are_ignored_and_counted() -> None:
    data = read("1 qid:7 1:2\n1 qid:-1\n1 1:3\n")
    np.testing.assert_array_equal(data.X.toarray(), [[2], [0], [3]])
    assert data.notes == ("2 rows have a query (qid:…), which was ignored",)


def test_indices_in_any_order_are_kept_and_counted() -> None:
    """Hashing and joining files make such rows, and training adds them up; scikit-learn's reader refuses them."""
    data = read("1 3:1 1:2 3:4\n1 1:1 1:2\n0 1:1 2:2\n")
    np.testing.assert_array_equal(data.X.toarray(), [[2, 0, 5], [3, 0, 0], [1, 2, 0]])
    assert data.X.indices.tolist() == [2, 0, 2, 0, 0, 0, 1]
    assert data.notes[0].startswith("2 rows have indices out of order or repeated")


@pytest.mark.usefixtures("small_chunks")
def test_an_index_0_at_the_end_of_the_file_counts_all_of_it_from_0() -> None:
    head = "".join(f"1 {i}:{i}\n" for i in range(1, 2000))
    assert read(head).schema == Schema("svmlight", 1999, options={"base": 1})
    data = read(head + "1 0:5\n")
    assert data.schema == Schema("svmlight", 2000, options={"base": 0})
    np.testing.assert_array_equal(data.X.indices, [*range(1, 2000), 0])
    assert data.notes == ("features count from 0: there is an index 0 on line 2000",)


def test_streaming_parts_with_their_shift_are_the_data_set() -> None:
    reader = SvmlightReader(io.BytesIO(b"1 2:3\n0 1:4\n"))
    (part,) = reader.parts()
    assert (part.rows.indices + reader.index_shift).tolist() == [1, 0]
    assert part.rows.starts.dtype == np.int64
    assert part.weight is None
    told = SvmlightReader(io.BytesIO(b"1 2:3\n0 1:4\n"), zero_based=False)
    (part,) = told.parts()
    assert (part.rows.indices.tolist(), told.index_shift) == ([1, 0], 0)


def test_the_base_can_be_told() -> None:
    assert read("1 2:3\n", zero_based=True).X.toarray().tolist() == [[0, 0, 3]]
    assert read("1 2:3\n", zero_based=False).X.toarray().tolist() == [[0, 3]]
    error = error_of("1 2:3\n1 0:1\n", zero_based=False)
    assert (error.line, error.column) == (2, 3)
    assert error.reason == "index 0 is out of range; accepted are 1 to 9223372036854775806"


def test_the_next_file_is_read_as_the_first_was() -> None:
    first = read("1 0:1 4:1\n")
    assert first.schema.options == {"base": 0}
    again = read("1 1:2 4:3 5:9 70:9\n", schema=Schema.from_json(first.schema.to_json()))
    assert again.X.toarray().tolist() == [[0, 2, 0, 0, 3]]
    assert again.notes == ("2 values of features beyond the 5 that are known were ignored",)
    assert again.schema == first.schema
    from_1 = read("1 3:1\n").schema
    assert read("1 3:2\n1 1:1\n", schema=from_1).X.toarray().tolist() == [[0, 0, 2], [1, 0, 0]]
    assert error_of("1 0:2\n", schema=from_1).reason == "index 0 is out of range; accepted are 1 to 3"


def test_a_width_can_be_told_and_binds() -> None:
    assert read("1 3:1\n", n_features=5).X.shape == (1, 5)
    assert read("1 3:1\n", n_features=3).X.shape == (1, 3)
    assert read("1 0:1 2:1\n", n_features=3).X.shape == (1, 3)
    error = error_of("1 1:1\n1 1:1 4:1 9:1\n", n_features=3)
    assert (error.line, error.column) == (2, 7)
    error = error_of("1 1:1 3:1\n1 3:1\n1 0:1\n", n_features=3)  # which only the last line shows
    assert (error.line, error.column) == (1, 7)
    assert error.reason == "index 3 is out of range; accepted are 0 to 2, since there is an index 0 on line 3"


def test_wide_indices_are_64_bits_wide() -> None:
    data = read(f"1 1:1 {2**31}:2\n1 {2**31 + 5}:3\n")
    assert data.X.indices.dtype == np.int64
    assert data.X.indices.tolist() == [0, 2**31 - 1, 2**31 + 4]
    assert data.schema.n_features == 2**31 + 5
    (part,) = SvmlightReader(io.BytesIO(f"1 {2**31 - 1}:1\n".encode())).parts()
    assert part.rows.indices.dtype == np.int32
    assert read(f"1 {2**63 - 2}:1", zero_based=True).schema.n_features == 2**63 - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": np.int32}, "dtype=.* must be float32 or float64"),
        ({"n_threads": 0}, "n_threads=0 is not accepted"),
        ({"n_features": -1}, "n_features=-1 is not accepted"),
        ({"zero_based": "yes"}, "zero_based='yes' is not accepted; it must be True, False or 'auto'"),
        ({"schema": Schema("vowpal", 8)}, "schema is that of 'vowpal' data; accepted is one of format 'svmlight'"),
        (
            {"schema": Schema("svmlight", 8, options={"base": 1}), "n_features": 9},
            "n_features=9 and a schema exclude each other",
        ),
        (
            {"schema": Schema("svmlight", 8, options={"base": 1}), "zero_based": True},
            "zero_based=True contradicts the schema, which counts features from 1",
        ),
    ],
)
def test_options_are_checked_before_the_file_is_opened(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_svmlight("no such file", **options)


tokens = st.one_of(
    st.sampled_from(
        [b"1", b"-1", b" ", b"\n", b"\r\n", b"\t", b":", b"#", b"qid:", b"0", b"1:2", b" 3:0.5", b"e", b"."]
    ),
    st.binary(max_size=9),
    st.integers(0, 2**70).map(lambda i: b" %d:1" % i),
)


@given(st.lists(tokens, max_size=60).map(b"".join), st.integers(1, 50), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_are_rows_or_an_error_with_its_place(content: bytes, piece: int, n_threads: int) -> None:
    options = {"single": False, "first": 0, "last": 2**63 - 2, "skip_beyond_last": False, "base": 0}
    parts, facts, error = _core.parse_svmlight(content, **options, n_threads=n_threads, piece_bytes=piece)
    lines = content.split(b"\n")
    if error is not None:
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        with pytest.raises(DataError):
            read(content)
        return
    assert facts.lines == len(lines) - (lines[-1] == b"")
    by_hand = [line.partition(b"#")[0].split() for line in lines]
    by_hand = [words for words in by_hand if words]
    assert [y for part in parts for y in part[0]] == [float(words[0]) for words in by_hand]
    entries = [word.split(b":") for words in by_hand for word in words[1:] if not word.startswith(b"qid:")]
    assert [i for part in parts for i in part[3]] == [int(index) for index, _ in entries]
    assert [v for part in parts for v in part[4]] == [float(value) for _, value in entries]
