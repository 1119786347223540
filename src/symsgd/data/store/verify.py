"""Whether the rows of a store are the ones that were written.

Every extent is compared with its checksum, on several threads. On the way, while a piece is in the cache, the two
things that the core trusts are checked as well: that starts ascend and that every index is that of a feature. So a file
whose checksums were made to fit can hold wrong numbers, but none that lead out of bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from symsgd.data.store.layout import Extent, Table, used
from symsgd.errors import StoreError

Array = npt.NDArray[Any]

PIECE = 1 << 18  # bytes: stays in a core's own cache between the checksum and the other checks


@dataclass(frozen=True)
class _Stretch:
    """The bytes of an array that one extent holds."""

    name: str
    extent: Extent
    begin: int
    end: int


def verify_arrays(
    table: Table,
    arrays: Mapping[str, Array],
    path: Path,
    n_threads: int,
    spans: Mapping[str, tuple[int, int]] | None = None,
    known: set[int] | None = None,
) -> None:
    """StoreError for the first extent, in the order of the arrays, that is not as it was written.

    ``spans`` are the bytes of each array that count, if not all do: extents that have none of them are passed over. So
    are those in ``known``, by their offset, which those that pass are added to.
    """
    stretches = []
    for name, stored in table.arrays.items():
        begin = 0
        first, last = (0, table.n_bytes(name)) if spans is None else spans.get(name, (0, 0))
        for extent, length in used(stored.extents, table.n_bytes(name)):
            if begin < last and begin + length > first and extent.offset not in (known or ()):
                stretches.append(_Stretch(name, extent, begin, begin + length))
            begin += length

    def problem(stretch: _Stretch) -> str | None:
        return _problem(stretch, arrays[stretch.name], table)

    pool = ThreadPoolExecutor(n_threads)
    try:
        for stretch, found in zip(stretches, pool.map(problem, stretches), strict=True):
            if found is not None:
                where = f"bytes {stretch.extent.offset} to {stretch.extent.offset + stretch.end - stretch.begin}"
                raise StoreError(path, f"its array {stretch.name!r} is damaged: {found} ({where} of the file)")
    finally:
        pool.shutdown(cancel_futures=True)  # after damage or Ctrl-C nobody waits for the rest
    if known is not None:
        known.update(stretch.extent.offset for stretch in stretches)


def _problem(stretch: _Stretch, array: Array, table: Table) -> str | None:
    hasher, trusted = xxhash.xxh3_64(), True
    size = array.dtype.itemsize
    for begin in range(stretch.begin, stretch.end, PIECE):
        first, last = begin // size, min(begin + PIECE, stretch.end) // size
        piece = array[first:last]
        hasher.update(piece.data)
        if stretch.name == "starts":
            starts = array[max(0, first - 1) : last]
            trusted &= bool((starts[1:] >= starts[:-1]).all())
        elif stretch.name == "indices":
            unsigned = piece.view(np.dtype(f"<u{size}"))  # a negative index is a very large one
            trusted &= int(unsigned.max()) < table.n_features
    if hasher.intdigest() != stretch.extent.checksum:
        return "its bytes are not those that were written"
    if not trusted:
        return "starts decrease" if stretch.name == "starts" else f"an index is not below {table.n_features}"
    return None
