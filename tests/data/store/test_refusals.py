"""What is not a whole, undamaged store of a known version is refused, with the reason, and nothing ever crashes."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz_store import damage_once
from store_cases import quick_folder, replace_table, source, superblock_of, use, weighted, write
from symsgd.data.store import StoreWriter, open_store
from symsgd.data.store.layout import SUPERBLOCK_OFFSETS, Superblock, checksum
from symsgd.errors import StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with everything that one can have."""
    made = tmp_path / "rows.store"
    write(made, weighted(source(), [True, False]))
    return made


def change(path: Path, offset: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[offset : offset + len(data)] = data
    path.write_bytes(whole)


def change_superblocks(path: Path, offset: int, data: bytes) -> None:
    """With checksums that fit."""
    whole = bytearray(path.read_bytes())
    for begin in SUPERBLOCK_OFFSETS:
        block = whole[begin : begin + Superblock.SIZE]
        block[offset : offset + len(data)] = data
        block[-8:] = struct.pack("<Q", checksum(bytes(block[:-8])))
        whole[begin : begin + Superblock.SIZE] = block
    path.write_bytes(whole)


@pytest.mark.parametrize("content", [b"1 2:3 4:5\n" * 9999, b"\x93NUMPY", b"\0" * 100_000, b""])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"other: it is (not a symsgd store|cut short)") as caught:
        open_store(path)
    assert caught.value.path == str(path)


def test_no_file_and_no_permission_are_what_the_system_says(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_store(tmp_path / "none")
    with pytest.raises(OSError, match="directory"):
        open_store(tmp_path)


def test_every_length_that_is_too_short(path: Path) -> None:
    whole = path.read_bytes()
    table = superblock_of(path).table
    near = {edge + by for edge in (64, 4096, 4160, 1 << 16, table.offset, len(whole)) for by in (-2, -1, 0, 1, 2)}
    lengths = sorted(n for n in {*near, *range(64), *range(0, len(whole), 4096)} if 0 <= n < len(whole))
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError, match="cut short"):
            open_store(path)
    path.write_bytes(whole + b"of an append that was killed")
    use(path)


def test_a_byte_that_goes_bad_in_one_superblock_does_no_harm(path: Path) -> None:
    whole = path.read_bytes()
    for begin in SUPERBLOCK_OFFSETS:
        for offset in range(begin, begin + Superblock.SIZE):
            change(path, offset, bytes([whole[offset] ^ 0x55]))
            assert len(open_store(path)) == 47
            path.write_bytes(whole)


def test_bytes_that_go_bad_in_both_superblocks_are_refused(path: Path) -> None:
    whole = path.read_bytes()
    for offset in range(Superblock.SIZE):
        for begin in SUPERBLOCK_OFFSETS:
            change(path, begin + offset, bytes([whole[begin + offset] ^ 0x55]))
        with pytest.raises(StoreError, match=r"its header is damaged|not a symsgd store"):
            open_store(path)
        path.write_bytes(whole)


def test_a_byte_that_goes_bad_in_the_table_or_the_schema_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    table = superblock_of(path).table
    schema = open_store(path)._table.schema
    for what, place in (("table of contents", table), ("schema", schema)):
        for offset in range(place.offset, place.end):
            change(path, offset, bytes([whole[offset] ^ 1]))
            with pytest.raises(StoreError, match=f"its {what}, at byte {place.offset}, is damaged"):
                open_store(path)
        path.write_bytes(whole)


def test_a_byte_that_goes_bad_in_the_rows_is_found_and_named(path: Path) -> None:
    whole = path.read_bytes()
    table = open_store(path)._table
    rng = np.random.default_rng(0)
    for name, stored in table.arrays.items():
        (extent,) = stored.extents
        n_bytes = table.n_bytes(name)
        inner = range(4, n_bytes - 4) if name == "starts" else range(n_bytes)  # its ends are looked at on opening
        for at in [inner[0], inner[-1], *rng.choice(inner, 5)]:
            change(path, extent.offset + int(at), bytes([whole[extent.offset + int(at)] ^ 0x80]))
            store = open_store(path)
            reason = f"its array {name!r} is damaged: .*bytes {extent.offset} to {extent.offset + n_bytes} of the file"
            with pytest.raises(StoreError, match=reason) as first:
                store.verify(2)
            change(path, extent.offset + int(at), whole[extent.offset + int(at) :][:1])
            with pytest.raises(StoreError) as second:  # remembered
                store.verify(1)
            assert str(first.value) == str(second.value)
            path.write_bytes(whole)
    change(path, table.arrays["y"].extents[0].end - 1, b"x")  # not in use
    use(path)


