"""The rows of a twin chunk by chunk: drawn ahead on several threads, given in order, few in memory at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator, SeedSequence

from symsgd.data.dataset import Part, Schema, SparseColumns
from symsgd.data.twins.population import Labels, Rows, RowSampler

Chunk = tuple[Rows, Labels]


def child(seed: int, *key: int) -> Generator:
    """Random numbers of its own for every key."""
    return np.random.Generator(np.random.PCG64(SeedSequence(int(seed), spawn_key=key)))


@dataclass(frozen=True)
class Draw:
    """``n_rows`` rows of a population. Every chunk of them has its own child of the seed, so their order of drawing is
    free and the rows are the same whatever the number of threads."""

    sampler: RowSampler
    n_rows: int
    n_features: int
    chunk_rows: int
    seed: int
    part: int  # the child of the seed
    title: str

    def chunks(self, n_threads: int) -> Iterator[Chunk]:
        """In order; at most one more than there are threads is in memory."""
        sizes = [min(self.chunk_rows, self.n_rows - start) for start in range(0, self.n_rows, self.chunk_rows)]
        waiting: deque[Future[Chunk]] = deque()
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                for number, size in enumerate(sizes):
                    waiting.append(pool.submit(self.sampler, size, child(self.seed, self.part, number)))
                    if len(waiting) > n_threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:  # nobody wants them any more
                    future.cancel()


class TwinReader:
    """A draw as a reader gives it, to be written to a store. Its rows are a matrix, numbers without a meaning."""

    index_shift = 0

    def __init__(self, draw: Draw, n_threads: int) -> None:
        self.schema = Schema("matrix", draw.n_features)
        self.notes = [draw.title]
        self._draw = draw
        self._n_threads = n_threads

    def parts(self) -> Iterator[Part]:
        """One for every chunk."""
        for X, y in self._draw.chunks(self._n_threads):
            rows = SparseColumns(X.indptr.astype(np.int64), X.indices, X.data) if sp.issparse(X) else X
            yield Part(rows, y.astype(np.float64))
