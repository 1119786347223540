"""Arrays in .npy and .npz files, from beginning to end: mapped where the file allows it, else read in parts.

Nothing is unpickled, ever: arrays of Python objects are refused.
"""

from __future__ import annotations

import errno
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from symsgd.errors import DataError

Array = npt.NDArray[Any]


class Items(Protocol):
    """An array that is taken piece after piece along its first axis; a number alone is an array of one."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def take(self, count: int) -> Array:
        """The next ``count`` items."""
        ...


class HeldItems:
    """An array in memory, or mapped."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._taken = 0
        self.shape = array.shape
        self.dtype = array.dtype

    def take(self, count: int) -> Array:
        self._taken += count
        return self._array[self._taken - count : self._taken]


class StreamedItems:
    """An array that comes out of a decompressor."""

    def __init__(self, path: Path, stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._path = path
        self._stream = stream
        self.shape = shape
        self.dtype = dtype

    def take(self, count: int) -> Array:
        shape = (count, *self.shape[1:])
        n_bytes = self.dtype.itemsize * int(np.prod(shape))
        with _damage_named(self._path):
            data = self._stream.read(n_bytes)
        if len(data) < n_bytes:
            raise DataError(str(self._path), None, None, "ends before its arrays do")
        return np.frombuffer(data, self.dtype).reshape(shape)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    # damage shows in many ways: NumPy evaluates headers as Python, archives have lengths and names
    try:
        yield
    except Exception as error:
        if isinstance(error, DataError) or (isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)):
            raise
        raise DataError(str(path), None, None, f"cannot be read as NumPy writes it: {error}") from None


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format, which only arrays with named fields need")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, and unpickling them would run whatever code they bring")
    return shape or (1,), by_columns, dtype


def open_npy(path: Path) -> Items:
    """The array of a .npy file, mapped."""
    with _damage_named(path), path.open("rb") as stream:
        return _mapped(path, stream, 0)


def _mapped(path: Path, stream: IO[bytes], begin: int) -> Items:
    stream.seek(begin)
    shape, by_columns, dtype = _header(stream)
    if not np.prod(shape):
        return HeldItems(np.zeros(shape, dtype))
    order: Any = "F" if by_columns else "C"
    return HeldItems(np.memmap(path, dtype, "r", stream.tell(), shape, order))


@contextmanager
def open_npz(path: Path) -> Iterator[Mapping[str, Callable[[], Items]]]:
    """The arrays of a .npz file by their names; call one to open it."""
    with _damage_named(path):
        archive = zipfile.ZipFile(path)
    with archive:
        yield {
            info.filename.removesuffix(".npy"): lambda info=info: _member(path, archive, info)  # type: ignore[misc]
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Items:
    with _damage_named(path):
        if info.compress_type == zipfile.ZIP_STORED:
            with path.open("rb") as stream:
                stream.seek(info.header_offset + 26)  # behind the header of the member: its name and an extra field
                name_length, extra_length = struct.unpack("<HH", stream.read(4))
                return _mapped(path, stream, info.header_offset + 30 + name_length + extra_length)
        member = archive.open(info)
        shape, by_columns, dtype = _header(member)
        if by_columns and len(shape) > 1:  # rows are not together: there is no taking them piece by piece
            data = np.frombuffer(member.read(), dtype)
            return HeldItems(data.reshape(shape, order="F"))
        return StreamedItems(path, member, shape, dtype)
