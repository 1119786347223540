"""A round on the cluster: what is asked of the scheduler, who is asked first, and what is done when a worker dies.

Tasks of a round depend on partitions and on the movement of the round before, which workers take from each other: each
keeps the model and moves it on (:mod:`symsgd.dask.held`). So a round can be asked for while the one before it runs. A
partition that a dead worker has had is computed again from the collection's graph, or opened again by path, by Dask
itself. What cannot be, models and what the client has scattered, the client has: then rounds are asked for again from
its model, with the same numbers and so with the same result.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from symsgd.dask import worker
from symsgd.dask.costs import INLINE
from symsgd.dask.held import Model, ModelMissingError, Version, forget
from symsgd.dask.lanes import Block, Segment
from symsgd.dask.means import Sums
from symsgd.dask.merging import ARITY, Curvature, Movement, tree
from symsgd.dask.partitions import Partitions
from symsgd.dask.rows import Stored

if TYPE_CHECKING:
    from distributed import Client, Future

Array = npt.NDArray[Any]

logger = logging.getLogger("symsgd")

ATTEMPTS = 10  # at one round, each ended by the death of workers, before the training gives up
PATIENCE = 300  # seconds without a single worker before it does: new ones may be on their way
LONGEST_CHAIN = 64  # rounds that start from each other's futures: the scheduler keeps all of them

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """The blocks of a round, merged; and, of a checked one, what the last block run again predicts of the probe."""

    whole: Movement
    again: Array | None


@dataclass(frozen=True)
class Round:
    """What is asked for. ``log_starts``: by how much the model has decayed where each block begins."""

    blocks: Sequence[Block]
    log_starts: Sequence[float]
    curvature: Curvature
    check: bool
    active: tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """A round under way: the number of the model that it starts from, the workers that have that model then, the
    classes that it moves, futures of what comes of it, and how many rounds before it started from each other's.
    ``ends``: what ``root`` merges (:data:`symsgd.dask.worker.Ends`), if it is of several blocks. ``sent``: bytes of the
    model, if it went whole."""

    number: int
    homes: frozenset[str]
    active: tuple[int, ...]
    root: Future
    ends: tuple[Future, ...] | None
    again: Future | None
    chain: int
    sent: int

    @property
    def leads_on(self) -> Any:
        """What workers go on from. One or two of them have the ends of a round, or send each other as much as the root
        would be: they need not wait for it. More would send twice as much."""
        return self.root if self.ends is None or len(self.homes) > 2 else self.ends


class Cluster:
    """The workers of one training."""

    def __init__(self, client: Client, partitions: Partitions, training: worker.Training, probe: Any) -> None:
        self.client, self.partitions, self.training, self.probe = client, partitions, training, probe
        self._name = f"symsgd-{uuid4().hex[:8]}"
        self._numbers = itertools.count()
        self._sent: dict[str, tuple[Any, Future]] = {}  # what outlives a round
        self._seats: list[str] = []
        self._where: dict[int, str] = {}  # partitions in memory
        self.repeated = 0  # rounds that were asked for again

    def ask(self, own: Round, after: Asked | None, model: Callable[[], Model] | None) -> Asked | None:
        """Asks for a round that starts from the outcome of the one ``after``, which workers take from each other, or
        from ``model``, where there is none or workers have not followed. None: it needs a model that is not there yet.
        """
        self._look_around()
        homes = {self._home(block.lane, segment) for block in own.blocks for segment in block.segments}
        if after is not None and (after.chain >= LONGEST_CHAIN or not homes <= after.homes):
            after = None
        if after is None and model is None:
            return None
        number = next(self._numbers)
        if after is not None:
            start = (Version(self._name, number, after.number, after.active), None, after.leads_on)
            chain, sent = after.chain + 1, 0
        else:
            assert model is not None
            made = model()
            start = (Version(self._name, number, -1, ()), self._send(made), None)
            chain, sent = 0, made.nbytes
        shape = self._kept("curvature", own.curvature)
        blocks, end = own.blocks, len(own.blocks) - 1
        again: Future | None = None
        ends: tuple[Future, ...] | None = None
        if end == 0:
            root = self._block(start, shape, blocks[0], own.log_starts[0], "movement", None)
        else:
            parts = [self._block(start, shape, blocks[i], own.log_starts[i], "stretch", None) for i in range(end + 1)]
            before = self._reduce(parts[:end], shape)
            assert before is not None
            ends = before, parts[end], shape
            root = self._submit("root", worker.finish_round, self._name, number, *ends)
            if own.check:
                again = self._block(start, shape, blocks[end], 0.0, "predictions", before)
        known = frozenset(home for home in homes if home)
        return Asked(number, known, own.active, root, ends, again, chain, sent)

    def take(self, asked: Asked) -> Outcome:
        """Waits for it."""
        if asked.again is None:
            return Outcome(self.client.gather(asked.root), None)
        whole, again = self.client.gather([asked.root, asked.again])
        if again is None:
            again = np.full((self.training.n_models, self.probe.shape[0]), np.nan)
        return Outcome(whole, again)

    def drop(self, asked: Asked | None) -> None:
        """Nobody waits for it any more: the scheduler forgets what only it has asked for. (To cancel a round that
        others start from would cancel more than it.)"""
        if asked is not None:
            for future in (asked.again, asked.root):
                if future is not None:
                    future.release()

    def sums(self, model: Model, blocks: Sequence[Block]) -> Sums:
        """Trains, and adds up for a mean."""

        def attempt() -> Any:
            self._look_around()
            start = (None, self._send(model), None)
            parts = [self._block(start, None, block, 0.0, "sums", None) for block in blocks]
            while len(parts) > 1:
                groups = [parts[begin : begin + ARITY] for begin in range(0, len(parts), ARITY)]
                parts = [
                    self._submit("sum", worker.merge_sums, group) if len(group) > 1 else group[0] for group in groups
                ]
            return self.client.gather(parts[0])

        whole = self.persist(attempt)
        assert isinstance(whole, Sums)
        return whole

    def close(self) -> None:
        """Workers forget the model."""
        try:
            self.client.run(forget, self._name, on_error="ignore")
        except Exception as error:  # the training has its result
            logger.debug("workers were not told that a training has ended: %r", error)

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
        self, start: tuple[Any, ...], curvature: Future | None, block: Block, log_start: float, finish: str, before: Any
    ) -> Future:
        """The segments of a block, one after the other, each where its partition is."""
        t = block.t
        for segment in block.segments:
            ends = segment is block.segments[-1]
            home = self._home(block.lane, segment)
            before = self._submit(
                "block", worker.train_segment, *start, before, self.partitions.sources[segment.partition], segment, t,
                log_start, self.training, curvature, finish if ends else "movement",
                self._kept("probe", self.probe) if finish == "predictions" else None,
                workers=[home] if home else None,
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
        if isinstance(value, Model) and value.nbytes <= INLINE:
            return value
        return self.client.scatter(value, hash=False)

    def _kept(self, name: str, value: Any) -> Future:
        """Sent once, and again when it is another or was lost."""
        if name not in self._sent or self._sent[name][0] is not value:
            self._sent[name] = value, self._send(value)
        return self._sent[name][1]

    def persist(self, attempt: Callable[[], T], failed: Callable[[], None] = lambda: None) -> T:
        """What the attempt returns; it is made again when workers have died in it, after ``failed``."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        for number in range(1, ATTEMPTS + 1):
            self._wait_for_a_worker()
            try:
                return attempt()
            except (CancelledError, FutureCancelledError, KilledWorker, ModelMissingError, OSError) as error:
                failed()
                if isinstance(error, FileNotFoundError | PermissionError):
                    raise
                self._check_partitions(error)
                if number == ATTEMPTS:
                    raise RuntimeError(
                        f"workers died in {ATTEMPTS} attempts at the same round of a training; the last said: {error!r}"
                    ) from error
                logger.warning("a round is computed again: %r", error)
                self.repeated += 1
                self._sent.clear()
            except BaseException:
                failed()
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
        """Which workers there are, and who has the partitions. Who is asked decides how long a round takes, never what
        comes of it."""
        threads = self.client.nthreads()
        most = max(threads.values(), default=1)
        self._seats = [address for turn in range(most) for address in sorted(threads) if threads[address] > turn]
        in_memory = {i: own for i, own in enumerate(self.partitions.sources) if not isinstance(own, Stored)}
        if in_memory:
            known = self.client.who_has(list(in_memory.values()))
            found = {i: sorted(known.get(own.key, ())) for i, own in in_memory.items()}
            self._where = {i: addresses[0] for i, addresses in found.items() if addresses}

    def _home(self, lane: int, segment: Segment) -> str:
        """Where a segment is trained: where its partition is, and a lane of a store on the same worker round after
        round, whose machine then has its pages in memory. Nothing if that is for the scheduler to say."""
        if not isinstance(self.partitions.sources[segment.partition], Stored):
            return self._where.get(segment.partition, "")
        return self._seats[lane % len(self._seats)] if self._seats else ""
