"""A round on the cluster: what is asked of the scheduler, who is asked first, and what is done when a worker dies.

Tasks of a round depend on the model and on partitions. A partition that a dead worker has had is computed again from
the collection's graph, or opened again by path, by Dask itself; so are blocks and merges. Only what the client has
scattered, large models and the curvature, cannot be: then the round is asked for again, with the same numbers and so
with the same result.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from symsgd.dask import worker
from symsgd.dask.costs import INLINE
from symsgd.dask.lanes import Block
from symsgd.dask.means import Sums
from symsgd.dask.merging import ARITY, Curvature, Stretch, tree
from symsgd.dask.partitions import Partitions
from symsgd.dask.rows import Stored

if TYPE_CHECKING:
    from distributed import Client, Future

Array = npt.NDArray[Any]

logger = logging.getLogger("symsgd")

ATTEMPTS = 10  # at one round, each ended by the death of workers, before the training gives up
PATIENCE = 300  # seconds without a single worker before it does: new ones may be on their way


@dataclass(frozen=True)
class Outcome:
    """The blocks of a round, merged; and, of a checked one, what the last block run again predicts of the probe."""

    whole: Stretch
    again: Array | None


class Cluster:
    """The workers of one training."""

    def __init__(self, client: Client, partitions: Partitions, training: worker.Training, probe: Any) -> None:
        self.client, self.partitions, self.training, self.probe = client, partitions, training, probe
        self._name = f"symsgd-{uuid4().hex[:8]}"
        self._numbers = itertools.count()
        self._sent: dict[str, tuple[Any, Future]] = {}  # what outlives a round
        self.repeated = 0  # rounds that were asked for again

    def round(
        self,
        model: worker.Model,
        blocks: Sequence[Block],
        log_starts: Sequence[float],
        curvature: Curvature,
        check: bool,
    ) -> Outcome:
        """Trains and merges. ``log_starts``: by how much the model has decayed where each block begins."""

        def ask() -> list[Future]:
            sent, shape = self._send(model), self._kept("curvature", curvature)
            last = len(blocks) - 1
            parts = [self._block(sent, shape, blocks[i], log_starts[i], "stretch", None) for i in range(len(blocks))]
            before = self._reduce(parts[:last], shape)
            root = self._submit("root", worker.finish_round, before, parts[last], shape) if before else parts[last]
            if not check or before is None:
                return [root]
            return [root, self._block(sent, shape, blocks[last], 0.0, "predictions", before)]

        whole, *seen = self._gathered(ask)
        again = seen[0] if seen else None
        if check and seen and again is None:
            again = np.full((self.training.n_models, self.probe.shape[0]), np.nan)
        return Outcome(whole, again)

    def sums(self, model: worker.Model, blocks: Sequence[Block]) -> Sums:
        """Trains, and adds up for a mean."""

        def ask() -> list[Future]:
            sent = self._send(model)
            parts = [self._block(sent, None, block, 0.0, "sums", None) for block in blocks]
            while len(parts) > 1:
                groups = [parts[begin : begin + ARITY] for begin in range(0, len(parts), ARITY)]
                parts = [
                    self._submit("sum", worker.merge_sums, group) if len(group) > 1 else group[0] for group in groups
                ]
            return parts

        (whole,) = self._gathered(ask)
        assert isinstance(whole, Sums)
        return whole

    def _reduce(self, parts: list[Future], curvature: Future) -> Future | None:
        """The stretch before the last block, along the tree that the number of blocks fixes."""
        for level in tree(len(parts) + 1):
            parts = [
                self._submit("merge", worker.merge_stretches, [parts[i] for i in group], curvature)
                if len(group) > 1
                else parts[group[0]]
                for group in level
            ]
        return parts[0] if parts else None

    def _block(
        self, model: Any, curvature: Future | None, block: Block, log_start: float, finish: str, before: Any
    ) -> Future:
        """The segments of a block, one after the other, each where its partition is."""
        t = block.t
        for segment in block.segments:
            last = segment is block.segments[-1]
            source = self.partitions.sources[segment.partition]
            before = self._submit(
                "block", worker.train_segment, model, before, source, segment, t, log_start, self.training, curvature,
                finish if last else "movement", self._kept("probe", self.probe) if finish == "predictions" else None,
                workers=self._home(block.lane, source),
            )  # fmt: skip
            t += segment.rows
        future: Future = before
        return future

    # --- sending and asking ----------------------------------------------------------------------------------------

    def _submit(self, what: str, function: Any, *arguments: Any, workers: list[str] | None = None) -> Future:
        key = f"{self._name}-{what}-{next(self._numbers)}"
        return self.client.submit(
            function, *arguments, key=key, pure=False, workers=workers, allow_other_workers=workers is not None
        )

    def _send(self, value: Any) -> Any:
        """A future of it; or the value itself, which then is part of every task, if it is a small model."""
        if isinstance(value, worker.Model) and value.nbytes <= INLINE:
            return value
        return self.client.scatter(value, hash=False)

    def _kept(self, name: str, value: Any) -> Future:
        """Sent once, and again when it is another or was lost."""
        if name not in self._sent or self._sent[name][0] is not value:
            self._sent[name] = value, self._send(value)
        return self._sent[name][1]

    def _gathered(self, ask: Any) -> list[Any]:
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        for attempt in range(1, ATTEMPTS + 1):
            asked: list[Future] = []
            self._wait_for_a_worker()
            try:
                self._look_around()
                asked = ask()
                return list(self.client.gather(asked))
            except (CancelledError, FutureCancelledError, KilledWorker, OSError) as error:
                if isinstance(error, FileNotFoundError | PermissionError):
                    raise
                self._check_partitions(error)
                if attempt == ATTEMPTS:
                    raise RuntimeError(
                        f"workers died in {ATTEMPTS} attempts at the same round of a training; the last said: {error!r}"
                    ) from error
                logger.warning("a round is computed again: %r", error)
                self.repeated += 1
                self._sent.clear()
            except BaseException:
                self.client.cancel(asked)  # nobody waits for them
                raise
        raise AssertionError("unreachable")

    def _wait_for_a_worker(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise RuntimeError(f"the cluster has had no worker for {PATIENCE} seconds") from error

    def _check_partitions(self, error: BaseException) -> None:
        for number, source in enumerate(self.partitions.sources):
            if not isinstance(source, Stored) and source.status == "cancelled":
                raise RuntimeError(
                    f"partition {number} was in the memory of a worker that is gone, and cannot be computed again; "
                    "give a collection, delayed partitions or stores, not scattered data"
                ) from error

    # --- who is asked first ----------------------------------------------------------------------------------------

    def _look_around(self) -> None:
        """Which workers there are. Who is asked decides how long a round takes, never what comes of it."""
        threads = self.client.nthreads()
        most = max(threads.values(), default=1)
        self._seats = [address for turn in range(most) for address in sorted(threads) if threads[address] > turn]

    def _home(self, lane: int, source: Any) -> list[str] | None:
        """Where a lane of a store is read, round after round: its pages are in that machine's memory. Partitions in
        memory are found by the scheduler."""
        if not isinstance(source, Stored) or not self._seats:
            return None
        return [self._seats[lane % len(self._seats)]]
