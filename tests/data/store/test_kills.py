"""Kills and power cuts: nothing that opens is wrong, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store_cases import assert_holds, source, together, weighted, write
from symsgd.data.dataset import gather
from symsgd.data.store import disk, open_store
from symsgd.errors import StoreError

OLD, NEW = source(0, [30, 2000]), weighted(source(1, [2500, 40]), [False, True])  # more than the extents have room for


class Killed(BaseException):
    """Not an Exception: nothing may catch it and go on."""


class MortalOs:
    """``os`` that carries out ``n_steps`` changes, half of the next one if it is a write, and then nothing any more."""

    def __init__(self, n_steps: int) -> None:
        self.left = n_steps

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _step(self) -> None:
        if self.left <= 0:
            self.left = -1
            raise Killed
        self.left -= 1

    def pwrite(self, file: int, data: memoryview, offset: int) -> int:
        if self.left == 0:
            os.pwrite(file, data[: len(data) // 2], offset)
        self._step()
        return os.pwrite(file, data, offset)

    def fsync(self, file: int) -> None:
        self._step()

    def ftruncate(self, file: int, length: int) -> None:
        self._step()
        os.ftruncate(file, length)

    def replace(self, source: Path, target: Path) -> None:
        self._step()
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        self._step()
        os.unlink(path)


def killed_at_every_step(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> Iterator[bool]:
    """Runs ``act`` with one more step each time, until it ends by itself: yields whether it did."""
    for n_steps in range(10_000):
        monkeypatch.setattr(disk, "os", MortalOs(n_steps))
        try:
            act()
            ended = True
        except Killed:
            ended = False
        monkeypatch.setattr(disk, "os", os)
        yield ended
        if ended:
            return


def test_a_conversion_killed_at_any_step_leaves_nothing_or_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, states = tmp_path / "rows.store", set()
    for ended in killed_at_every_step(monkeypatch, lambda: write(path, NEW)):
        for file in tmp_path.iterdir():
            try:
                assert_holds(open_store(file), gather(NEW))
            except StoreError:
                assert file != path
        states.add((ended, path.exists()))
        path.unlink(missing_ok=True)
    assert (False, False) in states
    assert (True, True) in states
    assert (True, False) not in states


def test_a_conversion_in_place_of_another_store_leaves_the_one_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.store"
    for ended in killed_at_every_step(monkeypatch, lambda: write(path, NEW)):
        store = open_store(path) if path.exists() else None
        if store is not None:
            assert len(store) in (len(gather(OLD)), len(gather(NEW)))
            assert_holds(store, gather(NEW if len(store) == len(gather(NEW)) else OLD))
        assert not ended or len(store or ()) == len(gather(NEW))
        write(path, OLD)


def test_an_append_killed_at_any_step_leaves_the_old_rows_or_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, both, seen = tmp_path / "rows.store", gather(together(OLD, NEW)), set()
    write(path, OLD)
    before = path.read_bytes()
    reader = open_store(path)
    for ended in killed_at_every_step(monkeypatch, lambda: write(path, NEW, append=True)):
        store = open_store(path)
        whole = len(store) == len(both)
        assert_holds(store, both if whole else gather(OLD))
        assert_holds(reader, gather(OLD))  # opened before the append
        assert whole or not ended
        seen.add((ended, whole))
        if not ended:  # the next writer goes on from there
            write(path, source(2, [5]), append=True)
            assert len(open_store(path)) == len(store) + 5
        path.write_bytes(before)
        reader = open_store(path)
    assert seen == {(False, False), (False, True), (True, True)}


@dataclass(frozen=True)
class Change:
    """What was done to the file; ``data`` None: everything before it is on the disk from now on."""

    offset: int = 0
    data: bytes | None = None


class RecordingOs:
    """``os`` that keeps what is written to the one file that is written to."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, file: int, data: memoryview, offset: int) -> int:
        self.changes.append(Change(offset, bytes(data)))
        return os.pwrite(file, data, offset)

    def fsync(self, file: int) -> None:
        self.changes.append(Change())


SECTOR = 512


def after_power_cut(before: bytes, changes: list[Change], rng: np.random.Generator) -> bytes:
    """What a disk may hold: all that was synced, and of what was not each sector or not."""
    synced = max((i for i, change in enumerate(changes) if change.data is None), default=-1)
    data = bytearray(before)
    for i, change in enumerate(changes):
        if change.data is None:
            continue
        data.extend(bytes(max(0, change.offset + len(change.data) - len(data))))
        at = change.offset
        while at < change.offset + len(change.data):
            end = min((at // SECTOR + 1) * SECTOR, change.offset + len(change.data))
            if i < synced or rng.random() < 0.5:
                data[at:end] = change.data[at - change.offset : end - change.offset]
            at = end
    return bytes(data)


@pytest.mark.parametrize("append", [True, False])
def test_a_power_cut_at_any_moment_leaves_a_state_that_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append: bool
) -> None:
    path, cut = tmp_path / "rows.store", tmp_path / "cut.store"
    if append:
        write(path, OLD)
    before = path.read_bytes() if append else b""
    recorder = RecordingOs()
    monkeypatch.setattr(disk, "os", recorder)
    write(path, NEW, append=append)
    monkeypatch.setattr(disk, "os", os)
    changes, new = recorder.changes, gather(together(OLD, NEW) if append else NEW)
    assert sum(change.data is None for change in changes) >= (3 if append else 2)
    rng, lengths = np.random.default_rng(0), set()
    for length in range(len(changes) + 1):
        for _ in range(4):
            cut.write_bytes(after_power_cut(before, changes[:length], rng))
            try:
                store = open_store(cut)
            except StoreError:
                assert not append  # under its hidden name, that is
                continue
            lengths.add(len(store))
            assert_holds(store, new if len(store) == len(new) else gather(OLD))
    assert len(store) == len(new)
    assert lengths == ({len(gather(OLD)), len(new)} if append else {len(new)})


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_processes_killed_at_random_moments_lose_nothing_that_they_said_was_there() -> None:
    script = Path(__file__).parents[2] / "kill_store.py"
    done = subprocess.run([sys.executable, str(script), "20"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "20 kills" in done.stdout
