"""Bytes from a path, standard input or a file object, decompressed where they are compressed.

What a file holds decides, not what it is called: gzip, bzip2, xz and zstd begin with bytes of their own.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import select
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from symsgd.errors import DataError

ZSTD_INPUT_BYTES = 1 << 13  # at a time: a little of it may stand for a lot


class _ZstdFrames(io.RawIOBase):
    """Frame after frame, through the ``zstandard`` package, whose own reader takes a cut-off file for a whole one."""

    def __init__(self, file: Any) -> None:
        import zstandard

        self._decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
        self._file = file
        self._frame: Any = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._output:
            if not self._input:
                self._input = self._file.read(ZSTD_INPUT_BYTES)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("the file ends before its last frame does")
                return 0
            if self._frame is None:
                self._frame = self._decompressor.decompressobj()
            self._output = memoryview(self._frame.decompress(self._input))
            self._input = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
        n = min(len(buffer), len(self._output))
        buffer[:n] = self._output[:n]
        self._output = self._output[n:]
        return n


def _open_zstd(file: Any) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14
    except ImportError:
        return _ZstdFrames(file)
    return zstd.ZstdFile(file)


COMPRESSIONS: Mapping[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("zstd", _open_zstd),
}
LONGEST_MAGIC = max(map(len, COMPRESSIONS))


class _Resumed(io.RawIOBase):
    """Bytes that were read from a file to look at them, then the rest of it."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head = head
        self._file = file

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._file.fileno())

    def readinto(self, buffer: Any, /) -> int:
        read = getattr(self._file, "read1", self._file.read)  # what there is, not all that there will be
        data = self._head[: len(buffer)] if self._head else read(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


class ByteStream:
    """The bytes of a source, in order. ``name`` is what messages call it."""

    def __init__(self, name: str, compression: str, file: Any, waits: bool) -> None:
        self.name = name
        self.compression = compression
        self.waits = waits  # for somebody to write: a pipe, a terminal
        self._file = file

    def fill(self, buffer: memoryview) -> int:
        """Reads until the buffer is full or the source ends; how many bytes there were."""
        return self._read(buffer, lambda: True)

    def some(self, buffer: memoryview) -> int:
        """As :meth:`fill`, but does not wait for more while there are some; 0 only at the end."""
        return self._read(buffer, self._has_more if self.waits else lambda: True)

    def _has_more(self) -> bool:
        """Whether there is something to read now; also if that cannot be told."""
        try:
            return bool(select.select([self._file], [], [], 0)[0])
        except (AttributeError, OSError, ValueError, TypeError):  # nothing of the system's, or nothing it can look at
            return True

    def _read(self, buffer: memoryview, goes_on: Callable[[], bool]) -> int:
        filled = 0
        while filled < len(buffer) and (filled == 0 or goes_on()):
            try:
                n = self._file.readinto(buffer[filled:])
            except Exception as error:
                if not self.compression or not _is_damage(error):
                    raise
                raise DataError(self.name, None, None, f"damaged {self.compression} data: {error}") from None
            if not n:
                break
            filled += n
        return filled


def _is_damage(error: Exception) -> bool:
    # an OSError with a number is the system's; without one it is what gzip and bz2 say of the data
    system = isinstance(error, OSError) and error.errno is not None
    kinds = (EOFError, OSError, zlib.error, lzma.LZMAError)
    return not system and (isinstance(error, kinds) or type(error).__name__ == "ZstdError")


@contextmanager
def open_bytes(source: object) -> Iterator[ByteStream]:
    """Opens a path, ``"-"`` (standard input) or a binary file object; of these only what it opened is closed."""
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        yield _decompressed(source, name if isinstance(name, str) else f"<{type(source).__name__}>")
    elif source == "-":
        yield _decompressed(sys.stdin.buffer, "<stdin>")
    elif isinstance(source, str | os.PathLike):
        with open(source, "rb", buffering=0) as file:
            yield _decompressed(file, os.fspath(source))
    else:
        raise TypeError(f"{source!r} is not accepted; it must be a path, '-' or a file object opened for bytes")


def _decompressed(file: Any, name: str) -> ByteStream:
    head = b""
    while len(head) < LONGEST_MAGIC:
        data = file.read(LONGEST_MAGIC - len(head))
        if not isinstance(data, bytes):
            raise TypeError(f"{name} gives {type(data).__name__}, not bytes; open it with mode='rb'")
        if not data:
            break
        head += data
    seekable = bool(getattr(file, "seekable", lambda: False)())
    if seekable:
        file.seek(-len(head), os.SEEK_CUR)
        head_again = b""
    else:
        head_again = head
    for magic, (compression, decompress) in COMPRESSIONS.items():
        if head.startswith(magic):
            try:
                opened = decompress(io.BufferedReader(_Resumed(head_again, file)))  # which it may close; not the file
            except ImportError as error:
                reason = f"is compressed by {compression}, and {error}; pip install 'symsgd[zstd]'"
                raise DataError(name, None, None, reason) from None
            return ByteStream(name, compression, opened, not seekable)
    direct = seekable and hasattr(file, "readinto")
    return ByteStream(name, "", file if direct else _Resumed(head_again, file), not seekable)
