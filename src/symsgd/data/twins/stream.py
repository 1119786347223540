"""The rows of a twin chunk by chunk: one is drawn while the one before it is used, so few are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.random import SeedSequence

from symsgd.data.dataset import Part, Schema
from symsgd.data.twins.population import Population, TwinSpec


class TwinReader:
    """``n_rows`` rows of a population, the first ones of their key. They are a matrix, numbers without a meaning."""

    index_shift = 0

    def __init__(
        self, spec: TwinSpec, population: Population, key: SeedSequence, n_rows: int, title: str, n_threads: int
    ) -> None:
        self.schema = Schema("matrix", spec.n_features)
        self.notes = [title]
        self._population = population
        self._key = int(key.generate_state(1, np.uint64)[0])
        self._n_rows = n_rows
        self._chunk_rows = spec.chunk_rows
        self._n_threads = n_threads

    def parts(self) -> Iterator[Part]:
        """One for every chunk."""
        with ThreadPoolExecutor(1, thread_name_prefix="symsgd-draw") as ahead:
            waiting: Future[Part] | None = None
            for first in range(0, self._n_rows, self._chunk_rows):
                count = min(self._chunk_rows, self._n_rows - first)
                last, waiting = waiting, ahead.submit(self._population.draw, self._key, first, count, self._n_threads)
                if last is not None:
                    yield last.result()
            if waiting is not None:
                yield waiting.result()
