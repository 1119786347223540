"""Where rows come from: the only place of the command line that knows readers and stores."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from symsgd.data.dataset import Dataset, Part, Reader, Schema

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("svmlight", "vowpal", "csv", "parquet", "npz", "npy", "store")
UNTOLD = "svmlight"  # what a file is whose name and first bytes tell nothing, as those of LIBSVM's data sets
FORMAT_OF_SCHEMA = {"svmlight": "svmlight", "vowpal": "vowpal", "table": "csv"}  # of text that comes with a schema
SELF_EXPLAINING = ("store", "npz", "npy")  # they say how many features there are, and need no schema for it
SCHEMAS = {"csv": "table", "parquet": "table"}  # what a reader calls what it found out, where not by its own name
WANT_A_FILE = ("parquet", "npz", "npy", "store")  # they are mapped, or read from the end

format_option = click.option(
    "--format", type=click.Choice(FORMATS), help="Of DATA. By default its name or first bytes tell; svmlight otherwise."
)


def _columns(ctx: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [own.strip() for own in value.split(",")]


READING = [
    click.option("--label", metavar="COLUMN", help="Of a table: what is to be predicted."),
    click.option("--weight", metavar="COLUMN", help="Of a table: how much a row counts."),
    click.option("--numeric", metavar="COLUMNS", callback=_columns, help="Of a table, with commas: numbers."),
    click.option("--categorical", metavar="COLUMNS", callback=_columns, help="Of a table: a feature for each value."),
    click.option("--hashed", metavar="COLUMNS", callback=_columns, help="Of a table: values, hashed to features."),
    click.option("--text", metavar="COLUMNS", callback=_columns, help="Of a table: words, hashed to features."),
    click.option("--drop", metavar="COLUMNS", callback=_columns, help="Of a table: not used."),
    click.option(
        "--missing",
        type=click.Choice(["error", "zero", "indicator"]),
        help="Of a table: what empty cells are; zero is no feature, indicator one that says so.",
    ),
    click.option("--bits", type=click.IntRange(1, 31), help="Hashing is to 2^bits features; 18 by default."),
    click.option(
        "--quadratic", metavar="PAIRS", callback=_columns, help="Of Vowpal Wabbit's text: what to cross, as ab,cd."
    ),
]
GATHERED = (
    "format", "label", "weight", "numeric", "categorical", "hashed", "text", "drop", "missing", "bits", "quadratic",
)  # fmt: skip
NAMES = {"bits": {"csv": "hash_bits", "parquet": "hash_bits"}}  # where a reader calls an option otherwise


def reading_options(function: F) -> F:
    """``--format`` and what readers want to know, as one argument ``reading`` that has what was given."""

    @functools.wraps(function)
    def gathered(*arguments: Any, **options: Any) -> Any:
        reading = {name: value for name in GATHERED if (value := options.pop(name)) is not None}
        return function(*arguments, reading=reading, **options)

    for option in reversed([format_option, *READING]):
        gathered = option(gathered)
    return gathered  # type: ignore[return-value]


def open_source(path: str, reading: Mapping[str, Any], schema: Schema | None = None) -> Dataset:
    """All rows of a file or, for "-", standard input, read as ``schema`` says if there is one; a store is mapped."""
    check_there(path)
    from symsgd import data
    from symsgd.data.dataset import gather

    if _format(path, reading, schema) == "store":
        open_reader(path, reading)  # for what it says of options
        stored: Any = data.open(path)
        return stored  # type: ignore[no-any-return]
    return gather(open_reader(path, reading, schema))


def open_reader(path: str, reading: Mapping[str, Any], schema: Schema | None = None) -> Reader:
    """The same rows, to be read once in bounded memory."""
    check_there(path)
    from importlib import import_module

    from symsgd.data import formats

    format = _format(path, reading, schema)
    if path == "-" and format in WANT_A_FILE:
        raise click.UsageError(f"--format {format} cannot be read from standard input; save it to a file first")
    if schema is not None and format not in SELF_EXPLAINING and SCHEMAS.get(format, format) != schema.format:
        raise ValueError(f"{path} is read as {format}, but must be like the rows before, which were a {schema.format}")
    known = formats.FORMATS[format]
    options: dict[str, Any] = {}
    accepted = inspect.signature(getattr(import_module(known.module), known.reader)).parameters
    open_ended = any(own.kind is own.VAR_KEYWORD for own in accepted.values())  # tables check their options themselves
    for option, value in reading.items():
        name = NAMES.get(option, {}).get(format, option)
        if option == "format":
            continue
        if name not in accepted and not (open_ended and option != "quadratic"):
            raise click.UsageError(
                f"--{option} is nothing that {format} data could be read by; --format says it if {path} is none"
            )
        options[name] = value
    if schema is not None and format not in SELF_EXPLAINING:
        options["schema"] = schema
    return known.open(path, **options)


def without_targets(schema: Schema | None) -> Schema | None:
    """The same features, of rows whose labels and weights nobody looks at; there may be none, or others."""
    if schema is None or schema.format != "table":
        return schema
    return dataclasses.replace(schema, label_names=None, options={**schema.options, "label": None, "weight": None})


def check_there(path: str) -> None:
    """OSError, before all that takes time."""
    if path != "-":
        os.stat(path)


def _format(path: str, reading: Mapping[str, Any], schema: Schema | None) -> str:
    from symsgd.data.formats import format_of

    if "format" in reading:
        return str(reading["format"])
    told = UNTOLD if schema is None else FORMAT_OF_SCHEMA.get(schema.format, UNTOLD)
    if path == "-":
        return told
    try:
        return format_of(path)
    except ValueError:
        return told


class Stream:
    """The rows of a source some thousands at a time, in bounded memory where it is known how they are to be read."""

    def __init__(self, path: str, reading: Mapping[str, Any], schema: Schema | None = None) -> None:
        self.notes: list[str] = []  # complete when the rows have ended
        self._how = (path, reading, schema)

    def __iter__(self) -> Iterator[Dataset]:
        from symsgd.data.dataset import Dataset

        path, reading, schema = self._how
        if schema is None and _format(path, reading, schema) != "store":
            data = open_source(path, reading)  # only its end says how features count, and how many there are
            self.notes = list(data.notes)
            yield data
            return
        reader = open_reader(path, reading, schema)
        own = reader.schema if _format(path, reading, schema) == "store" else schema
        for part in reader.parts():
            own = own or reader.schema
            yield Dataset(_matrix(part, own.n_features), part.y, part.weight, own)
        self.notes = list(reader.notes)


def _matrix(part: Part, n_features: int) -> Any:
    import scipy.sparse as sp

    from symsgd.data.dataset import SparseColumns

    rows = part.rows
    if not isinstance(rows, SparseColumns):
        return rows
    return sp.csr_matrix((rows.values, rows.indices, rows.starts), shape=(len(rows), n_features))
