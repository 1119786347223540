"""Speedups out of the *paper* protocol's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symsgd.bench.protocols.base import mean
from symsgd.bench.records import Row

IN_WORDS = {"log_loss": "logistic", "squared_error": "OLS"}


@dataclass(frozen=True)
class Speedups:
    """The runs of part "speedup" by data set, loss, system and threads, the sequential ones by the threads they took
    turns with; those that failed included."""

    runs: dict[tuple[str, str, str, int], list[Row]]

    @staticmethod
    def of(rows: Sequence[Row]) -> Speedups:
        runs: dict[tuple[str, str, str, int], list[Row]] = {}
        for row in rows:
            if row.part == "speedup":
                threads = int(row.settings.get("beside", row.threads))
                runs.setdefault((row.data, row.loss, row.system, threads), []).append(row)
        return Speedups(runs)

    @property
    def cases(self) -> list[tuple[str, str]]:
        """Data sets and losses that were run."""
        return list(dict.fromkeys((data, loss) for data, loss, _, _ in self.runs))

    def threads(self, data: str, loss: str) -> list[int]:
        return sorted({threads for *case, _, threads in self.runs if case == [data, loss]})

    def seconds(self, data: str, loss: str, system: str, threads: int) -> list[float]:
        """Of all repeats; none if one has failed: the mean of the others would be a better one than is deserved."""
        runs = self.runs.get((data, loss, system, threads), [])
        return [] if any(run.reason for run in runs) else [run.measures["seconds"] for run in runs]

    def ratio(self, data: str, loss: str, system: str, over: str, threads: int) -> float | None:
        """How many times faster a system is than another, by the means; None where one has none."""
        own, other = (self.seconds(data, loss, one, threads) for one in (system, over))
        return mean(other) / mean(own) if own and other else None

    def hold(self, data: str, loss: str, system: str, threads: int) -> bool:
        """Whether every repeat has the sequential AUC."""
        runs = self.runs.get((data, loss, system, threads), [])
        return bool(runs) and all(run.measures.get("holds", 0.0) > 0 for run in runs)
