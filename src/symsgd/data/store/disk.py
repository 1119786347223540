"""How a store gets onto the disk: locks, the order of writes, and what makes a state count.

A new store is written under another name and takes its own in the end, so that whoever opens it finds all of it or
nothing. An append writes where nobody looks yet, beyond what the newest state uses, and then the superblocks. In both
cases the bytes reach the disk before the superblock that speaks of them does.
"""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from symsgd.data.store.layout import MAGIC, SUPERBLOCK_OFFSETS, UNIT, LayoutError, Superblock, round_up
from symsgd.errors import StoreError
from symsgd.files import replaceable, sync_folder


class WritableFile(ABC):
    """A file that one writer has to itself. ``end`` is where unused bytes begin."""

    def __init__(self, path: Path, descriptor: int, end: int) -> None:
        self.path = path
        self.end = end
        self._descriptor = descriptor

    def allocate(self, length: int, unit: int) -> int:
        """The offset of ``length`` fresh bytes, a multiple of ``unit``."""
        offset = round_up(self.end, unit)
        self.end = offset + length
        return offset

    def write(self, data: memoryview | bytes, offset: int) -> None:
        """All of ``data``."""
        view = memoryview(data)
        while len(view):
            count = os.pwrite(self._descriptor, view, offset)
            view, offset = view[count:], offset + count

    def read(self, length: int, offset: int) -> bytes:
        """Exactly ``length`` bytes that have been written before."""
        return read_all(self._descriptor, length, offset)

    def sync(self) -> None:
        """Returns when everything written so far is on the disk."""
        _sync(self._descriptor)

    @abstractmethod
    def commit(self, superblock: Superblock) -> None:
        """Make the state of this superblock, all of which has been synced, the one that readers find."""

    @abstractmethod
    def abandon(self) -> None:
        """Leave things as they were."""

    def close(self) -> None:
        """And let others write."""
        os.close(self._descriptor)


class NewFile(WritableFile):
    """A store in the making, under a hidden name beside its own."""

    def __init__(self, path: Path) -> None:
        self._target = Path(os.path.realpath(path))  # a link stays, and leads to the new store
        self._permissions = _replaceable_store(self._target)
        self._hidden = self._target.with_name(f".{self._target.name}.partial")
        super().__init__(path, _open_locked(self._hidden, os.O_RDWR | os.O_CREAT, path), UNIT)
        self._published = False
        try:
            os.ftruncate(self._descriptor, 0)  # what a conversion that was killed has left
        except BaseException:
            self.close()
            raise

    def commit(self, superblock: Superblock) -> None:
        for offset in SUPERBLOCK_OFFSETS:
            self.write(superblock.pack(), offset)
        if self._permissions is not None:
            os.fchmod(self._descriptor, self._permissions)
        self.sync()
        with self._nobody_appends_to_the_old():
            os.replace(self._hidden, self._target)
        self._published = True
        sync_folder(self._target.parent)

    def abandon(self) -> None:
        if not self._published:
            os.unlink(self._hidden)

    def _nobody_appends_to_the_old(self) -> AbstractContextManager[object]:
        """What is appended to the store that is about to be replaced would be lost; so wait for it, and shut it out."""
        try:
            return _closing(_open_locked(self._target, os.O_RDONLY, self.path, wait=True))
        except FileNotFoundError:
            return nullcontext()


class GrowingFile(WritableFile):
    """A store that exists and is appended to. Bytes that its newest state uses stay as they are."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _open_locked(path, os.O_RDWR, path), 0)
        self._committing = False
        try:
            self.superblock = newest_superblock(self._descriptor, path)
            self.end = self.superblock.end
            self._cut()
            self._mend()
        except BaseException:
            self.close()
            raise

    def commit(self, superblock: Superblock) -> None:
        self._committing = True
        for offset in SUPERBLOCK_OFFSETS:
            self.write(superblock.pack(), offset)
            self.sync()

    def abandon(self) -> None:
        if not self._committing:  # else one of the superblocks may already speak of the new bytes
            self._cut()

    def _cut(self) -> None:
        os.ftruncate(self._descriptor, self.superblock.end)

    def _mend(self) -> None:
        """Both superblocks must be good before one of them is written over."""
        good = self.superblock.pack()
        for offset in SUPERBLOCK_OFFSETS:
            if self.read(Superblock.SIZE, offset) != good:
                self.write(good, offset)
                self.sync()


def read_all(descriptor: int, length: int, offset: int) -> bytes:
    """``length`` bytes, fewer only at the end of the file."""
    pieces = []
    while length > 0 and (piece := os.pread(descriptor, min(length, 1 << 30), offset)):
        pieces.append(piece)
        length, offset = length - len(piece), offset + len(piece)
    return b"".join(pieces)


def newest_superblock(descriptor: int, path: Path) -> Superblock:
    """Of the newest state that is whole."""
    found: list[Superblock] = []
    problems: list[LayoutError] = []
    for offset in SUPERBLOCK_OFFSETS:
        try:
            found.append(Superblock.unpack(read_all(descriptor, Superblock.SIZE, offset)))
        except LayoutError as problem:
            problems.append(problem)
    if not found:
        raise StoreError(path, str(problems[0]))
    superblock = max(found, key=lambda known: known.generation)
    length = os.fstat(descriptor).st_size
    if length < superblock.end:
        raise StoreError(path, f"it is cut short: it has {length} bytes, and should have {superblock.end}")
    if superblock.table.end > superblock.end:
        raise StoreError(path, "its header is damaged: its table of contents would lie beyond its end")
    return superblock


def _open_locked(path: Path, flags: int, store: Path, wait: bool = False) -> int:
    """Open and lock ``path``, so that nobody else writes the store until it is closed."""
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise StoreError(store, "another process is writing it") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was renamed or replaced between opening and locking


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _replaceable_store(path: Path) -> int | None:
    """The permissions of the store that is there, if one is. A mistaken name must not cost anybody another file."""
    permissions = replaceable(path)
    if permissions is not None:
        with path.open("rb") as file:
            beginning = file.read(len(MAGIC))
        if beginning not in (b"", MAGIC):
            raise StoreError(path, "it exists and is not a store, so it is not replaced")
    return permissions


def _sync(descriptor: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync alone leaves the bytes in the drive's own memory
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
