"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from symsgd.files import written_whole


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with written_whole(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_on_the_way_leaves_everything_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        with written_whole(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_left_is_removed_and_one_at_work_is_left_alone(tmp_path: Path) -> None:
    path, left = tmp_path / "file", tmp_path / ".file.0123456789abcdef.part"
    others = {".file.part", ".file.b.0123456789abcdef.part", ".other.0123456789abcdef.part"}
    for name in others:
        (tmp_path / name).touch()
    left.touch()
    with written_whole(path) as file:
        file.write(b"first")
        assert not left.exists()
        with written_whole(path) as other:
            other.write(b"second")
    assert path.read_bytes() == b"first"  # the last to end
    assert set(os.listdir(tmp_path)) == others | {"file"}


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with written_whole(tmp_path / "whole"):
        pass
    assert stat.S_IMODE((tmp_path / "whole").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"), written_whole(tmp_path / "pipe"):
        pass
    with pytest.raises(IsADirectoryError, match="is a folder"), written_whole(tmp_path):
        pass
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "no" / "file"):
        pass
    assert os.listdir(tmp_path) == ["pipe"]


def test_the_longest_name_a_file_can_have(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    with written_whole(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
