"""What the columns of a table become: numbers stay numbers, categories become ones, the rest is hashed.

Features have this order, in which a number that was given stays, whatever the rest of the file has:

    numbers | their indicators, if missing="indicator" | 2^hash_bits hashed ones, if any | a feature a category

Categories are numbered as they appear, row by row and in a row from left to right, so that neither the size of a batch
nor the number of threads matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from symsgd._choices import check_count
from symsgd.data.dataset import Schema
from symsgd.data.hashing import check_bits

Missing = Literal["error", "zero", "indicator"]
FORMAT = "table"
KINDS = ("numeric", "categorical", "hashed", "text")


@dataclass(frozen=True)
class TableOptions:
    """How to read a table. A column that is not named here is numeric if it has numbers, categorical if it has strings.

    ``label`` and ``weight`` are columns; without a label, y is NaN. ``numeric`` columns become one feature each,
    ``categorical`` ones a feature of value 1 for each value, at most ``max_categories`` of them. Values of ``hashed``
    columns and words of ``text`` columns share 2^``hash_bits`` features. ``missing``: an "error", "zero" (no feature at
    all), or a feature that says so ("indicator"). ``label_names``, where labels are names: number i stands for the
    i-th; found by reading that column first if not given. ``schema``: read as the table was that the schema is of;
    only ``dtype`` goes with it.
    """

    label: str | None = None
    weight: str | None = None
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    hashed: Sequence[str] = ()
    text: Sequence[str] = ()
    drop: Sequence[str] = ()
    hash_bits: int = 18
    missing: Missing = "error"
    max_categories: int = 10_000
    label_names: Sequence[str] | None = None
    schema: Schema | None = None
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        check_bits(self.hash_bits)
        check_count("max_categories", self.max_categories)
        if self.missing not in get_args(Missing):
            raise ValueError(f"missing={self.missing!r} is not accepted; it must be one of {get_args(Missing)}")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype={self.dtype!r} is not accepted; it must be float32 or float64")
        self._check_schema()
        self._check_columns()

    def _check_columns(self) -> None:
        named: dict[str, str] = {}
        for argument in ("label", "weight", *KINDS, "drop"):
            columns = getattr(self, argument)
            if argument in ("label", "weight"):
                columns = [] if columns is None else [columns]
            elif isinstance(columns, str):
                raise ValueError(f"{argument}={columns!r} is not accepted; it must be a list of column names")
            for column in columns:
                if column in named:
                    raise ValueError(f"column {column!r} is in {named[column]}= and in {argument}=")
                named[column] = argument

    def _check_schema(self) -> None:
        if self.schema is None:
            return
        if self.schema.format != FORMAT:
            raise ValueError(f"schema= is of format {self.schema.format!r}; of a table it has format {FORMAT!r}")
        also = [
            field.name
            for field in fields(self)
            if field.name not in ("schema", "dtype") and getattr(self, field.name) != field.default
        ]
        if also:
            raise ValueError(f"schema= says how to read the table already; {also[0]}= cannot be given with it")
        check_schema(self.schema)

    @property
    def named(self) -> Mapping[str, str]:
        """The kind that was asked for, of each column for which one was."""
        return {column: kind for kind in KINDS for column in getattr(self, kind)}


@dataclass(frozen=True)
class Layout:
    """Which column is what, and where its features begin."""

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    hashed: tuple[str, ...]
    text: tuple[str, ...]
    label: str | None
    weight: str | None
    hash_bits: int
    missing: Missing

    @property
    def features_from(self) -> tuple[str, ...]:
        """The columns that features come from."""
        return self.numeric + self.categorical + self.hashed + self.text

    @property
    def first_hashed(self) -> int:
        """Number of the first hashed feature, and how many features numbers have."""
        return len(self.numeric) * (2 if self.missing == "indicator" else 1)

    @property
    def n_hashed(self) -> int:
        """How many hashed features there are."""
        return 1 << self.hash_bits if self.hashed or self.text else 0

    @property
    def first_category(self) -> int:
        """Number of the first category's feature."""
        return self.first_hashed + self.n_hashed

    def to_schema(self, categories: Sequence[tuple[int, str | None]], label_names: Sequence[str] | None) -> Schema:
        """The schema of a table with these categories, each a column's place in ``categorical`` and a value."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        options |= {kind: list(options[kind]) for kind in KINDS}
        options["categories"] = [list(category) for category in categories]
        names = None
        if not self.n_hashed:
            names = tuple(_name(self, categories, feature) for feature in range(self.first_category + len(categories)))
        return Schema(
            FORMAT,
            self.first_category + len(categories),
            names,
            None if label_names is None else tuple(label_names),
            options,
        )


def from_schema(schema: Schema) -> tuple[Layout, list[tuple[int, str | None]]]:
    """The layout of the table that a schema is of, and its categories."""
    options = dict(schema.options)
    categories = [(int(column), value) for column, value in options.pop("categories")]
    return Layout(**options | {kind: tuple(options[kind]) for kind in KINDS}), categories


def check_schema(schema: Schema) -> None:
    """ValueError if no table has such a schema: files of models and stores may have been made by anybody."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        layout, categories = from_schema(schema)
        columns = [*layout.features_from, *(own for own in (layout.label, layout.weight) if own is not None)]
        check_bits(layout.hash_bits)
        if (
            len(set(columns)) == len(columns)
            and all(isinstance(own, str) for own in columns)
            and layout.missing in get_args(Missing)
            and len(set(categories)) == len(categories)
            and all(isinstance(value, str | None) for _, value in categories)
            and all(0 <= column < len(layout.categorical) for column, _ in categories)
            and schema.n_features == layout.first_category + len(categories)
        ):
            return
    raise ValueError("schema= is not made as that of a table is")


def feature_name(schema: Schema, feature: int) -> str:
    """What a feature of a table is called: "age", "age is missing", "city=Paris", "hash 1234 of user, comment".

    ``schema.feature_names`` has the same names, but is None for tables with hashed columns: nearly all of their
    features would have the name of a slot.
    """
    if not 0 <= feature < schema.n_features:
        raise ValueError(f"feature={feature} is not accepted; there are {schema.n_features}, counted from 0")
    return _name(*from_schema(schema), feature)


def _name(layout: Layout, categories: Sequence[tuple[int, str | None]], feature: int) -> str:
    if feature < len(layout.numeric):
        return layout.numeric[feature]
    if feature < layout.first_hashed:
        return f"{layout.numeric[feature - len(layout.numeric)]} is missing"
    if feature < layout.first_category:
        return f"hash {feature - layout.first_hashed} of {', '.join(layout.hashed + layout.text)}"
    column, value = categories[feature - layout.first_category]
    name = layout.categorical[column]
    return f"{name} is missing" if value is None else f"{name}={value}"
