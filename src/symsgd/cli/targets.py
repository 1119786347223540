"""What the targets of a data set are: labels or numbers, and by which loss they are learned if nobody says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from symsgd.data.dataset import Dataset

Array = npt.NDArray[Any]

NO_LABELS = {  # by format: how a file comes to have some
    "table": "; --label says which column has them",
    "matrix": "; an .npz file has them as y, beside X",
}
MOST_LABELS = 100  # whole numbers, of which more than so many different ones are not taken for labels


@dataclass(frozen=True)
class Targets:
    """``y`` as a training takes it; ``classes`` are its values, ascending, and ``labels`` what people call them."""

    y: Array | None
    classes: Array | None = None
    labels: Array | None = None


def check_labelled(data: Dataset, path: str) -> None:
    """ValueError if a row has no target."""
    missing = np.isnan(data.y)
    if len(data) == 0:
        raise ValueError(f"{path} has no rows")
    if missing.all():
        raise ValueError(f"{path} has no labels" + NO_LABELS.get(data.schema.format, ""))
    if missing.any():
        first = int(missing.argmax()) + 1
        raise ValueError(
            f"{path}: {int(missing.sum()):,} of {len(data):,} rows have no label, the first is row {first:,}"
        )


def likely_loss(data: Dataset) -> tuple[str, str]:
    """The loss for these targets, and why."""
    from symsgd.inputs import find_classes

    if data.schema.label_names is not None:
        return "log_loss", f"{len(data.schema.label_names)} labels"
    values = find_classes(data.y)
    if len(values) <= 2:
        return "log_loss", f"{len(values)} label{'s' if len(values) > 1 else ''}"
    whole = np.array_equal(values, np.round(values))
    if whole and len(values) <= MOST_LABELS:
        return (
            "log_loss",
            f"{len(values)} labels, all of them whole numbers; --loss squared_error takes them for numbers",
        )
    return "squared_error", f"{len(values):,} different numbers"


def targets_for(data: Dataset, loss: str, known: Array | None = None) -> Targets:
    """The targets as ``loss`` takes them. ``known`` are the labels of a model that is trained on."""
    from symsgd.inputs import find_classes
    from symsgd.losses import LOSSES

    if loss == "one_class":
        return Targets(None)
    if not LOSSES[loss].margin:
        if data.schema.label_names is not None:
            raise ValueError(
                f"--loss {loss} predicts numbers, but the targets are names, as {data.schema.label_names[0]!r}"
            )
        return Targets(data.y)
    if known is not None:
        return Targets(class_numbers(data, known), np.arange(len(known)), known)
    names = data.schema.label_names
    values = find_classes(data.y)
    if len(values) == 1:
        one = f"{values[0]:g}" if names is None else names[int(values[0])]
        raise ValueError(f"all rows have the label {one}; it takes two to tell them apart")
    if names is not None:
        # a training needs its labels in ascending order
        labels = np.unique(names)
        numbers = np.searchsorted(labels, np.asarray(names))
        return Targets(numbers[data.y.astype(np.int64)], np.arange(len(labels)), labels)
    whole = np.array_equal(values, np.round(values)) and abs(values).max() < 2**53
    if not whole and len(values) > 2:
        raise ValueError(
            f"--loss {loss} predicts labels, but the targets are {len(values):,} different numbers, as {values[0]:g}; "
            "--loss squared_error predicts numbers"
        )
    return Targets(data.y, values, values.astype(np.int64) if whole else values)


def class_numbers(data: Dataset, labels: Array) -> Array:
    """The place of each row's label among the labels of a model; ValueError with the first label that it has not."""
    names = data.schema.label_names
    own = data.y if names is None else np.asarray(names)[data.y.astype(np.int64)]
    if (names is None) == (labels.dtype.kind in "UO"):
        raise ValueError(f"the model tells {_some(labels)} apart, but the data has labels as {own[0].item()!r}")
    places = np.minimum(np.searchsorted(labels, own), len(labels) - 1)
    unknown = labels[places] != own
    if unknown.any():
        first = int(unknown.argmax())
        raise ValueError(
            f"row {first + 1:,} has the label {own[first].item()!r}; the model tells {_some(labels)} apart"
        )
    return places


def _some(labels: Array) -> str:
    shown = ", ".join(map(str, labels[:5]))
    return shown if len(labels) <= 5 else f"{shown}, …"


def class_weights(text: str | None, targets: Targets) -> tuple[Any, Array | None]:
    """``--class-weight`` as an estimator's parameter, and as a training takes it."""
    if text is None or targets.classes is None or targets.labels is None:
        return None, None
    if text == "balanced":
        counts = np.array([np.count_nonzero(targets.y == own) for own in targets.classes])
        return "balanced", counts.sum() / (len(counts) * np.maximum(counts, 1))
    known = {str(label): label for label in targets.labels.tolist()}
    given: dict[Any, float] = {}
    for pair in text.split(","):
        label, _, weight = pair.rpartition("=")
        if label.strip() not in known:
            raise ValueError(f"--class-weight has {pair!r}; accepted is LABEL=WEIGHT,…, labels are {', '.join(known)}")
        try:
            given[known[label.strip()]] = float(weight)
        except ValueError:
            raise ValueError(f"--class-weight has {pair!r}: {weight!r} is not a number") from None
        if not 0 <= given[known[label.strip()]] < np.inf:
            raise ValueError(f"--class-weight has {pair!r}; a weight must be a finite number >= 0")
    return given, np.array([given.get(label, 1.0) for label in targets.labels.tolist()])
