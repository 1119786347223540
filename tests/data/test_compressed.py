"""Sources of bytes: paths, standard input, file objects; compressed or not, whole or damaged."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from symsgd.data import read_svmlight
from symsgd.errors import DataError

TEXT = "".join(f"{i % 2} {i + 1}:{i}\n" for i in range(5000)).encode()
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
}


def is_whole(data: object) -> bool:
    return bool(np.array_equal(data.X.data, np.arange(5000)))  # type: ignore[attr-defined]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("compression", COMPRESS)
def test_the_bytes_decide_not_the_name(compression: str, n_threads: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_bytes(COMPRESS[compression](TEXT))
    assert is_whole(read_svmlight(path, n_threads=n_threads))
    assert is_whole(read_svmlight(str(path), n_threads=n_threads))


@pytest.mark.parametrize("compression", COMPRESS)
def test_file_objects_are_read_from_where_they_stand_and_left_open(compression: str) -> None:
    file = io.BytesIO(b"before" + COMPRESS[compression](TEXT))
    file.seek(6)
    assert is_whole(read_svmlight(file))
    assert not file.closed


@pytest.mark.parametrize("compression", COMPRESS)
def test_an_object_that_can_only_read_will_do(compression: str) -> None:
    class Dribble:
        def __init__(self, content: bytes) -> None:
            self.file = io.BytesIO(content)

        def read(self, size: int) -> bytes:
            return self.file.read(min(size, 999) if self.file.tell() else 1)

    assert is_whole(read_svmlight(Dribble(COMPRESS[compression](TEXT))))


def test_standard_input_is_a_dash() -> None:
    code = "from symsgd.data import read_svmlight; print(int(read_svmlight('-').X.sum()))"
    done = subprocess.run([sys.executable, "-c", code], input=gzip.compress(TEXT), capture_output=True, check=True)
    assert int(done.stdout) == sum(range(5000))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_named_pipes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(TEXT),))
    writer.start()
    assert is_whole(read_svmlight(path, n_threads=2))
    writer.join()


@pytest.mark.parametrize("compression", [name for name in COMPRESS if name != "none"])
def test_several_members_one_after_the_other_are_one_file(compression: str) -> None:
    half = len(TEXT) // 2
    content = COMPRESS[compression](TEXT[:half]) + COMPRESS[compression](TEXT[half:])
    assert is_whole(read_svmlight(io.BytesIO(content)))


@pytest.mark.parametrize("compression", [name for name in COMPRESS if name != "none"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_file_cut_short_is_refused(compression: str, n_threads: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    content = COMPRESS[compression](TEXT)
    for length in (10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=f"damaged {compression} data") as caught:
            read_svmlight(path, n_threads=n_threads)
        assert (caught.value.path, caught.value.line, caught.value.column) == (str(path), None, None)


@pytest.mark.parametrize("compression", [name for name in COMPRESS if name != "none"])
def test_a_damaged_file_is_refused(compression: str) -> None:
    content = bytearray(COMPRESS[compression](TEXT))
    content[len(content) // 2] ^= 0xFF
    if compression == "zstd":  # which has a checksum only where it was asked for
        content = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
        content[-1] ^= 0xFF
    with pytest.raises(DataError, match=f"damaged {compression} data"):
        read_svmlight(io.BytesIO(bytes(content)))


def test_a_file_in_text_mode_is_refused() -> None:
    with pytest.raises(TypeError, match="gives str, not bytes; open it with mode='rb'"):
        read_svmlight(io.StringIO("1 1:2"))
    with pytest.raises(TypeError, match="17 is not accepted; it must be a path, '-' or a file object"):
        read_svmlight(17)


def test_errors_of_the_system_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_svmlight(tmp_path)
