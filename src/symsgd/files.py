"""Files that are there whole or not at all."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

TOKEN_BYTES = 8
LONGEST_STEM = 100  # of the name meanwhile, so that it fits where the name itself does


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to (and to read back) that takes the place of ``path`` when the block ends without an error.

    Until then whoever opens ``path`` finds what was there before, also if this process is killed or the machine loses
    power. A new file gets the permissions of any new file, one that is replaced keeps its own. What writers of the same
    file that were killed have left is removed.
    """
    target = Path(os.path.realpath(path))  # a link stays, and leads to the new file
    permissions = replaceable(target)
    _sweep(target)
    meanwhile, handle = _unfinished(target)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            if permissions is not None:
                os.fchmod(file.fileno(), permissions)
            os.fsync(file.fileno())
            os.replace(meanwhile, target)  # while it is locked
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(meanwhile)
        raise
    sync_folder(target.parent)


def _unfinished(target: Path) -> tuple[Path, int]:
    """A new file beside the target, locked as long as its writer lives."""
    while True:
        meanwhile = target.with_name(f".{target.name[:LONGEST_STEM]}.{secrets.token_hex(TOKEN_BYTES)}.part")
        handle = os.open(meanwhile, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if meanwhile.exists():
            return meanwhile, handle
        os.close(handle)  # another writer has swept it away before it was locked


def _sweep(target: Path) -> None:
    """Removes the unfinished files of writers that live no longer."""
    name = re.compile(rf"\.{re.escape(target.name[:LONGEST_STEM])}\.[0-9a-f]{{{2 * TOKEN_BYTES}}}\.part")
    with suppress(OSError):
        left = [own.path for own in os.scandir(target.parent) if name.fullmatch(own.name)]
        for path in left:
            handle = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            except BlockingIOError:
                pass  # somebody is at work
            finally:
                os.close(handle)


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