def test_an_append_to_a_damaged_schema_is_refused(path: Path) -> None:
    place = open_store(path)._table.schema
    change(path, place.offset + 3, b"x")
    with pytest.raises(StoreError, match=f"its schema, at byte {place.offset}, is damaged"):
        StoreWriter(path, append=True)


def test_an_error_survives_the_way_between_processes(path: Path) -> None:
    error = pickle.loads(pickle.dumps(StoreError(path, "why")))
    assert (str(error), error.path, error.reason) == (f"{path}: why", str(path), "why")


def test_a_closed_store_is_not_taken_for_a_damaged_one(path: Path) -> None:
    store = open_store(path)
    store.close()
    for look in (store.verify, lambda: store.will_need(0, 10)):
        with pytest.raises(StoreError, match="it has been closed"):
            look()


def test_a_large_array_is_damaged_where_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "large.store"
    write(path, source(sizes=[20_000]))
    store = open_store(path)
    extents = store._table.arrays["values"].extents
    assert len(extents) > 3
    change(path, extents[2].offset + 5, b"\xff\xff")
    with pytest.raises(StoreError, match=f"'values' is damaged: .*bytes {extents[2].offset} to {extents[2].end}"):
        open_store(path).verify(2)


def test_what_was_verified_is_not_read_again(path: Path) -> None:
    store = open_store(path)
    store.verify()
    change(path, store._table.arrays["y"].extents[0].offset, b"x")
    store.verify()
    with pytest.raises(StoreError):
        open_store(path).verify()


def test_ends_of_starts_are_looked_at_on_opening(path: Path) -> None:
    table = open_store(path)._table
    first = table.arrays["starts"].extents[0].offset
    for offset in (first, first + table.n_bytes("starts") - 4):
        whole = path.read_bytes()
        change(path, offset, struct.pack("<i", 12345))
        with pytest.raises(StoreError, match=f"'starts' is damaged: it does not go from 0 to {table.n_entries}"):
            open_store(path)
        path.write_bytes(whole)


def test_a_future_version(path: Path) -> None:
    change_superblocks(path, 8, struct.pack("<I", 2))
    with pytest.raises(StoreError, match="it has version 2 of the format, and this version of symsgd reads version 1"):
        open_store(path)


def test_big_endian_numbers(path: Path) -> None:
    change_superblocks(path, 12, struct.pack(">I", 0x01020304))
    with pytest.raises(StoreError, match="big-endian"):
        open_store(path)


def test_a_table_beyond_the_end(path: Path) -> None:
    change_superblocks(path, 24, struct.pack("<Q", 1 << 60))
    with pytest.raises(StoreError, match="table of contents would lie beyond its end"):
        open_store(path)


def edit(path: Path, *keys: Any, to: Any) -> None:
    """The table of contents with one value changed, and checksums that fit."""
    place = superblock_of(path).table
    table = json.loads(path.read_bytes()[place.offset : place.end])
    inner = table
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = to
    replace_table(path, json.dumps(table).encode())


