"""The score of validation rows after each pass: by the workers that have them, or here where they are few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from symsgd.dask import worker
from symsgd.dask.packing import Packed, pack
from symsgd.dask.partitions import Partitions, partitions_of
from symsgd.inputs import check_data, check_known_labels, check_real_targets
from symsgd.judging import check_eval_set
from symsgd.losses import Loss
from symsgd.results import decision

if TYPE_CHECKING:
    from distributed import Client

Array = npt.NDArray[Any]

ROWS = 1 << 18  # of a store that are scored in one task


@dataclass(frozen=True)
class DistributedJudge:
    """Accuracy or R² of ``eval_set``; nothing is held out."""

    client: Client
    classes: Array | None
    there: Partitions | None = None
    here: tuple[Any, Array] | None = None
    stops: bool = False

    @staticmethod
    def check(client: Client, eval_set: Any, classes: Array | None, loss: Loss, n_features: int) -> DistributedJudge:
        if eval_set is None:
            return DistributedJudge(client, classes)
        if loss.name == "one_class":
            raise ValueError(f"eval_set needs targets to score, which loss={loss.name!r} does not use")
        X, y = check_eval_set(eval_set)
        if hasattr(X, "shape") and not hasattr(X, "dask"):
            data = check_data(X, 1, "eval_set[0]")
            _check_width(data.n_features, n_features)
            if classes is None:
                return DistributedJudge(client, classes, here=(X, check_real_targets(y, data.n_rows, "eval_set[1]")))
            return DistributedJudge(
                client, classes, here=(X, check_known_labels(y, data.n_rows, classes, "eval_set[1]"))
            )
        found = partitions_of(client, X, y, argument="eval_set[0]")
        _check_width(found.n_features, n_features)
        found.classes(loss, classes)
        return DistributedJudge(client, classes, there=found)

    def stop_scores(self, coef: Array, intercept: Array, active: list[int]) -> list[float]:
        raise AssertionError("nothing is held out")

    def eval_score(self, coef: Array, intercept: Array) -> float | None:
        if self.here is not None:
            X, y = self.here
            return _score([(decision(X, coef, intercept), y, None)], self.classes)
        if self.there is None:
            return None
        model = self.client.scatter(pack(coef), hash=False)
        asked = [
            self.client.submit(tallied, source, begin, end, model, intercept, self.classes, pure=False)
            for source, begin, end in pieces(self.there)
        ]
        return finished(np.sum(self.client.gather(asked), axis=0), self.classes)


def _check_width(own: int, n_features: int) -> None:
    if own != n_features:
        raise ValueError(f"eval_set[0] has {own} features, but X has {n_features}")


def pieces(found: Partitions) -> Iterator[tuple[Any, int, int]]:
    """Partitions in pieces that fit a task."""
    for source, rows in zip(found.sources, found.rows, strict=True):
        for begin in range(0, rows, ROWS):
            yield source, begin, min(begin + ROWS, rows)


def tallied(rows: Any, begin: int, end: int, coef: Packed, intercept: Array, classes: Array | None) -> Array:
    """What of some rows a score needs (:func:`tally`); runs on a worker."""
    scores, y, weight = worker.scores_of(rows, begin, end, coef, intercept)
    return tally(scores, y, weight, classes)


def tally(scores: Array, y: Any, weight: Any, classes: Array | None) -> Array:
    """Sums: of weights, and of those of right answers; or of weights, y, y² and squared errors."""
    own = np.ones(len(scores)) if weight is None else np.asarray(weight, np.float64)
    if classes is not None:
        predicted = classes[scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(int)]
        return np.array([own.sum(), own[predicted == np.asarray(y)].sum()])
    target = np.asarray(y, np.float64)
    return np.array([own.sum(), own @ target, own @ target**2, own @ (target - scores) ** 2])


def finished(sums: Array, classes: Array | None) -> float:
    """Accuracy, or R²."""
    if classes is not None:
        return float(sums[1] / sums[0])
    spread = sums[2] / sums[0] - (sums[1] / sums[0]) ** 2
    error = sums[3] / sums[0]
    return float(1 - error / spread) if spread > 0 else float(error == 0)


def _score(parts: list[tuple[Array, Any, Any]], classes: Array | None) -> float:
    return finished(np.sum([tally(*part, classes) for part in parts], axis=0), classes)
