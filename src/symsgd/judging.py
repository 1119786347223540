"""Scores of held-out and validation rows between passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from symsgd.inputs import Array, Data, check_data, check_known_labels, check_real_targets, decide, on_host
from symsgd.losses import Loss
from symsgd.problem import Problem


@dataclass(frozen=True)
class EarlyStopping:
    """Rows kept out of the training; it stops when the score on them stops rising.

    The score is the accuracy of each one-vs-rest problem, or R² where numbers are predicted.
    """

    held_out: npt.NDArray[np.bool_]


class Scoring(Protocol):
    """What a training asks between passes. ``stops``: rows are held out, and it stops by their scores."""

    @property
    def stops(self) -> bool: ...
    def stop_scores(self, coef: Array, intercept: Array, active: list[int]) -> list[float]: ...
    def eval_score(self, coef: Array, intercept: Array) -> float | None: ...


@dataclass(frozen=True)
class Judge:
    """Scores of held-out and validation rows between passes."""

    held_out: npt.NDArray[np.bool_] | None
    held_out_data: Data | None
    held_out_targets: Array | None
    held_out_weight: Array | None
    eval_data: Data | None
    eval_targets: Array | None
    positive: float
    target: str
    classes: Array | None
    threads: int

    @staticmethod
    def check(
        data: Data,
        problem: Problem,
        loss: Loss,
        early_stopping: EarlyStopping | None,
        eval_set: tuple[Any, Any] | None,
        threads: int,
    ) -> Judge:
        mask = held_data = held_targets = held_weight = eval_data = eval_targets = None
        if early_stopping is not None:
            if problem.labels is None:
                raise _no_targets("early_stopping", loss)
            if not isinstance(early_stopping, EarlyStopping):
                raise TypeError(f"early_stopping={early_stopping!r} is not a symsgd.EarlyStopping")
            mask = np.asarray(early_stopping.held_out, bool)
            if mask.shape != (data.n_rows,) or mask.all() or not mask.any():
                raise ValueError(f"early_stopping.held_out must mark some but not all of the {data.n_rows} rows")
            held_data = check_data(data.take(mask), threads)
            held_targets = problem.labels[mask]
            held_weight = None if problem.sample_weight is None else problem.sample_weight[mask]
        if eval_set is not None:
            if problem.labels is None:
                raise _no_targets("eval_set", loss)
            eval_X, eval_y = check_eval_set(eval_set)
            eval_y = on_host(eval_y)
            eval_data = check_data(eval_X, threads, "eval_set[0]")
            if eval_data.n_features != data.n_features:
                raise ValueError(f"eval_set[0] has {eval_data.n_features} features, but X has {data.n_features}")
            if problem.classes is None:
                eval_targets = check_real_targets(eval_y, eval_data.n_rows, "eval_set[1]")
            else:
                eval_targets = check_known_labels(eval_y, eval_data.n_rows, problem.classes, "eval_set[1]")
        return Judge(
            mask, held_data, held_targets, held_weight, eval_data, eval_targets,
            problem.positive, problem.target, problem.classes, threads,
        )  # fmt: skip

    @property
    def stops(self) -> bool:
        return self.held_out_data is not None

    def held_out_bytes(self) -> npt.NDArray[np.uint8]:
        assert self.held_out is not None
        return np.ascontiguousarray(self.held_out).view(np.uint8)

    def stop_scores(self, coef: Array, intercept: Array, active: list[int]) -> list[float]:
        """Accuracy of each one-vs-rest problem in ``active`` on the held-out rows, or R²."""
        assert self.held_out_data is not None
        assert self.held_out_targets is not None
        scores = on_host(decide(self.held_out_data, coef[active], intercept[active], self.threads))
        if self.target == "real":
            return [_r2(self.held_out_targets, scores, self.held_out_weight)]
        if self.target == "binary":
            right = (scores > 0) == (self.held_out_targets == self.positive)
            return [float(np.average(right, weights=self.held_out_weight))]
        wanted = self.held_out_targets[:, None] == np.asarray(active)[None, :]
        right = (scores.reshape(wanted.shape) > 0) == wanted
        return [float(value) for value in np.average(right, axis=0, weights=self.held_out_weight)]

    def eval_score(self, coef: Array, intercept: Array) -> float | None:
        """Accuracy or R² of the whole model on ``eval_set``."""
        if self.eval_data is None:
            return None
        assert self.eval_targets is not None
        scores = on_host(decide(self.eval_data, coef, intercept, self.threads))
        if self.classes is None:
            return _r2(self.eval_targets, scores, None)
        predicted = self.classes[scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(int)]
        return float(np.mean(predicted == self.eval_targets))


def _no_targets(argument: str, loss: Loss) -> ValueError:
    return ValueError(f"{argument} needs targets to score, which loss={loss.name!r} does not use")


def check_eval_set(eval_set: Any) -> tuple[Any, Any]:
    """The pair that ``eval_set`` must be."""
    if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
        length = f" of length {len(eval_set)}" if hasattr(eval_set, "__len__") else ""
        raise ValueError(f"eval_set must be one pair (X, y), not a {type(eval_set).__name__}{length}")
    return eval_set[0], eval_set[1]


def _r2(y: Array, predicted: Array, weights: Array | None) -> float:
    y = np.asarray(y, np.float64)
    spread = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    error = np.average((y - predicted) ** 2, weights=weights)
    return float(1 - error / spread) if spread > 0 else float(error == 0)
