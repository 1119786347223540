"""Sources of rows for the tests of the store, and how to look at what became of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from symsgd.data.dataset import Dataset, Part, Schema, SparseColumns
from symsgd.data.store import Store, StoreWriter, open_store
from symsgd.data.store.disk import newest_superblock
from symsgd.data.store.layout import SUPERBLOCK_OFFSETS, Extent, Superblock, checksum


@dataclass(frozen=True)
class Source:
    """A reader of parts that are there already."""

    rows: Sequence[Part]
    schema: Schema
    index_shift: int = 0
    notes: Sequence[str] = ()

    def parts(self) -> Iterator[Part]:
        yield from self.rows


def sparse_part(
    rng: np.random.Generator, n_rows: int, n_features: int, mean_length: int = 5, dtype: Any = np.float32
) -> Part:
    """Rows of up to twice that many entries; some are empty, indices may repeat and are in no order."""
    lengths = rng.integers(0, 2 * mean_length + 1, n_rows) if n_features else np.zeros(n_rows, np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, max(1, n_features), starts[-1]).astype(np.int32)
    return Part(SparseColumns(starts, indices, rng.standard_normal(starts[-1]).astype(dtype)), labels(rng, n_rows))


def dense_part(rng: np.random.Generator, n_rows: int, n_features: int, dtype: Any = np.float32) -> Part:
    return Part(rng.standard_normal((n_rows, n_features)).astype(dtype), labels(rng, n_rows))


def labels(rng: np.random.Generator, n_rows: int) -> Any:
    return rng.choice([-1.0, 1.0, np.nan], n_rows, p=[0.5, 0.4, 0.1])


def source(
    seed: int = 0, sizes: Sequence[int] = (40, 7), n_features: int = 30, sparse: bool = True, **kind: Any
) -> Source:
    rng = np.random.default_rng(seed)
    part = sparse_part if sparse else dense_part
    parts = [part(rng, size, n_features, **kind) for size in sizes]
    return Source(parts, Schema("test", n_features, options={"base": 0}), notes=[f"seed {seed}"])


def weighted(known: Source, which: Sequence[bool]) -> Source:
    """The same rows, where ``which`` says so with weights."""
    rng = np.random.default_rng(1)
    parts = [replace(p, weight=rng.random(len(p.y)) if w else None) for p, w in zip(known.rows, which, strict=True)]
    return replace(known, rows=parts)


def together(*sources: Source) -> Source:
    """The rows of several sources, one after the other."""
    return replace(sources[0], rows=[part for known in sources for part in known.rows])


def quick_folder() -> tempfile.TemporaryDirectory[str]:
    """Where waiting for the disk takes no time, for tests that write hundreds of stores."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def write(path: Path, known: Source, **options: Any) -> None:
    with StoreWriter(path, **options) as writer:
        for part in known.parts():
            writer.add(part)
        writer.commit(known.schema, index_shift=known.index_shift, notes=known.notes)


def assert_holds(store: Store, expected: Dataset) -> None:
    """The same bits, NaN and all."""
    store.verify(1)
    assert len(store) == len(expected)
    assert store.X.shape == expected.X.shape
    assert store.X.dtype == expected.X.dtype
    if hasattr(expected.X, "indptr"):
        np.testing.assert_array_equal(store.X.indptr, expected.X.indptr)
        np.testing.assert_array_equal(store.X.indices, expected.X.indices)
        np.testing.assert_array_equal(store.X.data, expected.X.data)
    else:
        np.testing.assert_array_equal(store.X, expected.X)
    np.testing.assert_array_equal(store.y, expected.y)
    assert (store.sample_weight is None) == (expected.sample_weight is None)
    if expected.sample_weight is not None:
        np.testing.assert_array_equal(store.sample_weight, expected.sample_weight)


def use(path: Path) -> tuple[object, ...]:
    """Everything that a training does with a store before it trusts it, and then all of it."""
    store = open_store(path)
    store.verify(1)
    X, weight = store.X, store.sample_weight
    rows = (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else (X,)
    arrays = (*rows, store.y) if weight is None else (*rows, store.y, weight)
    return store.schema, store.notes, store.summary, *[array.tobytes() for array in arrays]


def superblock_of(path: Path) -> Superblock:
    with path.open("rb") as file:
        return newest_superblock(file.fileno(), path)


def replace_table(path: Path, table: bytes) -> None:
    """Another table of contents, with all checksums as they should be."""
    old = superblock_of(path)
    data = path.read_bytes()
    place = Extent(len(data), len(table), checksum(table))
    packed = Superblock(old.generation, place, place.end).pack()
    data = bytearray(data + table)
    for offset in SUPERBLOCK_OFFSETS:
        data[offset : offset + len(packed)] = packed
    path.write_bytes(data)
