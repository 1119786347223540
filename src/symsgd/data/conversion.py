"""Any source into a store, in one pass."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy.typing as npt

from symsgd.data.dataset import Reader
from symsgd.data.formats import Source, reader_for
from symsgd.data.store import Store, StoreWriter, open_store
from symsgd.errors import StoreError


def convert(
    source: Source,
    out: str | PathLike[str],
    *,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
    **options: Any,
) -> Store:
    """Write ``source`` to a new store ``out`` and open it.

    ``source`` is a file, a reader, a data set or a store. The format of a file follows from its name or its first
    bytes, or is given; ``options`` are those of its reader. ``dtype`` is that of the values, by default as they are
    read.

    ``out`` appears when all of it is there, and takes the place of a store of that name; a file of another kind is not
    replaced. If the conversion fails or is killed, everything is as it was.
    """
    if isinstance(source, str | PathLike) and Path(out).exists() and Path(source).samefile(out):
        raise StoreError(out, "it cannot be converted to itself")
    if isinstance(source, str | PathLike) and dtype is not None:
        options["dtype"] = dtype
    reader = reader_for(source, format=format, **options)
    with StoreWriter(out, dtype=dtype) as writer:
        _write(reader, writer)
    return open_store(out)


def append(
    path: str | PathLike[str],
    source: Source,
    *,
    format: str | None = None,
    **options: Any,
) -> Store:
    """Add the rows of ``source`` to the end of the store ``path`` and open it.

    A file is read as those before it were: with the schema of the store, and its type. Rows that mean something else
    are refused. Processes that have the store open keep what they have; those that open it later find all new rows or
    none. One process may append at a time.
    """
    with StoreWriter(path, append=True) as writer:
        if isinstance(source, str | PathLike):
            options = {"schema": writer.schema, "dtype": writer.dtype, **options}
        _write(reader_for(source, format=format, **options), writer)
    return open_store(path)


def _write(reader: Reader, writer: StoreWriter) -> None:
    for part in reader.parts():
        writer.add(part)
    writer.commit(reader.schema, index_shift=reader.index_shift, notes=reader.notes)
