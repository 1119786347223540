"""What the readers of text share: chunks that end where lines do, read while the chunk before is parsed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd import _core
from symsgd.data.compressed import ByteStream
from symsgd.data.dataset import Part, SparseColumns
from symsgd.errors import DataError

CHUNK_BYTES = 1 << 23
PIECE_BYTES = 1 << 19  # that a thread parses at a time; parts of this size stay in its cache

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any] | None, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def line_chunks(stream: ByteStream, n_threads: int) -> Iterator[memoryview]:
    """Whole lines, about ``CHUNK_BYTES`` at a time; the last may lack its line end. Each is there until the next is.

    Where somebody writes them meanwhile, those that are there are not kept waiting for more.

    With more than one thread the next chunk is read and decompressed in the meantime, unless that means to wait for
    somebody to write it.
    """
    chunks = _chunks(stream)
    return chunks if n_threads == 1 or stream.waits else _ahead(chunks)


def _chunks(stream: ByteStream) -> Iterator[memoryview]:
    rest = bytearray()  # of a line that the last chunk did not end
    buffer, other = bytearray(), bytearray()  # one is parsed while the other is filled
    while True:
        buffer, other = other, buffer
        if len(buffer) < max(CHUNK_BYTES, 2 * len(rest)):
            buffer = bytearray(max(CHUNK_BYTES, 2 * len(rest)))
        buffer[: len(rest)] = rest
        filled = len(rest) + stream.some(memoryview(buffer)[len(rest) :])
        if filled == len(rest):
            if filled:
                yield memoryview(buffer)[:filled]
            return
        end = buffer.rfind(b"\n", len(rest), filled) + 1
        if end:
            yield memoryview(buffer)[:end]
        rest = buffer[end:filled]


def _ahead(chunks: Iterator[memoryview]) -> Iterator[memoryview]:
    with ThreadPoolExecutor(1, thread_name_prefix="symsgd-read") as reader:
        coming = reader.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = reader.submit(next, chunks, None)
            yield chunk


def part_of(arrays: Arrays) -> Part:
    """Arrays of the core as rows."""
    y, weight, starts, indices, values = arrays
    return Part(SparseColumns(starts, indices, values), y, weight)


def raise_error(error: _core.TextError | None, path: str, lines_before: int) -> None:
    """Says what the core found wrong, if anything."""
    if error is not None:
        raise DataError(path, lines_before + error.line, error.column, error.reason)


def rows_have(count: int) -> str:
    """The beginning of a note on so many rows."""
    return "1 row has" if count == 1 else f"{count:,} rows have"


def check_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """float32 or float64."""
    checked = np.dtype(dtype)
    if checked not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} is not accepted; it must be float32 or float64")
    return checked
