"""Parts become a data set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from symsgd.data import Schema
from symsgd.data.dataset import Part, SparseColumns, gather


class Parts:
    """A reader of given parts."""

    def __init__(self, *parts: Part, n_features: int, index_shift: int = 0) -> None:
        self.given = parts
        self.schema = Schema("given", n_features)
        self.index_shift = index_shift
        self.notes = ["a note"]

    def parts(self) -> Iterator[Part]:
        yield from self.given


def sparse(starts: list[int], indices: list[int], y: list[float], dtype: type = np.int32) -> Part:
    columns = SparseColumns(
        np.array(starts), np.array(indices, dtype), np.arange(1, len(indices) + 1, dtype=np.float32)
    )
    return Part(columns, np.array(y))


def test_sparse_parts_are_joined_and_shifted() -> None:
    data = gather(Parts(sparse([0, 2, 2], [1, 3], [1, 2]), sparse([0, 1], [2], [3]), n_features=3, index_shift=-1))
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, 2], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(data.y, [1, 2, 3])
    assert (data.X.indices.dtype, data.X.indptr.dtype, data.X.dtype) == (np.int32, np.int32, np.float32)
    assert (data.sample_weight, data.notes, len(data)) == (None, ("a note",), 3)


def test_many_parts_of_all_sizes_are_joined() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 1000, n).tolist() for n in rng.integers(0, 50, 300)]
    parts = [sparse([0, len(row)], row, [float(i)]) for i, row in enumerate(rows)]
    data = gather(Parts(*parts, n_features=1000))
    assert data.X.indices.tolist() == [index for row in rows for index in row]
    assert data.X.indptr.tolist() == np.cumsum([0, *map(len, rows)]).tolist()
    assert data.y.tolist() == list(range(300))


def test_one_wide_part_makes_all_indices_wide() -> None:
    data = gather(Parts(sparse([0, 1], [1], [1]), sparse([0, 1], [2**40], [2], np.int64), n_features=2**41))
    assert data.X.indices.tolist() == [1, 2**40]
    assert (data.X.indices.dtype, data.X.indptr.dtype) == (np.int64, np.int64)


def test_parts_without_weights_weigh_1() -> None:
    one, two = sparse([0, 0], [], [1]), sparse([0, 0], [], [2])
    data = gather(Parts(one, Part(two.rows, two.y, np.array([0.5])), one, n_features=1))
    np.testing.assert_array_equal(data.sample_weight, [1, 0.5, 1])


@pytest.mark.parametrize("sizes", [(0,), (3,), (2, 0, 5)])
def test_dense_parts_are_stacked(sizes: tuple[int, ...]) -> None:
    parts = [np.full((n, 2), n, np.float32) for n in sizes]
    data = gather(Parts(*(Part(rows, np.ones(len(rows))) for rows in parts), n_features=2))
    np.testing.assert_array_equal(data.X, np.concatenate(parts), strict=True)


def test_no_parts_are_no_rows() -> None:
    data = gather(Parts(n_features=7))
    assert (data.X.shape, data.y.shape) == ((0, 7), (0,))
