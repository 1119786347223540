"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

LONGEST_STEM = 100  # of the name meanwhile, so that it fits where the name itself does


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to (and to read back) that takes the place of ``path`` when the block ends without an error.

    Until then whoever opens ``path`` finds what was there before, also if this process is killed or the machine loses
    power. A new file gets the permissions of any new file, one that is replaced keeps its own.
    """
    target = Path(os.path.realpath(path))  # a link stays, and leads to the new file
    permissions = replaceable(target)
    meanwhile = target.with_name(f".{target.name[:LONGEST_STEM]}.{secrets.token_hex(8)}.part")
    handle = os.open(meanwhile, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            if permissions is not None:
                os.fchmod(file.fileno(), permissions)
            os.fsync(file.fileno())
        os.replace(meanwhile, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(meanwhile)
        raise
    sync_folder(target.parent)


def replaceable(target: Path) -> int | None:
    """The permissions of the file that is there, if there is one and it may be replaced."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{target} is not a regular file, and would be replaced by one")
    return stat.S_IMODE(mode)


def sync_folder(folder: Path) -> None:
    """Makes the new name last too; not every file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