UNIT = 1 << 16
CHANGES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("rows",), 46, "needs 376 bytes|needs .* bytes|does not go from 0"),
    (("rows",), 100_000, "needs .* bytes, and its extents have"),
    (("rows",), 1 << 70, "in place of a count"),
    (("rows",), -1, "in place of a count"),
    (("rows",), 1.5, "in place of a count"),
    (("rows",), True, "in place of a count"),
    (("entries",), 3, "does not go from 0 to 3"),
    (("entries",), 0, "needs 0 bytes"),
    (("features",), 1 << 32, "its indices have 32 bits"),
    (("arrays", "indices", "type"), "int64", "its starts have 32 bits, but its indices have 64"),
    (("features",), None, "in place of a count"),
    (("arrays", "values", "type"), "int8", "has the type 'int8'"),
    (("arrays", "values", "type"), ["float32"], "has the type"),
    (("arrays", "values", "extents"), [], "needs .* bytes, and its extents have 0"),
    (("arrays", "values", "extents"), 7, "malformed"),
    (("arrays", "values", "extents", 0), [1, 2], "in place of an extent"),
    (("arrays", "values", "extents", 0, 0), 100, "not aligned"),
    (("arrays", "values", "extents", 0, 0), 0, "not aligned"),
    (("arrays", "values", "extents", 0, 0), -UNIT, "in place of an extent"),
    (("arrays", "values", "extents", 0, 1), 4096, "not aligned"),
    (("arrays", "values", "extents", 0, 0), 1000 * UNIT, "beyond the end of the store"),
    (("arrays", "values", "extents", 0, 1), 1000 * UNIT, "overlap|beyond the end"),
    (("arrays", "values", "extents", 0, 0), UNIT, "overlap at byte 65536"),
    (("arrays", "values", "extents", 0, 2), "zz", "in place of an extent"),
    (("arrays", "values", "extents", 0, 2), "z" * 16, "malformed"),
    (("arrays", "other"), {"type": "int32", "extents": []}, "array 'other' has the type"),
    (("arrays",), {}, "neither sparse nor dense"),
    (("arrays",), [], "malformed"),
    (("schema",), [0, 10, "0" * 16], "'header' and 'schema' overlap"),
    (("schema",), None, "in place of an extent"),
    (("notes",), [1], "in place of a text"),
    (("notes",), None, "malformed"),
    (("library",), 1, "in place of a text"),
    (("summary",), {}, "malformed"),
    (("summary", "finite"), 1, "malformed"),
    (("summary", "labels"), [[1]], "malformed"),
]


@pytest.mark.parametrize(("keys", "to", "reason"), CHANGES, ids=lambda value: str(value)[:40])
def test_tables_that_do_not_add_up(path: Path, keys: tuple[Any, ...], to: Any, reason: str) -> None:
    edit(path, *keys, to=to)
    with pytest.raises(StoreError, match=reason):
        open_store(path)


@pytest.mark.parametrize("table", [b"", b"{", b"[]", b"\xff\xff", b"[" * 100_000, b'{"rows": 1}', b"9" * 5000])
def test_tables_that_are_none(path: Path, table: bytes) -> None:
    replace_table(path, table)
    with pytest.raises(StoreError, match="table of contents"):
        open_store(path)


def test_a_schema_of_another_width(path: Path) -> None:
    edit(path, "features", to=31)
    with pytest.raises(StoreError, match="its schema has 30 features, and its rows have 31"):
        _ = open_store(path).schema


def test_dense_rows_of_another_width(tmp_path: Path) -> None:
    path = tmp_path / "dense.store"
    write(path, source(sparse=False))
    edit(path, "features", to=29)
    with pytest.raises(StoreError, match="1410 numbers in 47 dense rows of 29 features"):
        open_store(path)


@pytest.mark.parametrize("name", ["starts", "indices"])
@pytest.mark.parametrize("number", [-1, 1 << 30])
def test_checksums_that_were_made_to_fit_do_not_let_anybody_out_of_bounds(path: Path, name: str, number: int) -> None:
    table = open_store(path)._table
    stored = table.arrays[name]
    (extent,) = stored.extents
    change(path, extent.offset + 10 * stored.dtype.itemsize, np.array([number], stored.dtype).tobytes())
    used = path.read_bytes()[extent.offset : extent.offset + table.n_bytes(name)]
    edit(path, "arrays", name, "extents", 0, 2, to=f"{checksum(used):016x}")
    with pytest.raises(StoreError, match=r"starts decrease|an index is not below 30"):
        open_store(path).verify()


def test_random_damage_is_refused_or_does_no_harm() -> None:
    with quick_folder() as folder:
        noticed = sum(damage_once(Path(folder) / "rows.store", seed) for seed in range(150))
    assert 50 < noticed < 150
