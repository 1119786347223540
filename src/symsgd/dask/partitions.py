"""What may be trained on, as partitions that stay where they are: Dask's arrays and frames, delayed values, stores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from symsgd.dask import worker
from symsgd.dask.directions import Sample
from symsgd.dask.rows import Stored, store_path
from symsgd.data.store import Store
from symsgd.inputs import check_classes
from symsgd.losses import Loss, OneClass

if TYPE_CHECKING:
    from distributed import Client, Future

Array = npt.NDArray[Any]

ACCEPTED = (
    "a Dask array or dataframe, a list of delayed partitions or futures (each X, (X, y) or (X, y, weights)), or the "
    "path of a store or a list of paths"
)
SAMPLE_ROWS = 16_384
SAMPLE_ENTRIES = 1 << 21


@dataclass(frozen=True)
class Partitions:
    """Rows by partition: a future of those in workers' memory, or the store that every worker opens."""

    sources: tuple[Future | Stored, ...]
    facts: tuple[worker.Facts, ...]

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(own.n_rows for own in self.facts)

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    @property
    def n_features(self) -> int:
        return max(own.n_features for own in self.facts)

    @property
    def n_entries(self) -> int:
        return sum(own.n_entries for own in self.facts)

    @property
    def sparse(self) -> bool:
        return any(own.sparse for own in self.facts)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(own.dtype for own in self.facts))

    @property
    def names(self) -> tuple[str, ...] | None:
        return self.facts[0].names

    def labels(self) -> Array | None:
        """All that there are, ascending; None if there are too many for classes."""
        if any(own.labels is None for own in self.facts):
            return None
        found = [own.labels for own in self.facts if own.labels is not None and len(own.labels)]
        return np.unique(np.concatenate(found)) if found else None

    def label_counts(self, classes: Array) -> Array:
        """How many rows each class has."""
        counts = np.zeros(len(classes), np.int64)
        for own in self.facts:
            if own.labels is not None and own.label_counts is not None and len(own.labels):
                counts[np.searchsorted(classes, own.labels)] += own.label_counts
        return counts

    def classes(self, loss: Loss, given: Any) -> Array | None:
        """The labels, ascending; None where numbers are predicted. Every label has to be one of them."""
        if isinstance(loss, OneClass):
            return None
        if given is None and not loss.margin:
            self._check_targets(loss)
            return None
        self._check_targets(loss)
        if any(own.labels is None for own in self.facts):
            raise ValueError(
                f"y has more than {worker.MOST_CLASSES:,} distinct values in a partition; loss={loss.name!r} predicts "
                "classes"
            )
        labels = self.labels()
        assert labels is not None
        if given is None:
            return check_classes(None, labels, len(labels))
        known = check_classes(given, None, 0)
        strange = labels[~np.isin(labels, known)]
        if len(strange):
            raise ValueError(
                f"y contains the label {strange.tolist()[0]!r}, which is not one of the classes {known.tolist()}"
            )
        return known

    def _check_targets(self, loss: Loss) -> None:
        if not all(own.has_targets for own in self.facts if own.n_rows):
            raise ValueError(f"y is missing, or some of it is; loss={loss.name!r} needs one target a row")
        if not all(own.finite_targets for own in self.facts):
            raise ValueError("y contains NaN or infinity")


def partitions_of(client: Client, X: Any, y: Any = None, sample_weight: Any = None, argument: str = "X") -> Partitions:
    """The partitions, in the memory of the workers or in their files, and what is known of them. Waits until they are
    there."""
    if isinstance(X, Partitions):
        return X
    sources = _sources(client, X, y, sample_weight, argument)
    if not sources:
        raise ValueError(f"{argument} has no partitions; accepted is {ACCEPTED}")
    facts = client.gather([client.submit(worker.facts_of, source, pure=False) for source in sources])
    if any(isinstance(X_, str | os.PathLike | Store) for X_ in (X if isinstance(X, list | tuple) else [X])):
        sources = client.gather(sources)
    found = Partitions(tuple(sources), tuple(facts))
    _check_alike(found, argument)
    return found


def _check_alike(found: Partitions, argument: str) -> None:
    facts = [own for own in found.facts if own.n_rows]
    if not facts:
        raise ValueError(
            f"{argument} has 0 sample(s), shape=(0, {found.n_features}), while a minimum of 1 is required."
        )
    first = facts[0]
    for number, own in enumerate(found.facts):
        if own.n_rows and (own.n_features, own.sparse) != (first.n_features, first.sparse):
            kinds = ["sparse" if part.sparse else "dense" for part in (own, first)]
            raise ValueError(
                f"partition {number} of {argument} has {own.n_features} features ({kinds[0]}), and the first one "
                f"{first.n_features} ({kinds[1]}); all must be alike"
            )
        if own.n_rows and own.weighted != first.weighted:
            raise ValueError(f"some partitions of {argument} have weights, and others none; all must, or none")
    if first.n_features == 0:
        raise ValueError(f"{argument} has 0 feature(s), while a minimum of 1 is required.")


def _sources(client: Client, X: Any, y: Any, sample_weight: Any, argument: str) -> list[Any]:
    import dask.array as da
    from dask.delayed import Delayed
    from distributed import Future

    if isinstance(X, str | os.PathLike | Store):
        X = [X]
    if isinstance(X, da.Array) or _is_frame(X):
        return _collection(client, X, y, sample_weight, argument)
    if isinstance(X, Sequence) and not isinstance(X, str) and len(X):
        if all(isinstance(part, str | os.PathLike | Store) for part in X):
            _only(argument, "stores have targets and weights of their own", y, sample_weight)
            paths = [store_path(part.path if isinstance(part, Store) else part) for part in X]
            return [client.submit(worker.open_rows, path, pure=False) for path in paths]
        if all(isinstance(part, Delayed | Future) for part in X):
            columns = [_matching(part, len(X), name) for part, name in ((y, "y"), (sample_weight, "sample_weight"))]
            return _delayed(client, list(X), columns)
    raise TypeError(
        f"{argument} is a {type(X).__name__}, which is not accepted; it must be {ACCEPTED}. For rows in this process's "
        "memory there is symsgd.train"
    )


