"""The bytes of a store that are not rows: superblocks, the table of contents, and what must hold of both.

    0                superblock                           64 bytes, see Superblock
    4096             the same superblock again
    65536            extents of the arrays, each at a multiple of 64 KiB and as long as one
    …                schema and table of contents, JSON, behind the extents they were written after

Numbers are little-endian. An array is the used bytes of its extents one after the other; every extent but its last is
used to the end. ``docs/store.md`` has every field.

Two superblocks, always written in turn and never both at once, serve two purposes: a write that is cut short leaves the
other one with the last state that was whole, and a byte that goes bad later on leaves the other one with the newest.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xxhash

from symsgd.data.store.summary import Summary

VERSION = 1
UNIT = 1 << 16  # a multiple of every page size in use, so that an extent can be mapped anywhere
MAGIC = b"\x93symsgd\n"  # no text file begins with this byte
LITTLE_ENDIAN = 0x01020304
BIG_ENDIAN = 0x04030201  # what LITTLE_ENDIAN looks like if a machine of the other kind wrote it
SUPERBLOCK_OFFSETS = (0, 4096)

ARRAY_TYPES = {
    "starts": ("int32", "int64"),
    "indices": ("int32", "int64"),
    "values": ("float32", "float64"),
    "y": ("float64",),
    "weight": ("float64",),
}
SPARSE, DENSE, OPTIONAL = {"starts", "indices", "values", "y"}, {"values", "y"}, {"weight"}

checksum = xxhash.xxh3_64_intdigest


class LayoutError(ValueError):
    """What is wrong with the bytes, without the path, which they do not know."""


class Extent(NamedTuple):
    """``length`` bytes at ``offset``, and the XXH3-64 of those in use."""

    offset: int
    length: int
    checksum: int

    @property
    def end(self) -> int:
        return self.offset + self.length

    def to_json(self) -> list[Any]:
        """The checksum is in hexadecimal: not every JSON library keeps 64 bits of a number."""
        return [self.offset, self.length, f"{self.checksum:016x}"]

    @staticmethod
    def from_json(fields: Any) -> Extent:
        """What :meth:`to_json` wrote."""
        if isinstance(fields, list) and [type(field) for field in fields] == [int, int, str]:
            offset, length, digits = fields
            if offset >= 0 and length >= 0 and len(digits) == 16:
                return Extent(offset, length, int(digits, 16))
        raise LayoutError(f"its table of contents has {fields!r} in place of an extent")


@dataclass(frozen=True)
class Superblock:
    """Where the table of contents of one state lies. ``end`` is how long the file has to be at least."""

    generation: int  # 1 for a new store, one more with every append
    table: Extent
    end: int

    _FIELDS = struct.Struct("<8sIIQQQQQ")  # and then the checksum of these
    SIZE = _FIELDS.size + 8

    def pack(self) -> bytes:
        """The superblock as it is in the file."""
        table = self.table
        fields = self._FIELDS.pack(
            MAGIC, VERSION, LITTLE_ENDIAN, self.generation, table.offset, table.length, table.checksum, self.end
        )
        return fields + struct.pack("<Q", checksum(fields))

    @staticmethod
    def unpack(data: bytes) -> Superblock:
        """What :meth:`pack` wrote; a LayoutError that says why if it is anything else."""
        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise LayoutError("it is not a symsgd store")
        if len(data) < Superblock.SIZE:
            raise LayoutError("it is cut short: not even its header is whole")
        fields, check = data[:-8], int.from_bytes(data[-8:], "little")
        _, version, order, generation, offset, length, table_checksum, end = Superblock._FIELDS.unpack(fields)
        if order == BIG_ENDIAN:
            raise LayoutError("its numbers are big-endian; stores are little-endian")
        if check != checksum(fields) or order != LITTLE_ENDIAN:
            raise LayoutError("its header is damaged")
        if version != VERSION:
            raise LayoutError(
                f"it has version {version} of the format, and this version of symsgd reads version {VERSION} only"
            )
        return Superblock(generation, Extent(offset, length, table_checksum), end)


@dataclass(frozen=True)
class StoredArray:
    """One array: the type of its items, and where they are."""

    dtype: np.dtype[Any]
    extents: tuple[Extent, ...]

    @property
    def capacity(self) -> int:
        return sum(extent.length for extent in self.extents)


@dataclass(frozen=True)
class Table:
    """The table of contents."""

    n_rows: int
    n_features: int
    n_entries: int
    arrays: Mapping[str, StoredArray]
    schema: Extent
    notes: tuple[str, ...]
    summary: Summary
    library: str  # that wrote it

    @property
    def sparse(self) -> bool:
        return "starts" in self.arrays

    def n_bytes(self, name: str) -> int:
        """How many bytes of the extents of an array are in use."""
        counts = {"starts": self.n_rows + 1, "indices": self.n_entries, "values": self.n_entries}
        return counts.get(name, self.n_rows) * self.arrays[name].dtype.itemsize

    def pack(self) -> bytes:
        """The table as it is in the file."""
        fields = {
            "library": self.library,
            "rows": self.n_rows,
            "features": self.n_features,
            "entries": self.n_entries,
            "arrays": {
                name: {"type": array.dtype.name, "extents": [extent.to_json() for extent in array.extents]}
                for name, array in self.arrays.items()
            },
            "schema": self.schema.to_json(),
            "notes": list(self.notes),
            "summary": self.summary.to_json(),
        }
        return to_json(fields)

    @staticmethod
    def unpack(data: bytes, end: int) -> Table:
        """What :meth:`pack` wrote, if it describes a store of ``end`` bytes that can be read; else a LayoutError."""
        fields = from_json(data, "table of contents")
        try:
            table = Table(
                n_rows=_count(fields["rows"]),
                n_features=_count(fields["features"]),
                n_entries=_count(fields["entries"]),
                arrays={name: _stored_array(name, array) for name, array in fields["arrays"].items()},
                schema=Extent.from_json(fields["schema"]),
                notes=tuple(_text(note) for note in fields["notes"]),
                summary=Summary.from_json(fields["summary"]),
                library=_text(fields["library"]),
            )
        except LayoutError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LayoutError(f"its table of contents is malformed: {error!r}") from None
        _check_counts(table)
        _check_places(table, end)
        return table


def used(extents: Sequence[Extent], n_bytes: int) -> Iterator[tuple[Extent, int]]:
    """The extents of an array of that many bytes, and how many bytes of each are in use."""
    for extent in extents:
        yield extent, min(extent.length, n_bytes)
        n_bytes -= min(extent.length, n_bytes)


def round_up(n: int, unit: int = UNIT) -> int:
    """The next multiple of ``unit``."""
    return -(-n // unit) * unit


def to_json(fields: Any) -> bytes:
    """As compact JSON in UTF-8."""
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def from_json(data: bytes, what: str) -> Any:
    """An object from JSON."""
    try:
        fields = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise LayoutError(f"its {what} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise LayoutError(f"its {what} is not a JSON object")
    return fields


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    raise LayoutError(f"its table of contents has {value!r} in place of a count")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise LayoutError(f"its table of contents has {value!r} in place of a text")


def _stored_array(name: str, fields: Any) -> StoredArray:
    accepted = ARRAY_TYPES.get(name, ())
    if fields["type"] not in accepted:
        raise LayoutError(f"its array {name!r} has the type {fields['type']!r}, which is not one of {accepted}")
    dtype = np.dtype(fields["type"]).newbyteorder("<")
    return StoredArray(dtype, tuple(Extent.from_json(extent) for extent in fields["extents"]))


def _check_counts(table: Table) -> None:
    names = set(table.arrays) - OPTIONAL
    if names not in (SPARSE, DENSE):
        raise LayoutError(f"its arrays are {', '.join(sorted(table.arrays))}; these make neither sparse nor dense rows")
    if not table.sparse and table.n_entries != table.n_rows * table.n_features:
        raise LayoutError(
            f"it has {table.n_entries} numbers in {table.n_rows} dense rows of {table.n_features} features"
        )
    if table.sparse:
        starts, indices = (table.arrays[name].dtype.itemsize for name in ("starts", "indices"))
        if table.n_features > 1 << 31 and indices == 4:
            raise LayoutError(f"it has {table.n_features} features, but its indices have 32 bits")
        if starts < indices:
            raise LayoutError("its starts have 32 bits, but its indices have 64")
    for name, array in table.arrays.items():
        needed = table.n_bytes(name)
        last = array.extents[-1].length if array.extents else 0
        if not array.capacity - last < needed <= array.capacity and needed + array.capacity > 0:
            raise LayoutError(f"its array {name!r} needs {needed} bytes, and its extents have {array.capacity}")


def _check_places(table: Table, end: int) -> None:
    places = [(extent, name) for name, array in table.arrays.items() for extent in array.extents]
    for extent, name in places:
        if extent.offset % UNIT or extent.length % UNIT or extent.offset < UNIT or extent.length == 0:
            raise LayoutError(f"an extent of its array {name!r} is not aligned: {extent.offset}, {extent.length}")
    places.append((table.schema, "schema"))
    at, before = UNIT, "header"
    for extent, name in sorted(places, key=lambda place: place[0].offset):
        if extent.offset < at:
            raise LayoutError(f"{before!r} and {name!r} overlap at byte {extent.offset}")
        at, before = extent.end, name
    if at > end:
        raise LayoutError(f"{before!r} ends at byte {at}, beyond the end of the store at {end}")
