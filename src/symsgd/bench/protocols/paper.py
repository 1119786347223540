"""*paper*: the paper's evaluation, with our "auto" as one more system.

For each data set and loss, after ten passes throughout:

1. the constant step size with the best AUC of the sequential run ("step size"), and what the set is ("data");
2. for each parallel system, at the most threads, the block size and k of the fastest run whose AUC differs from the
   sequential one by less than 1e-4 ("configuration"); where none does, the nearest in AUC, which ``holds`` says;
3. seconds and AUC of all systems in turns, at every number of threads ("speedup");
4. on the first sets, the singular values of combiners of blocks at the sequential model ("singular values").

The baseline is the sequential loop of the same kernels, on one thread, in the same turns. As in the paper there is no
penalty, and OLS has targets ±1.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from symsgd.analysis import nfnz_ratio
from symsgd.bench.datasets import Dataset
from symsgd.bench.protocols.base import Plan, Protocol, Size, Surroundings
from symsgd.bench.protocols.singular import block_values
from symsgd.bench.protocols.sweeps import (
    Configuration,
    Steps,
    Trained,
    best_of,
    choose,
    reason_against,
    sweep_step_sizes,
    train,
)
from symsgd.bench.records import Row
from symsgd.bench.systems.base import Task
from symsgd.combiners import Curvature, Projected
from symsgd.strategies import Async, Hogwild, MapReduce, Sequential

SEQUENTIAL, HOGWILD, ASYNC, MAP_REDUCE, AUTO = "sequential", "Hogwild!", "Async-SymSGD", "MR-SymSGD", "symsgd, auto"
PAPER_STEP_SIZES = {"log_loss": 0.01, "squared_error": 0.001}  # of its figure of singular values
SAMPLE = 10_000  # rows that the share of nonzeros on frequent features is taken from

TWINS = tuple(f"{name} twin" for name in ("rcv1", "adclick", "epsilon", "url", "criteo", "webspam"))


@dataclass(frozen=True)
class PaperPlan(Plan):
    """``steps`` are those to begin with, by loss; ``singular_sets`` says of how many sets there are singular values."""

    steps: Mapping[str, Steps] = field(
        default_factory=lambda: {"log_loss": Steps(-2, 0), "squared_error": Steps(-3, -1)}
    )
    block_sizes: tuple[int, ...] = (64, 256, 1024)
    ks: tuple[int, ...] = (7, 15)
    n_passes: int = 10
    singular_sets: int = 1
    singular_blocks: tuple[int, ...] = (64, 128, 256, 512)

    @property
    def configurations(self) -> dict[str, list[Configuration]]:
        """Of every parallel system."""
        choices = [(Projected(k), block, {"block_size": block, "k": k}) for k in self.ks for block in self.block_sizes]
        return {
            HOGWILD: [Configuration(Hogwild())],
            ASYNC: [Configuration(Async(combiner, block), told) for combiner, block, told in choices],
            MAP_REDUCE: [Configuration(MapReduce(combiner, block), told) for combiner, block, told in choices],
            AUTO: [Configuration(MapReduce(Curvature(), "auto"), {"block_size": "auto"})],
        }


class Paper(Protocol):
    """The paper's table, its speedups by threads for logistic regression and OLS, and its singular values."""

    name: ClassVar[str] = "paper"
    summary: ClassVar[str] = "the paper's table, speedups by threads, singular values"
    plans: ClassVar[Mapping[Size, PaperPlan]] = {
        "full": PaperPlan(
            sets=TWINS,
            repeats=5,
            scales={"rcv1": 1.0, "url": 1.0, "criteo": 1.0, "webspam": 0.2, "epsilon": 0.25, "adclick": 0.2},
            steps={"log_loss": Steps(-2, 0, (1, 2, 5)), "squared_error": Steps(-3, -1, (1, 2, 5))},
            block_sizes=(16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
            ks=(3, 7, 15),
            singular_sets=2,
        ),
        "reduced": PaperPlan(sets=TWINS, repeats=3, scales={"criteo": 0.25, "webspam": 0.01}),
        "quick": PaperPlan(
            sets=("rcv1 twin",),
            repeats=3,
            scales={"rcv1": 0.1},
            steps={"log_loss": Steps(-1, 0), "squared_error": Steps(-2, -1)},
            ks=(7,),
            singular_blocks=(64, 128, 256),
        ),
        "tiny": PaperPlan(
            sets=("rcv1 twin",),
            threads=(1, 2),
            scales={"rcv1": 0.002},
            steps={"log_loss": Steps(-1, 0, (1,)), "squared_error": Steps(-2, -1, (1,))},
            block_sizes=(16, 64),
            ks=(7,),
            n_passes=3,
            singular_blocks=(16, 32),
        ),
    }

    def measure(self, plan: PaperPlan, around: Surroundings) -> Iterator[Row]:
        for number, found in enumerate(self.loaded(plan, around, "data")):
            if isinstance(found, Row):
                yield found
            elif reason := reason_against(found):
                yield Row(self.name, "data", found.name, "", reason=reason)
            else:
                facts = _facts(found, around.seed)
                for loss in plan.steps:
                    yield from _Case(self.name, found, loss, plan, around).rows(facts, number < plan.singular_sets)


def _facts(data: Dataset, seed: int) -> dict[str, float]:
    """The columns of the paper's table that need no training."""
    sample = data.X
    if data.n_rows > SAMPLE:  # of all rows it would take several copies of them
        sample = data.X[np.sort(np.random.default_rng(seed).choice(data.n_rows, SAMPLE, replace=False))]
    return {
        "features": data.n_features,
        "rows": data.n_rows,
        "nonzeros": data.n_entries,
        "nonzeros_a_row": data.n_entries / data.n_rows,
        "nfnz": nfnz_ratio(sample, seed=seed),
    }


@dataclass(frozen=True, eq=False)
class _Case:
    """A data set and a loss."""

    protocol: str
    data: Dataset
    loss: str
    plan: PaperPlan
    around: Surroundings

    def rows(self, facts: Mapping[str, float], singular: bool) -> Iterator[Row]:
        best = yield from self.step_size()
        if best is None:
            yield self.row("data", SEQUENTIAL, measures=facts, reason="every step size diverges")
            return
        step_size, sequential = best
        yield self.row("data", SEQUENTIAL, settings=self.settings(step_size), measures={**facts, "auc": sequential.auc})
        chosen = yield from self.configuration(step_size, sequential)
        yield from self.speedup(step_size, sequential, chosen)
        if singular:
            yield from self.singular_values(step_size, sequential)

    def step_size(self) -> Generator[Row, None, tuple[float, Trained] | None]:
        """The best, and the sequential run that it gives."""
        tried: dict[float, Trained] = {}
        sweep = sweep_step_sizes(self.task(1), Sequential(), self.plan.steps[self.loss], self.plan.n_passes)
        for step_size, trained in sweep:
            tried[step_size] = trained
            measures = {} if trained.reason else {"seconds": trained.seconds, "auc": trained.auc}
            yield self.row("step size", SEQUENTIAL, 1, self.settings(step_size), measures, trained.reason)
        best = best_of(tried)
        return None if best is None else (best, tried[best])

    def configuration(
        self, step_size: float, sequential: Trained
    ) -> Generator[Row, None, dict[str, Configuration | None]]:
        """The choice for every parallel system; None where no configuration can be trained."""
        most = max(self.plan.thread_counts)
        task = self.task(most)
        chosen: dict[str, Configuration | None] = {}
        for system, configurations in self.plan.configurations.items():
            tried = []
            for one in configurations:
                trained = train(task, one.strategy, step_size, self.plan.n_passes)
                tried.append((one, trained))
                settings, measures = self.settings(step_size, one.settings), trained.measures(sequential)
                yield self.row("configuration", system, most, settings, measures, trained.reason)
            chosen[system] = choose(tried, sequential)
        return chosen

    def speedup(
        self, step_size: float, sequential: Trained, chosen: Mapping[str, Configuration | None]
    ) -> Iterator[Row]:
        """All systems in turns. Sequential rows say beside how many threads they were measured."""
        for n_threads in self.plan.thread_counts:
            alone, shared = self.task(1), self.task(n_threads)
            for repeat in range(self.plan.repeats):
                trained = train(alone, Sequential(), step_size, self.plan.n_passes)
                settings = self.settings(step_size, {"beside": n_threads})
                yield self.row("speedup", SEQUENTIAL, 1, settings, trained.measures(sequential), trained.reason, repeat)
                for system, one in chosen.items():
                    if one is None:
                        if not repeat:
                            reason = "no configuration can be trained"
                            yield self.row("speedup", system, n_threads, self.settings(step_size), reason=reason)
                        continue
                    trained = train(shared, one.strategy, step_size, self.plan.n_passes)
                    settings, measures = self.settings(step_size, one.settings), trained.measures(sequential)
                    yield self.row("speedup", system, n_threads, settings, measures, trained.reason, repeat)

    def singular_values(self, step_size: float, sequential: Trained) -> Iterator[Row]:
        """With the step size of the runs, and with that of the paper's figure."""
        assert sequential.model is not None
        for own in dict.fromkeys((step_size, PAPER_STEP_SIZES.get(self.loss, step_size))):
            self.around.tell(f"singular values of {self.data.name}, {self.loss}, step size {own:g}")
            blocks = self.plan.singular_blocks
            for one in block_values(self.data, sequential.model, self.loss, own, blocks, self.around.seed):
                settings = {"step_size": own, "trained_with": step_size, "block_size": one.block_size}
                yield self.row("singular values", one.matrix, 1, settings, one.by_rank)

    def task(self, n_threads: int) -> Task:
        return Task(self.data, self.loss, alpha=0.0, n_threads=n_threads, seed=self.around.seed)

    def settings(self, step_size: float, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {"step_size": step_size, "passes": self.plan.n_passes, **(more or {})}

    def row(
        self,
        part: str,
        system: str,
        threads: int = 1,
        settings: Mapping[str, Any] | None = None,
        measures: Mapping[str, float] | None = None,
        reason: str = "",
        repeat: int = 0,
    ) -> Row:
        return Row(
            self.protocol, part, self.data.name, system, threads, self.loss, self.around.seed, repeat,
            settings or {}, measures or {}, reason,
        )  # fmt: skip
