"""Extents of a file as one array: in order, whatever their order in the file; and nothing that would be a bus error."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from symsgd import _core

PAGE = resource.getpagesize()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """Eight and a half pages of random bytes."""
    (tmp_path / "file").write_bytes(np.random.default_rng(0).bytes(8 * PAGE + PAGE // 2))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_any_pieces_in_any_order(file: int) -> None:
    whole = os.pread(file, 9 * PAGE, 0)
    rng = np.random.default_rng(1)
    for _ in range(200):
        pages = [(int(first), int(rng.integers(1, 9 - first))) for first in rng.integers(0, 8, rng.integers(1, 6))]
        extents = [(first * PAGE, length * PAGE) for first, length in pages]
        last = (8 * PAGE, int(rng.integers(1, PAGE // 2 + 1)))  # the last may end within a page
        expected = b"".join(whole[offset : offset + length] for offset, length in [*extents, last])
        mapping = _core.Mapping(file, [*extents, last])
        assert bytes(memoryview(mapping)) == expected


def test_nothing_is_an_empty_array(file: int) -> None:
    assert np.frombuffer(_core.Mapping(file, []), np.float32).shape == (0,)


def test_it_is_read_only(file: int) -> None:
    array = np.frombuffer(_core.Mapping(file, [(0, PAGE)]), np.uint8)
    assert memoryview(_core.Mapping(file, [(0, PAGE)])).readonly
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True


@pytest.mark.parametrize(
    ("extents", "reason"),
    [
        ([(0, 9 * PAGE)], "extent 0 ends beyond the end of the file"),
        ([(9 * PAGE, 1)], "extent 0 ends beyond the end of the file"),
        ([(0, PAGE), (8 * PAGE, PAGE)], "extent 1 ends beyond the end of the file"),
        ([(0, 2**63 - 1)], "extent 0 ends beyond the end of the file"),
        ([(2**63 - 1, 1)], "extent 0 ends beyond the end of the file"),
        ([(-PAGE, PAGE)], "extent 0 has a negative offset or no length"),
        ([(0, 0)], "extent 0 has a negative offset or no length"),
        ([(0, -1)], "extent 0 has a negative offset or no length"),
        ([(1, PAGE)], "extent 0 does not begin on a page"),
        ([(0, 1), (0, PAGE)], "extent 0 does not end on a page"),
    ],
)
def test_what_cannot_be_mapped_is_refused(file: int, extents: list[tuple[int, int]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _core.Mapping(file, extents)


def test_what_the_system_refuses_is_what_it_says(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        _core.Mapping(-1, [(0, PAGE)])
    assert caught.value.errno == errno.EBADF
    path = tmp_path / "write only"
    path.write_bytes(bytes(PAGE))
    descriptor = os.open(path, os.O_WRONLY)
    with pytest.raises(PermissionError):
        _core.Mapping(descriptor, [(0, PAGE)])
    os.close(descriptor)


def test_advice_beyond_its_ends_is_cut(file: int) -> None:
    mapping = _core.Mapping(file, [(0, PAGE), (4 * PAGE, 2 * PAGE)])
    before = bytes(memoryview(mapping))
    for begin, end in ((0, 10**12), (PAGE + 1, PAGE + 2), (5, 5), (7, 3), (10**12, 10**13)):
        mapping.advise(begin, end, True)
        mapping.advise(begin, end, False)
    assert bytes(memoryview(mapping)) == before