def _only(argument: str, why: str, *others: Any) -> None:
    if any(other is not None for other in others):
        raise ValueError(f"y and sample_weight are not accepted beside such {argument}: {why}")


def _is_frame(X: Any) -> bool:
    return hasattr(X, "to_delayed") and hasattr(X, "npartitions") and hasattr(X, "map_partitions")


def _collection(client: Client, X: Any, y: Any, sample_weight: Any, argument: str) -> list[Any]:
    import dask.array as da

    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"{argument} has {X.ndim} dimension(s), shape {X.shape}; accepted is (rows, features)")
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        chunks = X.chunks[0]
        parts = list(X.to_delayed().ravel())
    else:
        chunks, parts = None, X.to_delayed()
    columns = [_column(y, len(parts), chunks, "y"), _column(sample_weight, len(parts), chunks, "sample_weight")]
    return _delayed(client, parts, columns, whole=True)


def _column(column: Any, count: int, chunks: Any, name: str) -> list[Any] | None:
    """One delayed value for every partition of X."""
    import dask.array as da

    if column is None:
        return None
    if isinstance(column, da.Array):
        if column.ndim == 2 and column.shape[1] == 1:
            column = column[:, 0]
        if column.ndim != 1:
            raise ValueError(f"{name} has shape {column.shape}; accepted is one number a row")
        known = chunks is not None and not np.isnan(np.asarray(chunks, float)).any()
        if known and not np.isnan(np.asarray(column.chunks[0], float)).any() and column.chunks[0] != chunks:
            if column.shape[0] != sum(chunks):
                raise ValueError(f"{name} has {column.shape[0]} values, but there are {sum(chunks)} rows")
            column = column.rechunk((chunks,))
        parts = list(column.to_delayed().ravel())
    elif _is_frame(column):
        parts = column.to_delayed()
    else:
        return _matching(column, count, name)
    if len(parts) != count:
        raise ValueError(f"{name} has {len(parts)} partitions, and X has {count}; they must be cut alike")
    return parts


def _matching(column: Any, count: int, name: str) -> list[Any] | None:
    from dask.delayed import Delayed
    from distributed import Future

    if column is None:
        return None
    if isinstance(column, Sequence) and all(isinstance(part, Delayed | Future) for part in column):
        if len(column) != count:
            raise ValueError(f"{name} has {len(column)} partitions, and X has {count}; they must be cut alike")
        return list(column)
    raise TypeError(
        f"{name} is a {type(column).__name__}, which is not accepted beside a Dask collection; it must be one that is "
        "cut in the same way"
    )


def _delayed(client: Client, parts: list[Any], columns: list[list[Any] | None], whole: bool = False) -> list[Any]:
    """Futures of the partitions. They keep their graph: what a worker that dies has had is computed again."""
    from dask.delayed import delayed

    given = any(column is not None for column in columns)
    if not given and not whole:
        return list(client.compute([delayed(worker.unpacked_rows, pure=False)(part) for part in parts]))
    y, weight = ([None] * len(parts) if column is None else column for column in columns)
    make = delayed(worker.make_rows, pure=False)
    return list(client.compute([make(*each) for each in zip(parts, y, weight, strict=True)]))


def sample_size(n_rows: int, n_entries: int) -> int:
    """Rows of the sample that the client keeps."""
    return int(min(n_rows, SAMPLE_ROWS, max(256, SAMPLE_ENTRIES // max(1.0, n_entries / n_rows))))


def draw_sample(client: Client, found: Partitions, classes: Array | None, class_weight: Array | None) -> Sample:
    """Rows spread evenly over all partitions, by the workers."""
    count = sample_size(found.n_rows, found.n_entries)
    at = np.unique(np.linspace(0, found.n_rows - 1, count).astype(np.int64))
    starts = np.concatenate([[0], np.cumsum(found.rows)])
    asked = []
    for number, source in enumerate(found.sources):
        own = at[(at >= starts[number]) & (at < starts[number + 1])] - starts[number]
        if len(own):
            asked.append(client.submit(worker.sample_rows, source, own, pure=False))
    return _sample(client.gather(asked), classes, class_weight)


def _sample(parts: list[tuple[Any, Array | None, Array | None]], classes: Array | None, factors: Any) -> Sample:
    import scipy.sparse as sp

    X = sp.vstack([part[0] for part in parts], "csr") if sp.issparse(parts[0][0]) else np.vstack([p[0] for p in parts])
    n_rows = X.shape[0]
    y = None if parts[0][1] is None else np.concatenate([part[1] for part in parts])
    weights = np.ones(n_rows) if parts[0][2] is None else np.concatenate([part[2] for part in parts])
    weights = np.asarray(weights, np.float64)
    if classes is None:
        targets = np.ones(n_rows) if y is None else np.asarray(y, np.float64)
        return Sample(X, targets[None, :], weights[None, :])
    each = np.ones(len(classes)) if factors is None else np.asarray(factors, np.float64)
    code = np.searchsorted(classes, np.asarray(y))
    if len(classes) == 2:
        return Sample(X, np.where(code == 1, 1.0, -1.0)[None, :], (weights * each[code])[None, :])
    mine = code[None, :] == np.arange(len(classes))[:, None]
    return Sample(X, np.where(mine, 1.0, -1.0), np.where(mine, each[:, None], 1.0) * weights)
