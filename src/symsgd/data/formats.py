"""Which reader reads a file: by its name, or by its first bytes where they tell.

A reader's module is imported when one of its files is opened, so that nobody needs the packages of formats that they do
not use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy.typing as npt

from symsgd.data.dataset import Dataset, DatasetReader, Reader, Schema
from symsgd.data.store import Store, open_store
from symsgd.data.store.layout import MAGIC

Source = str | PathLike[str] | Reader | Dataset | Store

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True)
class Format:
    """A format of files: its reader, its suffixes, and the bytes it begins with where those give it away."""

    module: str
    reader: str
    suffixes: tuple[str, ...]
    magic: bytes | None = None

    def open(self, path: str | PathLike[str], **options: Any) -> Reader:
        """Its reader of the file ``path``."""
        make: Callable[..., Reader] = getattr(import_module(self.module), self.reader)
        return make(path, **options)


FORMATS = {
    "svmlight": Format("symsgd.data.svmlight", "SvmlightReader", (".svm", ".svmlight", ".libsvm", ".txt")),
    "vowpal": Format("symsgd.data.vowpal", "VowpalReader", (".vw",)),
    "csv": Format("symsgd.data.tables", "CsvReader", (".csv", ".tsv")),
    "parquet": Format("symsgd.data.tables", "ParquetReader", (".parquet", ".pq"), b"PAR1"),
    "npz": Format("symsgd.data.matrices", "MatrixReader", (".npz",), b"PK\x03\x04"),
    "npy": Format("symsgd.data.matrices", "MatrixReader", (".npy",), b"\x93NUMPY"),
    "store": Format("symsgd.data.formats", "StoreReader", (".store", ".symsgd"), MAGIC),
}


class StoreReader(DatasetReader):
    """A store as a reader gives it: to write it anew, say, without the gaps that many appends have left.

    It knows what its rows mean and gives them as they are, so it has no use for a ``schema`` or a ``dtype``.
    """

    def __init__(
        self, path: str | PathLike[str], *, schema: Schema | None = None, dtype: npt.DTypeLike | None = None
    ) -> None:
        super().__init__(open_store(path))


def reader_for(source: Source, *, format: str | None = None, **options: Any) -> Reader:
    """The reader of a file, with that reader's own ``options``; or of a data set, a store, a reader itself."""
    if isinstance(source, Dataset | Store):
        return DatasetReader(source)
    if not isinstance(source, str | PathLike):
        return source
    return FORMATS[format_of(source) if format is None else _known(format)].open(source, **options)


def format_of(path: str | PathLike[str]) -> str:
    """The name of the format of a file; ValueError if neither its name nor its first bytes tell."""
    name = Path(path).name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    for known, format in FORMATS.items():
        if name.endswith(format.suffixes):
            return known
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            beginning = file.read(8)
        for known, format in FORMATS.items():
            if format.magic is not None and beginning.startswith(format.magic):
                return known
    suffixes = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
    raise ValueError(
        f"{fspath(path)!r} does not say what format it has; known are the suffixes {suffixes}, also followed by one of "
        f"{', '.join(COMPRESSED)}; or say format=, one of {_names()}"
    )


def _known(format: str) -> str:
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is not known; accepted are {_names()}")
    return format


def _names() -> str:
    return ", ".join(repr(name) for name in FORMATS)
