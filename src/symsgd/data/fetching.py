"""Public sets from the network, kept in a folder.

Beside a file lies its SHA-256 of the day it came (``a9a.sha256``, as ``sha256sum -c`` reads it). A file that differs
from it is damaged and downloaded again; a download that differs from it is refused.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.data.dataset import Dataset, Part, Schema, gather
from symsgd.data.registry import LIBSVM, find_file
from symsgd.data.svmlight import SvmlightReader
from symsgd.errors import DataError

logger = logging.getLogger("symsgd")

FOLDER_VARIABLE = "SYMSGD_DATA"
PATIENCE = 30  # seconds without a byte


def fetch(
    name: str,
    *,
    test: bool = False,
    folder: str | PathLike[str] | None = None,
    base_url: str = LIBSVM,
    progress: bool = False,
) -> Path:
    """The file of a public set (:data:`symsgd.data.PUBLIC_SETS`), downloaded if it is not here yet.

    Parameters
    ----------
    test
        The rows to test on, where the set has them apart.
    folder
        Where files are kept: by default what the environment says in ``SYMSGD_DATA``, else the user's cache folder.
    base_url
        Another place that has the same files in the same folders.
    progress
        Show a bar.
    """
    _, file = find_file(name, test)
    path = _folder(folder) / file.file_name
    note = path.with_name(f"{path.name}.sha256")
    noted = next(iter(note.read_text().split()), None) if note.exists() else None
    if path.exists():
        digest = _sha256(path)
        if noted is None:
            _write_note(note, digest, path)
        if noted in (None, digest):
            return path
    _download(name, f"{base_url.rstrip('/')}/{file.path}", path, noted, progress)
    if noted is None:
        _write_note(note, _sha256(path), path)
    return path


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError:
        raise ImportError("data sets are downloaded by pooch, which is not here: pip install 'symsgd[fetch]'") from None
    return pooch  # type: ignore[no-any-return]


def _folder(folder: str | PathLike[str] | None) -> Path:
    chosen = folder or os.environ.get(FOLDER_VARIABLE)
    return Path(chosen or _pooch().os_cache("symsgd"))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_note(note: Path, digest: str, path: Path) -> None:
    whole = note.with_name(f"{note.name}.{os.getpid()}")
    whole.write_text(f"{digest}  {path.name}\n")
    whole.replace(note)


def _download(name: str, url: str, path: Path, noted: str | None, progress: bool) -> None:
    """Downloads beside ``path`` and moves there what is whole."""
    pooch = _pooch()
    import requests

    with ExitStack() as opened:
        bar = opened.enter_context(_Bar(path.name)) if progress else False
        talk = pooch.get_logger()  # it advises to write the checksum into the code
        opened.callback(talk.setLevel, talk.level)
        talk.setLevel(logging.WARNING)
        logger.info("downloading %s to %s", url, path)
        get = pooch.HTTPDownloader(progressbar=bar, timeout=PATIENCE)
        try:
            pooch.retrieve(url, noted and f"sha256:{noted}", path.name, path.parent, downloader=get)
        except requests.RequestException as error:
            raise ConnectionError(
                f"{name!r} could not be downloaded from {url}: {error}. Where there is no network, bring the file "
                f"from elsewhere and put it at {path}, or set {FOLDER_VARIABLE} to the folder that has it"
            ) from error
        except ValueError as error:
            raise DataError(
                str(path),
                None,
                None,
                f"{url} now has another file than the one that came first, whose SHA-256 was {noted}; if that is as it "
                f"should be, delete {path.name}.sha256 ({error})",
            ) from None


class _Bar:
    """What pooch tells of a download, as a bar of rich."""

    def __init__(self, title: str) -> None:
        from rich import progress

        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
        )
        self._task = self._progress.add_task(title, total=None)
        self._total = 0

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, n_bytes: int) -> None:
        self._total = n_bytes
        self._progress.update(self._task, total=n_bytes or None)

    def update(self, n_bytes: int) -> None:
        self._progress.update(self._task, advance=n_bytes)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.update(self._task, completed=self._total)


class _Unpacked(io.RawIOBase):
    """A file of an archive that is read from its beginning to its end; Python's own object claims to go back too."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class PublicReader:
    """Reads a public set in bounded memory (a :class:`symsgd.data.dataset.Reader`), and checks that all of it is there.

    The arguments are those of :func:`fetch`, and ``n_threads`` and ``dtype`` of the reader of svmlight text.
    """

    def __init__(
        self,
        name: str,
        *,
        test: bool = False,
        n_threads: int | None = None,
        dtype: npt.DTypeLike = np.float32,
        **where: Any,
    ) -> None:
        self._public, self._file = find_file(name, test)
        self._path = fetch(name, test=test, **where)
        self._options: dict[str, Any] = {"n_threads": n_threads, "dtype": dtype}
        self._reader = self._open(self._path)

    def _open(self, source: Any) -> SvmlightReader:
        return SvmlightReader(source, n_features=self._public.n_features, zero_based=False, **self._options)

    def parts(self) -> Iterator[Part]:
        """The rows in order, some thousands at a time."""
        n_rows = 0
        with ExitStack() as opened:
            if self._file.member is not None:
                self._reader = self._open(self._member(opened, self._file.member))
            for part in self._reader.parts():
                n_rows += len(part.y)
                yield part
        if n_rows != self._file.n_rows:
            raise self._error(f"has {n_rows:,} rows; {self._public.name!r} has {self._file.n_rows:,}")

    def _member(self, opened: ExitStack, name: str) -> Any:
        """A file of the archive, as it is unpacked."""
        try:
            archive = opened.enter_context(tarfile.open(self._path, "r|*"))  # noqa: SIM115
            for member in archive:
                if member.name == name:
                    return _Unpacked(archive.extractfile(member))
        except (tarfile.TarError, EOFError, OSError) as error:
            raise self._error(f"is damaged: {error}") from None
        raise self._error(f"there is no {name!r} in this archive")

    def _error(self, reason: str) -> DataError:
        return DataError(str(self._path), None, None, reason)

    @property
    def schema(self) -> Schema:
        """As svmlight text, with the width of the set."""
        return self._reader.schema

    @property
    def index_shift(self) -> int:
        """That of the text."""
        return self._reader.index_shift

    @property
    def notes(self) -> list[str]:
        """Where the set comes from, and what was ignored in it."""
        return [f"{self._public.name}: {self._public.page}", *self._reader.notes]


def read_public(name: str, **options: Any) -> Dataset:
    """All rows of a public set; the options are those of :class:`PublicReader`."""
    return gather(PublicReader(name, **options))
