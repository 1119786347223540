"""One array of a store, written a piece at a time into extents that grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from symsgd.data.store.disk import WritableFile
from symsgd.data.store.layout import UNIT, Extent, StoredArray, round_up, used
from symsgd.errors import StoreError

Array = npt.NDArray[Any]

CHUNK = 1 << 20


def next_length(capacity: int) -> int:
    """How long the next extent of an array should be.

    An eighth of the array, so that at most as much is allocated in vain; but not more than 8 MiB, or, from 2 GiB on, a
    256th. Every extent is a mapping of the reader's, which takes some microseconds, and of which a process may have
    some 65,000: an array of a terabyte has two thousand.
    """
    return round_up(max(UNIT, min(capacity // 8, max(1 << 23, capacity >> 8))))


def as_bytes(items: Array) -> memoryview:
    """The memory of a contiguous array."""
    return items.reshape(-1).view(np.uint8).data


class Column:
    """The array ``name``: what there is of it, and what is written to its end."""

    def __init__(self, name: str, dtype: np.dtype[Any], file: WritableFile) -> None:
        self.name = name
        self.dtype = dtype.newbyteorder("<")
        self.n_bytes = 0
        self._file = file
        self._extents: list[Extent] = []
        self._room = 0  # bytes of the last extent that are not used yet
        self._hash = xxhash.xxh3_64()  # of those that are

    @staticmethod
    def reopen(name: str, stored: StoredArray, n_bytes: int, file: WritableFile) -> Column:
        """An array to append to. Its last extent is read, to go on with its checksum; it has to be right."""
        column = Column(name, stored.dtype, file)
        column.n_bytes = n_bytes
        column._extents = list(stored.extents)
        column._room = stored.capacity - n_bytes
        if stored.extents:
            last = stored.extents[-1]
            for piece in column._pieces(last, last.length - column._room):
                column._hash.update(piece)
            if column._hash.intdigest() != last.checksum:
                raise StoreError(file.path, f"its array {name!r} is damaged behind byte {last.offset}")
        return column

    def __len__(self) -> int:
        return self.n_bytes // self.dtype.itemsize

    def write(self, items: Array) -> None:
        """Add items at the end."""
        data = as_bytes(np.ascontiguousarray(items, self.dtype))
        while len(data):
            if self._room == 0:
                self._open_extent()
            piece = data[: self._room]
            extent = self._extents[-1]
            self._file.write(piece, extent.end - self._room)
            self._hash.update(piece)
            self._room -= len(piece)
            self.n_bytes += len(piece)
            data = data[len(piece) :]

    def stored(self) -> StoredArray:
        """The array as the table of contents has it."""
        self._close_extent()
        return StoredArray(self.dtype, tuple(self._extents))

    def add_to_items(self, first: int, number: int) -> None:
        """Add ``number`` to all items from ``first`` on, in place: only where no reader has them yet."""
        begin = first * self.dtype.itemsize
        for i, (extent, length) in enumerate(used(self._extents, self.n_bytes)):
            if begin < length:
                self._hash = xxhash.xxh3_64()
                offset = extent.offset
                for piece in self._pieces(extent, length):
                    items = np.frombuffer(bytearray(piece), self.dtype)
                    unchanged = min(len(items), max(0, extent.offset + begin - offset) // self.dtype.itemsize)
                    items[unchanged:] += number
                    self._file.write(as_bytes(items[unchanged:]), offset + unchanged * self.dtype.itemsize)
                    self._hash.update(items.data)
                    offset += len(piece)
                self._extents[i] = Extent(extent.offset, extent.length, self._hash.intdigest())
            begin = max(0, begin - length)

    def widened(self, dtype: np.dtype[Any]) -> Column:
        """The same items in another type, in extents of their own."""
        wider = Column(self.name, dtype, self._file)
        for extent, length in used(self._extents, self.n_bytes):
            for piece in self._pieces(extent, length):
                wider.write(np.frombuffer(piece, self.dtype).astype(dtype))
        return wider

    def _pieces(self, extent: Extent, length: int) -> Iterator[bytes]:
        for begin in range(0, length, CHUNK):
            yield self._file.read(min(CHUNK, length - begin), extent.offset + begin)

    def _open_extent(self) -> None:
        self._close_extent()
        length = next_length(self.n_bytes)
        self._extents.append(Extent(self._file.allocate(length, UNIT), length, 0))
        self._room = length
        self._hash = xxhash.xxh3_64()

    def _close_extent(self) -> None:
        if self._extents:
            last = self._extents[-1]
            self._extents[-1] = Extent(last.offset, last.length, self._hash.intdigest())
