"""CSV files, and what looks like them: any delimiter, with or without names, compressed or not."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike, fspath
from typing import IO, Any, TypeAlias

from symsgd._choices import check_count
from symsgd.data.compressed import ByteStream, open_bytes
from symsgd.data.tables.arrow import pa
from symsgd.data.tables.layout import TableOptions
from symsgd.data.tables.reader import NUMBER, TEXT, TableReader
from symsgd.errors import DataError

try:
    import pyarrow.csv as pacsv
except ImportError as error:  # a build of pyarrow without CSV
    raise ImportError("this pyarrow cannot read CSV; pip install 'symsgd[tables]'") from error

PathOrFile: TypeAlias = str | PathLike[str] | IO[bytes]

SNIFFED_BYTES = 1 << 22  # from which the types of columns are found
BATCH_BYTES = 1 << 22


class _Bytes(io.RawIOBase):
    """A stream as pyarrow reads it: what was looked at already, then the rest."""

    def __init__(self, stream: ByteStream, head: bytes = b"") -> None:
        self._stream = stream
        self._head = head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        head, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        buffer[: len(head)] = head
        return len(head) or self._stream.fill(memoryview(buffer))


class CsvSource:
    """A CSV file, or a stream of one, which can be read once."""

    empty_is_missing = True

    def __init__(self, path: PathOrFile, *, delimiter: str, header: bool, batch_bytes: int) -> None:
        self._path = path
        self._delimiter = delimiter
        self._header = header
        self._batch_bytes = batch_bytes
        self.once = path == "-" or hasattr(path, "read")
        with ExitStack() as opened:
            stream = opened.enter_context(open_bytes(path))
            self._name = stream.name
            self._compressed = bool(stream.compression)
            # twice as much, so that a row at the end of what types are found in is whole
            head = _Bytes(stream).read(2 * SNIFFED_BYTES)
            self.types: Mapping[str, Any] = self._sniff(head)
            if self.once:
                self._stream, self._head = stream, head
                opened.pop_all()

    def _sniff(self, head: bytes) -> dict[str, Any]:
        try:
            schema = self._arrow(io.BytesIO(head), SNIFFED_BYTES, pacsv.ConvertOptions(), threads=False).schema
        except pa.ArrowInvalid as error:
            raise self._explained(error) from None
        try:
            names = schema.names
        except UnicodeDecodeError:
            raise self.fail("the names of its columns are not UTF-8") from None
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise self.fail("two columns have this name", column=twice)
        # strings that are not UTF-8 look like bytes; reading them says where
        types = [pa.string() if pa.types.is_binary(kind) else kind for kind in schema.types]
        return dict(zip(names, types, strict=True))

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """The bytes from the beginning; of a stream, once."""
        if self.once:
            yield _Bytes(self._stream, self._head)
        elif self._compressed:
            with open_bytes(self._path) as stream:
                yield _Bytes(stream)
        else:
            with pa.OSFile(self._name) as file:
                yield file

    def _arrow(self, source: Any, block_size: int, convert: Any, threads: bool) -> Any:
        return pacsv.open_csv(
            source,
            read_options=pacsv.ReadOptions(
                block_size=block_size, use_threads=threads, autogenerate_column_names=not self._header
            ),
            parse_options=pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=convert,
        )

    def batches(self, wanted: Mapping[str, str]) -> Iterator[Any]:
        """Batches of the columns wanted."""
        convert = pacsv.ConvertOptions(
            include_columns=list(wanted), column_types={name: self._read_as(name, how) for name, how in wanted.items()}
        )
        try:
            with self._open() as source:
                yield from self._arrow(source, self._batch_bytes, convert, threads=not self.once)
        except pa.ArrowInvalid as error:
            raise self._explained(error if self.once else self._met_again(error, convert)) from None

    def _met_again(self, error: Exception, convert: Any) -> Exception:
        """The error as one thread meets it, which knows the row."""
        try:
            with self._open() as source:
                deque(self._arrow(source, self._batch_bytes, convert, threads=False), maxlen=0)
        except pa.ArrowInvalid as again:
            error = again
        return error

    def _read_as(self, name: str, how: str) -> Any:
        if how == NUMBER:
            return pa.bool_() if pa.types.is_boolean(self.types[name]) else pa.float64()
        return pa.string() if how == TEXT else pa.dictionary(pa.int32(), pa.string())

    def _explained(self, error: Exception) -> DataError:
        """What pyarrow says, in our words, with a line if it says which row."""
        text = str(error)
        if "Empty CSV" in text:
            return self.fail("is empty")
        if "straddl" in text:
            return self.fail(f"a row is longer than {self._batch_bytes:,} bytes; give a larger batch_bytes=")
        found = re.search(r"Row #(\d+): ", text)
        row = None if found is None else int(found[1]) - 1 - self._header
        column = re.match(r"In CSV column #(\d+): ", text)
        if column is None:
            shape = re.search(r"Expected (\d+) columns, got (\d+)", text)
            message = text if shape is None else f"has {shape[2]} columns, not {shape[1]} as the first row"
            return self.fail(message, row=row)
        value = re.search(r"invalid value '(.*)'", text, re.S)
        message = "is not UTF-8" if "UTF8" in text else text
        if value is not None:
            cure = "mend it, or name the column in categorical=, hashed=, text= or drop="
            message = f"{value[1]!r} is not a number; {cure}"
        return self.fail(message, row=row, column=list(self.types)[int(column[1])])

    def fail(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """The error of a row, counted from 0 without the names, and a column."""
        line = None if self.once or row is None else self._line(row + self._header)
        if row is not None and line is None:
            message = f"row {row + 1}: {message}"
        return DataError(self._name, line, column, message)

    def _line(self, row: int) -> int | None:
        """The line in which a row begins: cells may have several lines, and empty lines are no rows."""
        with open_bytes(self._path) as stream:
            text = io.TextIOWrapper(io.BufferedReader(_Bytes(stream)), "utf-8", errors="replace", newline="")
            begin, reader = 1, csv.reader(text, delimiter=self._delimiter)
            for cells in reader:
                if cells and not row:
                    return begin
                row -= bool(cells)
                begin = reader.line_num + 1
        return None


class CsvReader(TableReader):
    """Reads a CSV file, row after row.

    ``path`` may be a stream of bytes, or "-" for standard input, compressed or not; ``batch_bytes`` are read at a time.
    Types are found in the first four megabytes. The ``delimiter`` is a comma, or a tab in files named .tsv. Without a
    ``header`` columns are called f0, f1 and so on. ``options`` are the fields of
    :class:`symsgd.data.tables.TableOptions`.
    """

    def __init__(
        self,
        path: PathOrFile,
        *,
        delimiter: str | None = None,
        header: bool = True,
        batch_bytes: int = BATCH_BYTES,
        **options: Any,
    ) -> None:
        check_count("batch_bytes", batch_bytes)
        if delimiter is None:
            tabs = isinstance(path, str | PathLike) and ".tsv" in fspath(path)[-8:].lower()
            delimiter = "\t" if tabs else ","
        checked = TableOptions(**options)
        super().__init__(CsvSource(path, delimiter=delimiter, header=header, batch_bytes=batch_bytes), checked)
