"""The Vowpal Wabbit reader: that program's indices and rules, and errors that say where.

The numbers here were printed by Vowpal Wabbit 9.11 (``--audit --noconstant``); where it is installed, it is asked.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symsgd import _core
from symsgd.data import Dataset, Schema, VowpalReader, read_vowpal, text, vowpal
from symsgd.errors import DataError

Row = list[tuple[int, float]]


def read(content: bytes | str, **options: Any) -> Dataset:
    return read_vowpal(io.BytesIO(content.encode() if isinstance(content, str) else content), **options)


def rows(data: Dataset) -> list[Row]:
    X = data.X
    return [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def row(line: bytes | str, **options: Any) -> Row:
    (only,) = rows(read(line, **options))
    return only


def error_of(content: bytes | str, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read(content, **options)
    return caught.value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 |a x:2 y 12 |b z:3 w:-0.5", [(55432, 2), (42847, 1), (92606, 1), (124687, 3), (114093, -0.5)]),
        ("-1 2.5 0.1 'tag|b x:2 |a y |a 007 :5 :6", [(143313, 2), (42847, 1), (92601, 1), (92594, 5), (92595, 6)]),
        ("'tag2 |f color:red size:5 |12 foo", [(161235, 1), (172807, 5), (211838, 1)]),
        ("| 12345678901 a|bb b|a c", [(7221, 1), (92594, 1), (113538, 1), (120964, 1)]),
        ("1 2 tag3|f:2 x y:3 z:0", [(76460, 2), (104219, 6)]),
        ("|f é:2 \t u", [(238967, 2), (90942, 1)]),
        ("1 |éa x |a z | w", [(87481, 1), (202246, 1), (236831, 1)]),
        ("1 | a:b:c d", [(207666, 1), (70771, 1)]),  # a word as a value, up to a blank
        ("1 | a:b|c d", [(23378, 1), (70771, 1)]),
        ("1 |a w:.5 v:+3 u:5.", [(9575, 0.5), (240171, 3), (71957, 5)]),
        ("1 |a \x00b c\x00d", [(144016, 1), (30727, 1)]),
        ('|a "x b%20c', [(234532, 1), (93154, 1)]),
        ("1 |a", []),
        ("1 |", []),
        ("1 ||a||", []),
    ],
)
def test_features_have_the_indices_they_have_there(line: str, expected: Row) -> None:
    assert row(line) == expected
    assert row(line + "\n") == row(line + "\r\n") == expected
    wide = row(line, bits=31)
    assert [(i & (2**18 - 1), v) for i, v in wide] == expected


CROSSED = "1 |a x:2 y 12 |b z:3 w:-0.5"


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["ab"], [(80151, 6), (91061, -1), (171394, 3), (182048, -0.5), (37141, 3), (52151, -0.5)]),
        (["ba"], [(156693, 6), (138178, 3), (251171, 3), (85983, -1), (77832, -0.5), (65257, -0.5)]),
        (["aa"], [(1680, 4), (31047, 2), (112550, 2), (253394, 1), (135987, 1), (8100, 1)]),
        (["bb"], [(220050, 9), (196912, -1.5), (11002, 0.25)]),
        (["ac", "cc", "  "], []),
    ],
)
def test_crosses_have_the_indices_they_have_there(pairs: list[str], expected: Row) -> None:
    assert row(CROSSED, quadratic=pairs) == row(CROSSED) + expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["ba", "ab"], ["ab"]),  # of the same pair twice, the first in the order of bytes
        (["ab", "ab"], ["ab"]),
        (["b:", "a:"], ["aa", "ab", "ac", "bb", "bc"]),
        ([":a"], ["aa", "ba", "ca"]),
        (["ba", "::"], ["aa", "ab", "ac", "bb", "bc", "cc"]),
        (["ca", "bc", "ac"], ["ac", "bc"]),
        (["c:", ":a"], ["aa", "ba", "ca", "cb", "cc"]),
    ],
)
def test_pairs_that_overlap_are_crossed_once(pairs: list[str], expected: list[str]) -> None:
    line = "1 |a x |b z |c w"
    crosses = sorted(set(row(line, quadratic=pairs)) - set(row(line)))
    assert crosses == sorted(entry for pair in expected for entry in row(line, quadratic=[pair])[3:])
    assert len(row(line, quadratic=pairs)) == 3 + len(expected)


def test_any_means_printable_namespaces() -> None:
    assert len(row("1 |é x | y", quadratic=["::"])) == 3


def test_the_constant_is_added_where_it_is_asked_for() -> None:
    assert row("1 |a x", constant=True) == [(55432, 1), (116060, 1)]
    assert row("1 |a x", constant=True, bits=24, quadratic=["::"])[-1] == (11650396, 1)


@pytest.mark.parametrize(
    ("line", "label", "weight"),
    [
        ("1 | a", 1, 1),
        ("-0.5 2 | a", -0.5, 2),
        ("1 2 0.5 | a", 1, 2),
        ("1  2 | a", 1, 2),
        (" 1 0 'tag| a", 1, 0),
        ("1 2 tag| a", 1, 2),
        ("1 'tag | a", 1, 1),
        ("skipped 7\t1 2 | a", 1, 2),
        ("+1e0 .5 | a", 1, 0.5),
        ("\ufeff1 | a", 1, 1),
        ("| a", math.nan, 1),
        ("'tag| a", math.nan, 1),
        ("1| a", math.nan, 1),  # a word that touches the bar is a tag
        (" | a", math.nan, 1),
    ],
)
def test_labels_importances_and_tags(line: str, label: float, weight: float) -> None:
    data = read(f"0 3 | b\n{line}\n")
    np.testing.assert_array_equal(data.y, [0, label])
    np.testing.assert_array_equal(data.sample_weight, [3, weight])


def test_weights_are_there_if_a_row_has_one() -> None:
    assert read("1 | a\n| b\n").sample_weight is None


def test_notes_count_what_is_missing_or_ignored() -> None:
    data = read("1 1 0.5 | a\n| a\n2| a\n1 1 0 | b\n")
    assert data.notes == (
        "2 rows have no label; a word that touches the first '|' is a tag",
        "1 row has a base to predict from, which was ignored",
    )


def test_collisions_are_counted() -> None:
    content = "".join(f"1 |n f{i} g{i}\n" for i in range(2000)).encode()
    hashed = [murmur(f"{kind}{i}", murmur("n")) % 2**12 for i in range(2000) for kind in "fg"]
    _, counts = np.unique(hashed, return_counts=True)
    expected = (
        f"{(counts > 1).sum():,} of {len(counts):,} indices in use stand for more than one feature; more bits help"
    )
    for n_threads in (1, 3):
        assert read(content * 2, bits=12, n_threads=n_threads).notes == (expected,)
    assert read(content, bits=12, count_collisions=False).notes == ()
    assert read("1 |a x\n1 |a x |b y", bits=24).notes == ()
    assert read("1 |a 7\n1 |a 007", bits=24).notes[0].startswith("1 of 1 indices")
    assert read("1 |a x |b y", bits=1, quadratic=["ab"]).notes[0].startswith("1 of 1 indices")


def test_crosses_are_counted_too_and_the_constant_is_not() -> None:
    collisions = _core.Collisions(18)
    options = {"single": True, "bits": 18, "constant": True, "n_threads": 1, "piece_bytes": 99}
    _core.parse_vowpal(b"1 |a x y |b z\n", quadratic=["ab"], collisions=collisions, **options)
    assert collisions.count() == (5, 0)


def murmur(name: str, seed: int = 0) -> int:
    """MurmurHash3 for 32 bits by its definition."""
    data, h = name.encode(), seed
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
        h ^= k
        if at + 4 <= len(data):
            h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("1 a b", 1, "'1' begins a line without '|'; accepted is [LABEL] | FEATURES, as in 1 | a b:2"),
        ("-1 3:4", 1, "'-1' begins a line without '|'"),
        ("spam | a", 1, "'spam' is not a label; accepted is a finite number"),
        ("nan | a", 1, "'nan' is not a label"),
        ("1e999 | a", 1, "'1e999' is not a label"),
        ("1 x | a", 3, "'x' is not an importance; accepted is a finite number"),
        ("1 -2 | a", 3, "'-2' is not an importance; accepted are numbers >= 0"),
        ("1 2 x | a", 5, "'x' is not a base"),
        ("1 2 3 4 | a", 7, "'4' is one word too many"),
        ("1,2 | a", 1, "'1,2' is not a label"),
        ("1 |: a", 4, "a namespace is missing before ':'"),
        ("1 |a: b", 6, "'' is not a scale; accepted is |NAMESPACE:NUMBER"),
        ("1 |a:x b", 6, "'x' is not a scale"),
        ("1 |a:1:2 b", 6, "'1:2' is not a scale"),
        ("1 |a:inf b", 6, "'inf' is not a scale"),
        ("1 |a b:", 8, "a value is missing after ':'"),
        ("1 |a b: c", 8, "a value is missing after ':'"),
        ("1 |a b:|c", 8, "a value is missing after ':'"),
        ("1 |a b:1x", 8, "'1x' is not a value; accepted is a finite number or a word"),
        ("1 |a b:1:2", 8, "'1:2' is not a value"),
        ("1 |a b:0x10", 8, "'0x10' is not a value"),
        ("1 |a b:nan", 8, "'nan' is not a value"),
        ("1 |a b:-Info", 8, "'-Info' is not a value"),  # which reads as infinity and then an o there
        ("1 |a b:e5", 8, "'e5' is not a value"),  # which reads as 0 there
        ("1 |a b:-", 8, "'-' is not a value"),
        ("1 |a b:.", 8, "'.' is not a value"),
        ("1 |a b:1e400", 8, "'1e400' is too large for float32"),
        ("1 |a b:1e39", 6, "'b:1e39' is too large for float32"),
        ("1 |a:1e30 b:1e30", 11, "'b:1e30' is too large for float32"),
        ("1 |a b\rc", 7, "a carriage return within a line is not accepted"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(line: str, column: int, reason: str) -> None:
    for ending in ("", "\n", "\r\n", "\n1 | a\njunk\n"):
        error = error_of("1 | a\n\n" + line + ending)
        assert (error.line, error.column) == (3, column)
        assert error.reason.startswith(reason)


def test_a_cross_that_is_too_large_is_an_error() -> None:
    error = error_of("1 | a\n1 |a x:1e20 |b y:1e20", quadratic=["ab"])
    assert (error.line, error.column) == (2, 3)
    assert read("1 |a x:1e20 |b y:1e20", quadratic=["ab"], dtype=np.float64).X.data[-1] == 1e40


@pytest.mark.parametrize("content", ["", "\n", " \n\t\r\n"])
def test_blank_lines_are_no_rows(content: str) -> None:
    data = read(content, dtype=np.float64)
    assert (data.X.shape, data.X.dtype, len(data.y)) == ((0, 2**18), np.float64, 0)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "CHUNK_BYTES", 700)
    monkeypatch.setattr(vowpal, "PIECE_BYTES", 90)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_the_number_of_threads_and_the_chunks_do_not_matter(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{i % 2} {i} 't|a x{i} y:{i} |b z{i}" for i in range(300)] + ["", "1 |a q"]
    content = "\n".join(lines)
    many = read(content, quadratic=["ab", "aa"], n_threads=n_threads)
    error = error_of(content + "\n\n1 | b:1x", n_threads=n_threads)
    monkeypatch.undo()
    one = read(content, quadratic=["ab", "aa"], n_threads=1)
    assert rows(many) == rows(one)
    np.testing.assert_array_equal(many.y, one.y)
    np.testing.assert_array_equal(many.sample_weight, one.sample_weight)
    assert (many.schema, many.notes) == (one.schema, one.notes)
    assert (error.line, error.column) == (304, 7)


def test_the_next_file_is_read_as_the_first_was() -> None:
    first = read(CROSSED, bits=20, quadratic=["ab"], constant=True)
    options = {"bits": 20, "quadratic": ["ab"], "constant": True}
    assert first.schema == Schema("vowpal", 2**20, options=options)
    again = read(CROSSED, schema=Schema.from_json(first.schema.to_json()))
    assert rows(again) == rows(first)
    assert again.schema == first.schema
    assert VowpalReader("unread").index_shift == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 0}, "bits=0 is not accepted; it must be an integer >= 1"),
        ({"bits": 32}, "bits=32 is not accepted; it must be an integer >= 1 and <= 31"),
        ({"quadratic": "ab"}, r"quadratic='ab' is not accepted; it must be a list of pairs, as in \['ab'\]"),
        ({"quadratic": ["abc"]}, "'abc' must be the first letters of two namespaces"),
        ({"quadratic": ["aé"]}, "'aé' must be the first letters of two namespaces"),
        ({"dtype": np.int8}, "it must be float32 or float64"),
        ({"schema": Schema("svmlight", 3)}, "schema is that of 'svmlight' data; accepted is one of format 'vowpal'"),
        (
            {"schema": Schema("vowpal", 8, options={"bits": 3, "quadratic": [], "constant": False}), "bits": 3},
            "bits, quadratic or constant and a schema exclude each other",
        ),
    ],
)
def test_options_are_checked_before_the_file_is_opened(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_vowpal("no such file", **options)


names = st.text(st.characters(codec="utf-8", exclude_characters=":|\n\r\t \0"), min_size=1, max_size=20)
numbers = st.integers(0, 10**12).map(str)
values = st.one_of(st.floats(-100, 100).map("{:.3f}".format), st.sampled_from(["red", "x1", "ä", "+x", "-y"]))
features = st.one_of(
    names, numbers, st.builds("{}:{}".format, names | numbers, values), st.floats(0.5, 9).map(":{:.2f}".format)
)
namespaces = st.builds(
    "|{}{}{}".format,
    st.one_of(st.just(""), names, numbers),
    st.just(""),
    st.lists(features, max_size=8).map(lambda words: "".join(f" {word}" for word in words)),
)


@dataclass(frozen=True)
class Asked:
    """What Vowpal Wabbit reads in a line."""

    features: Row
    label: float
    weight: float


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[str], Asked]]:
    module = pytest.importorskip("vowpalwabbit")
    workspace = module.Workspace("--quiet --noconstant -b 18")

    def read_there(line: str) -> Asked:
        example = workspace.example(line)
        label, features = example.get_simplelabel_label(), list(example.iter_features())
        asked = Asked(
            [(index % 2**18, value) for index, value in features],
            label if label < 3e38 else math.nan,
            example.get_simplelabel_weight(),
        )
        workspace.finish_example(example)
        return asked

    yield read_there
    workspace.finish()


@given(label=st.sampled_from(["", "1 ", "-1 2 ", "'tag", "0.5 3 'tag "]), spaces=st.lists(namespaces, min_size=1))
@settings(max_examples=200, deadline=None)
def test_vowpal_wabbit_itself_reads_the_same(ask: Callable[[str], Asked], label: str, spaces: list[str]) -> None:
    line = label + " ".join(spaces)
    data, theirs = read(line), ask(line)
    (features,) = rows(data)
    assert sorted(index for index, _ in features) == sorted(index for index, _ in theirs.features)
    # its numbers are floats that were rounded at each digit
    np.testing.assert_allclose(
        sorted(value for _, value in features), sorted(value for _, value in theirs.features), rtol=1e-5
    )
    np.testing.assert_array_equal(data.y, theirs.label)
    assert (1 if data.sample_weight is None else data.sample_weight[0]) == theirs.weight


tokens = st.one_of(
    st.sampled_from([b"1", b" ", b"\n", b"\r\n", b"\t", b":", b"|", b"|a ", b"x:2", b"'t", b" b", b"e", b"inf", b"."]),
    st.binary(max_size=9),
)


@given(st.lists(tokens, max_size=60).map(b"".join), st.integers(1, 50), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_are_rows_or_an_error_with_its_place(content: bytes, piece: int, n_threads: int) -> None:
    parts, facts, error = _core.parse_vowpal(
        content, single=True, bits=10, quadratic=["::"], constant=True, collisions=_core.Collisions(10),
        n_threads=n_threads, piece_bytes=piece,
    )  # fmt: skip
    lines = content.split(b"\n")
    if error is not None:
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        return
    assert facts.lines == len(lines) - (lines[-1] == b"")
    assert sum(len(part[0]) for part in parts) == sum(b"|" in line for line in lines)
    for y, weight, starts, indices, values in parts:
        assert len(starts) == len(y) + 1 == (len(y) if weight is None else len(weight)) + 1
        assert starts[-1] == len(indices) == len(values)
        assert (np.diff(starts) >= 1).all()  # the constant
        assert ((indices >= 0) & (indices < 2**10)).all()
        assert np.isfinite(values).all()
