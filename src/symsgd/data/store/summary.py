"""What is worth knowing of all rows and costs nothing to find out while they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd.data.dataset import Part, SparseColumns

Array = npt.NDArray[Any]

MOST_LABELS = 256


@dataclass(frozen=True)
class Summary:
    """``finite``: no value is NaN or infinite. ``canonical``: the indices of every row ascend, each at most once.

    ``labels`` are the values of y with the number of rows that have them, ascending; ``None`` if there are more than
    256, or infinite ones. NaN is no label: such rows are counted in ``unlabelled``.
    """

    finite: bool = True
    canonical: bool = True
    longest_row: int = 0
    empty_rows: int = 0
    unlabelled: int = 0
    labels: dict[float, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        labels = None if self.labels is None else [[label, rows] for label, rows in sorted(self.labels.items())]
        return {**self.__dict__, "labels": labels}

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Summary:
        """What :meth:`to_json` wrote."""
        labels = fields["labels"]
        flags = (fields["finite"], fields["canonical"])
        counts = (fields["longest_row"], fields["empty_rows"], fields["unlabelled"])
        if not all(isinstance(flag, bool) for flag in flags) or not all(isinstance(count, int) for count in counts):
            raise ValueError(f"a summary cannot be {fields!r}")
        return Summary(*flags, *counts, labels if labels is None else {float(label): int(n) for label, n in labels})

    def with_part(self, part: Part) -> Summary:
        """The summary of these rows and those of ``part``."""
        rows = part.rows
        if isinstance(rows, SparseColumns):
            lengths = np.diff(rows.starts)
            longest, empty = int(lengths.max(initial=0)), int(np.count_nonzero(lengths == 0))
            values = rows.values
        else:
            longest, empty, values = rows.shape[1], 0, rows
        missing = np.isnan(part.y)
        return Summary(
            self.finite and bool(np.isfinite(values).all()),
            self.canonical and (not isinstance(rows, SparseColumns) or _ascend(rows)),
            max(self.longest_row, longest),
            self.empty_rows + empty,
            self.unlabelled + int(np.count_nonzero(missing)),
            self._more_labels(part.y[~missing]),
        )

    def _more_labels(self, y: Array) -> dict[float, int] | None:
        if self.labels is None:
            return None
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) > MOST_LABELS or not np.isfinite(labels).all():
            return None
        known = dict(self.labels)
        for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
            known[label] = known.get(label, 0) + count
        return known if len(known) <= MOST_LABELS else None


NOTHING = Summary(labels={})


def _ascend(rows: SparseColumns) -> bool:
    """Whether the indices of every row ascend strictly."""
    ascends = rows.indices[1:] > rows.indices[:-1]
    boundaries = rows.starts[1:-1] - 1  # between the last entry of a row and the first of the next
    ascends[boundaries[(boundaries >= 0) & (boundaries < len(ascends))]] = True
    return bool(ascends.all())
