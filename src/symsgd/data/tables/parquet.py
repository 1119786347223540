"""Parquet files, and folders of them as Spark writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from symsgd._choices import check_count
from symsgd.data.tables.arrow import pa
from symsgd.data.tables.layout import TableOptions
from symsgd.data.tables.reader import NAME, TableReader
from symsgd.errors import DataError

try:
    import pyarrow.parquet as pq
except ImportError as error:  # a build of pyarrow without Parquet
    raise ImportError("this pyarrow cannot read Parquet; pip install 'symsgd[tables]'") from error

BATCH_ROWS = 1 << 15
# what pyarrow raises of files that are not whole: its own errors, and those of Python's that their numbers and names
# run into
DAMAGE = (pa.ArrowException, ValueError, KeyError, OverflowError, OSError)


class ParquetSource:
    """A Parquet file, or a folder of them in the order of their names."""

    empty_is_missing = False
    once = False

    def __init__(self, path: str | PathLike[str], *, batch_rows: int) -> None:
        if str(path) == "-":
            raise ValueError("path='-' is not accepted: a Parquet file is read from its end; save it to a file first")
        self.path = Path(path)
        self._batch_rows = batch_rows
        self._files = self._found()
        with self._open(self._files[0]) as first:
            names, types = _columns(self._files[0], first)
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise self.fail("two columns have this name", column=twice)
        self.types: Mapping[str, Any] = dict(zip(names, types, strict=True))

    def _found(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        # "_SUCCESS", "_metadata" and ".crc" files lie beside the data
        files = [
            file
            for file in sorted(self.path.rglob("*.parquet"))
            if not any(part.startswith(("_", ".")) for part in file.relative_to(self.path).parts)
        ]
        if not files:
            raise self.fail("there is no .parquet file in this folder")
        return files

    def _open(self, file: Path, read_dictionary: list[str] | None = None) -> Any:
        try:
            return pq.ParquetFile(file, read_dictionary=read_dictionary, memory_map=True)
        except DAMAGE as error:
            raise _damage(file, error) from None

    def batches(self, wanted: Mapping[str, str]) -> Iterator[Any]:
        """Batches of the columns wanted."""
        names = [name for name, how in wanted.items() if how == NAME and pa.types.is_string(self.types[name])]
        for file in self._files:
            with self._open(file, names) as table:
                there, _ = _columns(file, table)
                absent = [name for name in wanted if name not in there]
                if absent:
                    raise DataError(str(file), None, absent[0], "this file of the folder does not have it")
                try:
                    for batch in table.iter_batches(self._batch_rows, columns=list(wanted)):
                        batch.validate(full=True)  # strings that are not UTF-8, among others
                        yield batch
                except DAMAGE as error:
                    raise _damage(file, error) from None

    def fail(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """The error of a row, counted from 0, and a column."""
        return DataError(str(self.path), None, column, message if row is None else f"row {row + 1}: {message}")


def _columns(file: Path, table: Any) -> tuple[list[str], list[Any]]:
    """Names and types."""
    try:
        schema = table.schema_arrow
        return schema.names, schema.types
    except DAMAGE as error:
        raise _damage(file, error) from None


def _damage(file: Path, error: Exception) -> Exception:
    # an OSError with a number is the system's; without one it is what pyarrow says of the data
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return DataError(str(file), None, None, f"is not a whole Parquet file: {error}")


class ParquetReader(TableReader):
    """Reads a Parquet file, or a folder of them, ``batch_rows`` rows at a time.

    ``options`` are the fields of :class:`symsgd.data.tables.TableOptions`.
    """

    def __init__(self, path: str | PathLike[str], *, batch_rows: int = BATCH_ROWS, **options: Any) -> None:
        check_count("batch_rows", batch_rows)
        checked = TableOptions(**options)
        super().__init__(ParquetSource(path, batch_rows=batch_rows), checked)
