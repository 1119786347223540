"""What runs on the workers. Rows are trained by :func:`symsgd.training.train`, as everywhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from symsgd.dask.held import Held, Model, Version, merged_once, model_at
from symsgd.dask.lanes import Segment
from symsgd.dask.means import Sums, summed, sums_of
from symsgd.dask.merging import Curvature, Movement, Stretch, joined, movement_of, reduced, stretch_of
from symsgd.dask.packing import Packed, moved, pack
from symsgd.dask.rows import Cores, Rows, Stored, loaded, open_here
from symsgd.errors import DivergenceError
from symsgd.inputs import find_classes
from symsgd.losses import Loss
from symsgd.penalties import Penalty
from symsgd.results import Result, Start, decision
from symsgd.schedules import Schedule
from symsgd.steps import StepSizes
from symsgd.strategies import LEAST_WORK, Strategy
from symsgd.training import train

Array = npt.NDArray[Any]

MOST_CLASSES = 10_000  # labels beyond that are numbers, not classes


@dataclass(frozen=True)
class Training:
    """What is the same for all blocks: the words of :func:`symsgd.train`. ``known_steps``: the step sizes do not depend
    on the rows, and with them what L2 leaves of a weight."""

    loss: Loss
    penalty: Penalty
    schedule: Schedule
    strategy: Strategy
    n_threads: int
    fit_intercept: bool
    shuffle: bool | str
    classes: Array | None
    class_weight: Array | None
    n_models: int
    dtype: str
    steps: StepSizes
    known_steps: bool = True


@dataclass(frozen=True)
class Facts:
    """What the client knows of a partition."""

    n_rows: int
    n_features: int
    dtype: str
    sparse: bool
    n_entries: int
    has_targets: bool
    labels: Array | None  # distinct, ascending; None if there are too many for classes
    label_counts: Array | None
    finite_targets: bool
    names: tuple[str, ...] | None
    weighted: bool
    print: str  # tells the rows apart from others


# --- before the first pass -----------------------------------------------------------------------------------------


def make_rows(X: Any, y: Any = None, weight: Any = None) -> Rows:
    """The task that a partition of a collection ends with."""
    return loaded(X, y, weight)


def unpacked_rows(partition: Any) -> Rows:
    """A delayed partition: X, (X, y), or (X, y, weights)."""
    if isinstance(partition, tuple):
        if not 1 <= len(partition) <= 3:
            raise ValueError(f"a partition is a tuple of {len(partition)}; accepted are X, (X, y) and (X, y, weights)")
        return loaded(*partition)
    return loaded(partition)


def open_rows(path: str) -> Stored:
    """A store, as it is now."""
    store = open_here(path)
    return Stored(path, store.generation, len(store))


def facts_of(rows: Rows) -> Facts:
    """Reads the targets, and of rows in memory everything once: they are checked."""
    if isinstance(rows, Stored):
        store = rows.open()
        shape, sparse, dtype, entries = store.shape, sp.issparse(store.X), store.X.dtype, store.n_entries
        y: Array | None = None if store.summary.unlabelled else store.y
        weight, names = store.sample_weight, None
        known_by = f"{rows.path} {rows.generation}"
        if not store.summary.finite:
            raise ValueError(f"{rows.path}: its rows contain NaN or infinity")
    else:
        data = rows.data
        shape, sparse, dtype, entries = (data.n_rows, data.n_features), data.sparse, data.dtype, data.n_entries
        y, weight, names = rows.y, rows.weight, rows.names
        known_by = _print(data.values, rows.y, rows.weight)
    if weight is not None and len(weight):
        weights = np.asarray(weight)
        if weights.dtype.kind not in "biuf" or not np.isfinite(weights).all():
            raise ValueError("sample_weight contains NaN, infinity, or what is not a number")
        if (weights < 0).any():
            raise ValueError(f"sample_weight contains the negative value {weights.min()}; accepted are numbers >= 0")
    labels, counts = _labels(y)
    finite = y is None or np.asarray(y).dtype.kind != "f" or bool(np.isfinite(np.asarray(y)).all())
    return Facts(
        *shape, str(dtype), sparse, entries, y is not None, labels, counts, finite, names, weight is not None, known_by
    )


def _print(*arrays: Any) -> str:
    from symsgd.checkpoints import fingerprint  # here: it is needed once

    return " ".join(fingerprint(array) for array in arrays)


def _labels(y: Any) -> tuple[Array | None, Array | None]:
    if y is None:
        return None, None
    array = np.asarray(y)
    if len(array) == 0:
        return array, np.zeros(0, np.int64)
    if len(np.unique(array[:65536])) > MOST_CLASSES:
        return None, None
    found = find_classes(array)
    if len(found) > MOST_CLASSES:
        return None, None
    return found, np.array([np.count_nonzero(array == label) for label in found])


def sample_rows(rows: Rows, at: Array) -> tuple[Any, Array | None, Array | None]:
    """Rows, targets and weights at these places."""
    X, y, weight = rows.peek(at)
    return (X.astype(np.float32) if X.dtype != np.float32 else X), y, weight


# what is left to merge of a round: all blocks but the last, the last, and the curvature
Ends = tuple[Stretch, Stretch, Curvature]


# --- a round -------------------------------------------------------------------------------------------------------


def train_segment(
    version: Version | None,
    whole: Model | None,
    last: Movement | Ends | None,
    before: Movement | Stretch | None,
    rows: Rows,
    segment: Segment,
    t: float,
    log_start: float,
    training: Training,
    curvature: Curvature | None,
    finish: str,
    probe: Any = None,
) -> Movement | Stretch | Sums | Array | None:
    """One segment of a block, from the round's model, decayed by exp(``log_start``), or from where ``before`` ended.

    The model is the one that this worker has as ``version`` says, after the ``last`` round's movement, or after what
    there is to merge of that round; or it was sent
    ``whole``, and is not kept if it has no version. ``finish``: "movement" if another segment follows or the block is a
    round by itself, else "stretch" or "sums", what is merged; or "predictions", what the model then predicts of the
    rows ``probe``, models × rows, None if it is not finite.
    """
    if version is not None:
        own = version

        def movement_of_last() -> Movement:
            assert last is not None
            return last if isinstance(last, Movement) else finish_round(own.training, own.before, *last)

        model = model_at(version, whole, None if last is None else movement_of_last, training.dtype)
    else:
        assert whole is not None
        model = Held(0, whole.weights.dense(training.dtype), whole.intercept)
    gathered = None if whole is None or version is not None else (whole.gathered, whole.gathered_intercept)
    movement = _trained(model, gathered, before, rows, segment, t, log_start, training, curvature)
    if finish == "predictions":
        return _predicted(model, movement, probe)
    if finish == "sums":
        return sums_of(movement)
    if finish == "stretch":
        assert curvature is not None
        return stretch_of(movement, curvature, overwrite=True)
    return movement


def _trained(
    model: Held,
    squares: tuple[Packed | None, Array | None] | None,
    before: Movement | Stretch | None,
    rows: Rows,
    segment: Segment,
    t: float,
    log_start: float,
    training: Training,
    curvature: Curvature | None,
) -> Movement:
    began = time.perf_counter()
    done = _as_movement(before, curvature)
    if done is not None and done.diverged:  # nothing starts from there
        return replace(done, rows=done.rows + segment.rows)
    n_models = training.n_models
    start, intercept, log_before = model.coef, model.intercept, np.full(n_models, log_start)
    if done is not None:
        log_before += done.log_kept
    if log_before.any():
        start = start * np.exp(log_before)[:, None].astype(start.dtype)
    if done is not None:
        start = start.copy() if start is model.coef else start
        done.change.add_to(start)
        intercept = intercept + done.intercept
    gathered, gathered_intercept = (None, None) if squares is None else squares
    if done is not None and done.gathered is not None:
        gathered, gathered_intercept = done.gathered, done.gathered_intercept
    data, y, weight = rows.between(segment.begin, segment.end)
    steps, log_kept = training.steps.sums(t, segment.rows) if training.known_steps else (0.0, 0.0)
    log_keeps = np.full(n_models, log_kept) + (0.0 if done is None else done.log_kept)
    all_steps = np.full(n_models, steps) + (0.0 if done is None else done.steps)
    lost = np.zeros(n_models) if done is None else done.lost
    result: Result | None = None
    diverged = False
    if weight is None or np.any(np.asarray(weight) > 0):
        try:
            result = _run(
                training, data, y, weight, segment.seed,
                Start(
                    start, intercept, t,
                    gathered_coef=None if gathered is None else gathered.dense(training.dtype),
                    gathered_intercept=gathered_intercept,
                ),
            )  # fmt: skip
        except DivergenceError:
            diverged = True
    if result is None:  # rows that do not count: their steps let weights decay
        end, end_intercept = start * np.asarray(np.exp(log_kept), start.dtype), intercept
    else:
        end, end_intercept = result.coef, result.intercept
        lost = lost + np.asarray(result.losses) * segment.rows
        if result.gathered_coef is not None:
            gathered, gathered_intercept = pack(result.gathered_coef), result.gathered_intercept
    with np.errstate(over="ignore"):  # what float32 does not hold is as good as infinite
        change = moved(model.coef, np.exp(log_start + log_keeps).astype(model.coef.dtype), end)
    if diverged or not change.finite:
        diverged, end_intercept = True, model.intercept
        change = Packed(data.n_features, np.zeros((n_models, 0), np.float32), np.zeros(0, np.int32))
    return Movement(
        change=change,
        intercept=end_intercept - model.intercept,
        log_kept=log_keeps,
        steps=all_steps,
        lost=lost,
        rows=segment.rows + (0 if done is None else done.rows),
        diverged=diverged,
        gathered=gathered,
        gathered_intercept=gathered_intercept,
        seconds=time.perf_counter() - began + (0.0 if done is None else done.seconds),
    )


def _run(training: Training, data: Any, y: Any, weight: Any, seed: int, start: Start) -> Result:
    several = data.n_entries >= LEAST_WORK
    n_threads = training.n_threads if several else 1
    with _cores().taken(n_threads):
        return train(
            data,
            None if training.loss.name == "one_class" else y,
            loss=training.loss,
            penalty=training.penalty,
            schedule=training.schedule,
            strategy=training.strategy,
            n_threads=n_threads,
            n_passes=1,
            seed=seed,
            sample_weight=weight,
            class_weight=training.class_weight,
            classes=training.classes,
            fit_intercept=training.fit_intercept,
            shuffle=training.shuffle,
            init=start,
        )


def _as_movement(before: Movement | Stretch | None, curvature: Curvature | None) -> Movement | None:
    """Where blocks that were merged have ended, in the words of one that was trained; what they lost is theirs."""
    if not isinstance(before, Stretch):
        return before
    assert curvature is not None
    return replace(movement_of(before, curvature), lost=np.zeros_like(before.lost), rows=0, seconds=0.0)


_cores_of: dict[str, Cores] = {}


def _cores() -> Cores:
    """Those of the worker that this runs on."""
    from distributed import get_worker

    worker = get_worker()
    return _cores_of.setdefault(worker.address, Cores(worker.state.nthreads))


def merge_stretches(stretches: Sequence[Stretch], curvature: Curvature) -> Stretch:
    """A node of the tree."""
    return reduced(stretches, curvature)


def finish_round(training: str, number: int, before: Stretch, last: Stretch, curvature: Curvature) -> Movement:
    """The root: the last block after all others, and what that does to the round's model, which is known by its number.
    The client asks for it, and so does the next block here, if it was told what to merge: once is enough."""
    return merged_once(
        training, number, lambda: movement_of(joined(before, last, curvature), curvature, overwrite=True)
    )


def merge_sums(parts: Sequence[Sums]) -> Sums:
    return summed(parts)


def _predicted(model: Held, movement: Movement, probe: Any) -> Array | None:
    if movement.diverged:
        return None
    coef = model.coef.astype(np.float64) * np.exp(movement.log_kept)[:, None]
    movement.change.add_to(coef)
    return np.asarray((probe @ coef.T).T + (model.intercept + movement.intercept)[:, None])


# --- scores --------------------------------------------------------------------------------------------------------


def scores_of(rows: Rows, begin: int, end: int, coef: Packed, intercept: Array) -> tuple[Array, Array | None, Any]:
    """Predictions, targets and weights of some rows."""
    data, y, weight = rows.between(begin, end)
    return decision(data, coef.dense(data.dtype), intercept, n_threads=1), y, weight
