"""The store: an input is one of its parts, put into a store with checksums that fit, or bytes written over it."""

from __future__ import annotations

import json

import numpy as np

from fuzz.forms import FOLDER
from store_cases import replace_table, source, superblock_of, use, weighted, write
from symsgd.data.store import open_store
from symsgd.data.store.layout import SUPERBLOCK_OFFSETS, Superblock, checksum
from symsgd.errors import StoreError

PATH = FOLDER / "rows.store"


def _stores() -> list[tuple[bytes, bytes, bytes]]:
    """Files, their tables of contents and their schemas."""
    made = []
    for known in (source(0, [3, 2], 7), weighted(source(1, [4], 3, False), [True])):
        PATH.unlink(missing_ok=True)
        write(PATH, known)
        place, file = superblock_of(PATH).table, PATH.read_bytes()
        schema = open_store(PATH)._table.schema
        made.append((file, file[place.offset : place.end], file[schema.offset : schema.end]))
    return made


def _items(file: bytes, table: bytes) -> list[bytes]:
    """The bytes of the arrays in ``NAMES``."""
    arrays = json.loads(table)["arrays"]
    return [file[arrays[name]["extents"][0][0] :][:24] for name in NAMES]


STORES = _stores()
NAMES = ("starts", "indices", "values")
TABLE, SCHEMA, HEADER, ARRAYS, BYTES = range(5)
SEEDS = [
    *(bytes([TABLE, at]) + table for at, (_, table, _) in enumerate(STORES)),
    *(bytes([SCHEMA, at]) + schema for at, (*_, schema) in enumerate(STORES)),
    *(bytes([HEADER, at]) + file[: Superblock.SIZE] for at, (file, *_) in enumerate(STORES)),
    *(bytes([ARRAYS, at]) + own for at, own in enumerate(_items(*STORES[0][:2]))),
    bytes([BYTES, 0]) + b"\0\4",
]


def with_schema(path: bytes, table: bytes, schema: bytes) -> None:
    fields = json.loads(table)
    PATH.write_bytes(path + schema)
    fields["schema"] = [len(path), len(schema), f"{checksum(schema):016x}"]
    replace_table(PATH, json.dumps(fields).encode())


def with_array(file: bytes, table: bytes, name: str, items: bytes) -> None:
    """Items of an array, one after the other from its beginning."""
    fields, data = json.loads(table), bytearray(file)
    stored = fields["arrays"][name]
    size = {"starts": fields["rows"] + 1}.get(name, fields["entries"]) * np.dtype(stored["type"]).itemsize
    (offset, length, _) = stored["extents"][0]
    data[offset : offset + min(size, len(items))] = items[:size]
    stored["extents"][0] = [offset, length, f"{checksum(bytes(data[offset : offset + size])):016x}"]
    PATH.write_bytes(data)
    replace_table(PATH, json.dumps(fields).encode())


def attempt(data: bytes) -> bool:
    """Whether it was taken for good."""
    data = bytes(data)
    kind, which, rest = data[0] % 5 if data else 0, data[1] if len(data) > 1 else 0, data[2:]
    file, table, _ = STORES[which % len(STORES)]
    PATH.write_bytes(file)
    match kind:
        case 0:  # TABLE
            replace_table(PATH, rest)
        case 1:  # SCHEMA
            with_schema(file, table, rest)
        case 2:  # HEADER: both superblocks
            block = rest[: Superblock.SIZE - 8].ljust(Superblock.SIZE - 8, b"\0")
            block += checksum(block).to_bytes(8, "little")
            image = bytearray(file)
            for offset in SUPERBLOCK_OFFSETS:
                image[offset : offset + len(block)] = block
            PATH.write_bytes(image)
        case 3:  # ARRAYS
            file, table, _ = STORES[0]
            with_array(file, table, NAMES[which % 3], rest)
        case 4:  # BYTES, whose damage must not go unnoticed if it does any
            at = int.from_bytes(rest[:2], "little") * 64 % len(file)
            image = bytearray(file)
            image[at : at + len(rest[2:])] = rest[2:]
            PATH.write_bytes(image[: len(file)])
    try:
        after = use(PATH)
        X = open_store(PATH).X
    except StoreError:
        return False
    X @ np.ones(X.shape[1], X.dtype)
    if kind == 4:
        PATH.write_bytes(file)
        assert after == use(PATH), "damage that went unnoticed"
    return True
