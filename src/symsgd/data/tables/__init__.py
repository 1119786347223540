"""Tables: CSV and Parquet, whose columns become features."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import IO, TYPE_CHECKING, Any

from symsgd.data.dataset import Dataset, gather
from symsgd.data.tables.layout import TableOptions, feature_name

if TYPE_CHECKING:
    from symsgd.data.tables.csv import CsvReader
    from symsgd.data.tables.parquet import ParquetReader

__all__ = ["CsvReader", "ParquetReader", "TableOptions", "feature_name", "read_csv", "read_parquet"]


def read_csv(path: str | PathLike[str] | IO[bytes], **options: Any) -> Dataset:
    """All rows of a CSV file; the options are those of :class:`CsvReader` and the fields of :class:`TableOptions`."""
    from symsgd.data.tables.csv import CsvReader

    return gather(CsvReader(path, **options))


def read_parquet(path: str | PathLike[str], **options: Any) -> Dataset:
    """All rows of a Parquet file or a folder of them; the options are the fields of :class:`TableOptions`."""
    from symsgd.data.tables.parquet import ParquetReader

    return gather(ParquetReader(path, **options))


if not TYPE_CHECKING:  # pyarrow takes a while to import, and not everybody has it: only what reads a table asks for it

    def __getattr__(name: str) -> Any:
        module = {"CsvReader": "csv", "ParquetReader": "parquet"}.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{module}"), name)
