"""The search for settings: many trainings for a few passes, ever fewer of them for ever more.

Successive halving (Jamieson and Talwalkar 2016): every candidate is trained for a pass; the better third goes on, from
where it is, for as many passes again; and so on until one is left or the passes are used up. Candidates are trained
side by side, each on one core, since one core's answer is what all cores together approximate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from symsgd.cli.frame import Output

if TYPE_CHECKING:
    from symsgd.cli.job import Job
    from symsgd.cli.targets import Array
    from symsgd.training import Result

KEPT = 3  # one in so many candidates goes on


@dataclass(frozen=True)
class Candidate:
    """Settings, and how far a training with them has come. ``loss`` is that of held-out rows; infinite: it diverged."""

    parameters: dict[str, Any]
    passes: int = 0
    loss: float = math.inf
    result: Result | None = None
    seconds: float = 0.0


def halve(
    job: Job, settings: Iterable[dict[str, Any]], held_out: Array, most_passes: int, threads: int,
    told: Callable[[int, list[Candidate]], None],
) -> list[Candidate]:  # fmt: skip
    """All candidates, the best first; ``told`` hears of each round."""
    going = [Candidate(own) for own in settings]
    ended: list[Candidate] = []
    passes = 1
    with ThreadPoolExecutor(threads) as pool:
        while True:
            trained = pool.map(partial(_trained, job, passes=passes, held_out=held_out), going)
            going = sorted(trained, key=lambda own: own.loss)
            told(passes, going)
            if passes >= most_passes or math.isinf(going[0].loss):
                return going + ended
            keep = max(1, len(going) // KEPT)
            going, ended = going[:keep], going[keep:] + ended
            passes = most_passes if keep == 1 else min(2 * passes, most_passes)


def _trained(job: Job, candidate: Candidate, passes: int, held_out: Array) -> Candidate:
    from symsgd.errors import DivergenceError

    if candidate.passes and candidate.result is None:
        return candidate  # it diverged
    own = job.with_parameters(**candidate.parameters)
    # a schedule that comes down to 0 has done so: more passes are another training
    begun = Candidate(candidate.parameters) if own.estimator.learning_rate == "linear" else candidate
    try:
        result = own.train(
            held_out, Output(quiet=True), n_passes=passes - begun.passes, tol=None, n_threads=1,
            strategy="sequential", device="cpu", seed=job.seed + begun.passes, init=begun.result, eval_set=None,
        )  # fmt: skip
    except DivergenceError:
        return dataclasses.replace(candidate, passes=passes, loss=math.inf, result=None)
    seconds = candidate.seconds + sum(record.seconds for record in result.passes)
    return Candidate(candidate.parameters, passes, own.held_out_loss(result, held_out), result, seconds)


@dataclass(frozen=True)
class Timed:
    """A strategy, and what it costs and gives with the settings found."""

    block_size: int
    k: int
    loss: float
    seconds: float


def time_blocks(
    job: Job, kind: type[Any], sizes: Iterable[tuple[int, int]], held_out: Array, passes: int
) -> Iterator[Timed]:
    """For every block size and k the loss after some passes on all cores, and the shortest of their times."""
    from symsgd.combiners import Projected
    from symsgd.errors import DivergenceError

    for block_size, k in sizes:
        try:
            result = job.train(
                held_out,
                Output(quiet=True),
                n_passes=passes,
                tol=None,
                strategy=kind(Projected(k), block_size),
                device="cpu",
                eval_set=None,
            )
        except DivergenceError:
            yield Timed(block_size, k, math.inf, math.inf)
            continue
        loss = job.held_out_loss(result, held_out)
        yield Timed(block_size, k, loss, min(record.seconds for record in result.passes))


def fastest(timed: Iterable[Timed], slack: float = 0.01) -> Timed:
    """The fastest of those whose loss is within ``slack`` of the best."""
    found = list(timed)
    best = min(own.loss for own in found)
    return min((own for own in found if own.loss <= best + slack * abs(best)), key=lambda own: own.seconds)


def around(centre: float, steps: int, factor: float) -> list[float]:
    """Numbers on both sides of ``centre``, each ``factor`` times the one before, as people write them."""
    return [float(f"{centre * factor**own:.2g}") for own in range(-steps, steps + 1)]
