"""Which column of a file is of which kind, by its type where nobody says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from symsgd.data.tables.arrow import pa
from symsgd.data.tables.layout import KINDS, Layout, TableOptions, from_schema
from symsgd.errors import DataError


class Fail(Protocol):
    """Makes the error of a source, from a message, a row counted from 0, and a column."""

    def __call__(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError: ...


def is_number(kind: Any) -> bool:
    """Whether an Arrow type has numbers or truth values."""
    types = pa.types
    return any((types.is_boolean(kind), types.is_integer(kind), types.is_floating(kind), types.is_decimal(kind)))


def is_name(kind: Any) -> bool:
    """Whether an Arrow type has strings or categories."""
    types = pa.types
    return any((types.is_string(kind), types.is_large_string(kind), _is_view(kind), types.is_dictionary(kind)))


def _is_view(kind: Any) -> bool:
    return bool(getattr(pa.types, "is_string_view", lambda _: False)(kind))


def decide(types: Mapping[str, Any], options: TableOptions, fail: Fail) -> Layout:
    """The layout of a file whose columns have these types. ``fail`` makes the error, from a message and a column."""
    if options.schema is not None:
        layout, _ = from_schema(options.schema)
        absent = [column for column in layout.features_from if column not in types]
        if absent:
            raise fail(f"there is no {_columns(absent)}, which the schema names; it has {_columns(types)}")
        return layout
    asked = dict(options.named)
    for column in (*asked, *options.drop, *filter(None, (options.label, options.weight))):
        if column not in types:
            raise fail(f"there is no column {column!r}; it has {_columns(types)}")
    aside = {options.label, options.weight, *options.drop}
    kinds = {name: asked.get(name) or _default(name, kind, fail) for name, kind in types.items() if name not in aside}
    for name, kind in kinds.items():
        _check(name, types[name], kind, fail)
    if not kinds:
        raise fail("no column is left to learn from")
    of = {kind: tuple(name for name in kinds if kinds[name] == kind) for kind in KINDS}
    return Layout(
        **of, label=options.label, weight=options.weight, hash_bits=options.hash_bits, missing=options.missing
    )


def has_names(column: str, kind: Any, fail: Fail) -> bool:
    """Whether the labels are names, not numbers."""
    if is_number(kind) or is_name(kind):
        return is_name(kind)
    raise fail(f"labels of type {kind} are not accepted; they must be numbers or names", column=column)


def _default(name: str, kind: Any, fail: Fail) -> str:
    if is_number(kind):
        return "numeric"
    if is_name(kind):
        return "categorical"
    if pa.types.is_null(kind):
        raise fail(
            "has no value to tell its type by; name the column in numeric=, categorical=, hashed=, text= or drop=",
            column=name,
        )
    if pa.types.is_temporal(kind):
        raise fail(
            f"has type {kind}, which is not a number yet: write it as one (days since a date, hour of the day, …), or "
            "name the column in categorical=, hashed= or drop=",
            column=name,
        )
    raise fail(f"has type {kind}, which is neither number nor name; name the column in drop=", column=name)


def _check(name: str, kind: Any, wanted: str, fail: Fail) -> None:
    fits = is_number(kind) or is_name(kind) or pa.types.is_null(kind)
    if wanted in ("categorical", "hashed"):
        fits = fits or pa.types.is_temporal(kind)
    if not fits:
        raise fail(f"has type {kind}, which {wanted}= does not take; name the column in drop=", column=name)


def _columns(names: Any) -> str:
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:20]) + (", …" if len(names) > 20 else "")
    return f"column{'s' if len(names) > 1 else ''} {shown}"
