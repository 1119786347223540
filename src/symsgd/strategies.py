"""The strategies: who trains which rows, which weights are whose, and how the threads' models become one.

A strategy is three choices: what is replicated per thread, which combiner merges the replicas
(:mod:`symsgd.combiners`), and how threads meet. A page of the documentation each: docs/strategies/.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from symsgd._choices import Choice, check_count, check_number, resolve_choice
from symsgd.combiners import LARGEST_MATRIX, AdaGradMean, Combiner, Curvature, Exact, Mean, Projected, Sum
from symsgd.penalties import L1, ElasticNet, Lasso
from symsgd.schedules import Constant, Schedule
from symsgd.threads import available_cores

if TYPE_CHECKING:
    from symsgd.problem import Rule


LARGEST_BATCH = 256  # rows that a thread takes from the order at a time
LEAST_WORK = 50_000_000  # entries in all passes, about a tenth of a second on one core; below, threads do not pay
PASSES_TO_EXPECT = 10  # where a tolerance may end the training
COPIES_SHARE = 0.2  # of the entries in all passes, as many numbers as the copies of a model may have
MOST_PLACES = 4096  # features, the most frequent ones, that the directions of Curvature may have
ONLY_WORTH = True  # Curvature with block_size="auto": no rounds where one thread is as fast, but in tests
# A copy of the indices with frequent features in front costs about a pass, and pays where merges would be long.
RENUMBER_FROM = 16_384  # features
RENUMBER_PASSES = 3
SHORT_FEATURES = 2**16  # whose numbers take two bytes each, and four beyond
MOST_DIRECT = 4  # threads up to which Sliced has small blocks
SLICED_FROM = 2048  # bytes of a row from which on its threads have more to do than to meet
LEAST_SLICE = 500  # bytes of it that each then has
DIRECTIONS_FROM = 3  # threads; two are as fast by Sliced, whose steps are the sequential ones
DIRECTIONS_PASSES = 3  # that finding them pays in
STRIPS_FROM, STRIPS_PASSES = 8, 5  # threads and passes from which on copies of long sparse rows for each pay
LEAST_STRIP = 128  # bytes of a row that each then has
DIRECTIONS = 32  # that Directions follows, unless it is told
MOST_RANK = 256
LEAST_ROUND, MOST_ROUND = 32, 4096  # rows


@dataclass(frozen=True)
class Work:
    """What there is to be done, as far as it decides between strategies."""

    n_threads: int
    n_passes: int
    entries: int
    sparse: bool
    n_features: int
    n_models: int
    bytes_a_number: int
    memory: int
    mapped: bool = False  # the rows are in a file: no copy of them is kept
    n_rows: int = 0  # 0: not known


@dataclass(frozen=True)
class Strategy(Choice):
    """Base of all strategies."""

    @property
    def soft_curvature(self) -> bool:
        """Whether combiners look beyond the kinks of a loss."""
        return False

    @property
    def gathers(self) -> bool:
        """Whether its steps are AdaGrad's, which keep sums of squared gradients beside the weights."""
        return False

    def check(self, rule: Rule, shuffle: object) -> None:
        """Raises ValueError if the strategy cannot train by this rule, and says why."""

    def check_data(self, sparse: bool) -> None:
        """Raises ValueError if the strategy cannot train on such rows, and says why."""

    def check_checkpoint(self) -> None:
        """Raises ValueError if a training could not go on as if nothing had happened, and says why."""

    def needs_norms(self, rule: Rule) -> bool:
        """Whether steps depend on each entry of a row by itself, so that a feature may be there only once."""
        jumps = rule.loss.name in ("hinge", "perceptron", "epsilon_insensitive", "one_class")
        return isinstance(rule.penalty, Lasso) or rule.schedule.passive_aggressive or (self.soft_curvature and jumps)

    def schedule(self, schedule: Schedule) -> Schedule:
        """The schedule the training will follow: ``schedule``, unless the strategy brings its own."""
        return schedule

    def native(self, work: Work) -> dict[str, Any]:
        """The strategy in the core's words."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sequential(Strategy):
    """One thread, row after row: the run that every other strategy is compared with."""

    name: ClassVar[str] = "sequential"

    def native(self, work: Work) -> dict[str, Any]:
        return {"kind": "sequential"}


@dataclass(frozen=True)
class _ByFeatures(Strategy):
    """Threads that share features, not rows."""

    def check(self, rule: Rule, shuffle: object) -> None:
        if isinstance(rule.penalty, (L1, ElasticNet, Lasso)):
            raise ValueError(
                f"strategy={self.name!r} does not work with penalty={rule.penalty.name!r}, which looks at every weight "
                "at every step; use penalty='l2'"
            )
        if rule.average_from:
            raise ValueError(
                f"strategy={self.name!r} does not work with average, a mean of models that it does not make"
            )


@dataclass(frozen=True)
class Sliced(_ByFeatures):
    """Threads share the features of dense rows, not the rows: the steps are those of the sequential run, one after the
    other, but for rounding.

    They meet every ``block_size`` rows, which are then known by their products with each other; "auto" is 8 for two
    threads, 16 for up to four, else 32. Rows that are too short for all threads are cut for fewer. Same data, seed and
    number of threads give the same bits.
    """

    name: ClassVar[str] = "sliced"
    block_size: Literal["auto", 8, 16, 24, 32, 48, 64] = "auto"

    def __post_init__(self) -> None:
        if self.block_size not in ("auto", 8, 16, 24, 32, 48, 64) or isinstance(self.block_size, float):
            raise ValueError(
                f"block_size={self.block_size!r} is not accepted; it must be 'auto', 8, 16, 24, 32, 48 or 64"
            )

    def check_data(self, sparse: bool) -> None:
        if sparse:
            raise ValueError(
                f"strategy={self.name!r} cuts rows by their features, and X is sparse; use strategy='auto'"
            )

    def native(self, work: Work) -> dict[str, Any]:
        few = 8 if work.n_threads <= 2 else 16 if work.n_threads <= MOST_DIRECT else 32
        rows = few if self.block_size == "auto" else self.block_size
        return {
            "kind": "sliced",
            "threads": work.n_threads,
            "cores": min(work.n_threads, available_cores()),
            "block_size": rows,
        }


@dataclass(frozen=True)
class Directions(_ByFeatures):
    """Threads share the features, not the rows. What the steps of ``block_size`` rows do to each other is
    followed along the ``rank`` sharpest directions of the data, one row after the other; the rest comes a round late.

    How far that is from the sequential run is measured, and reported for every pass; with ``block_size="auto"`` rounds
    have as many rows as keep it below ``tolerance``, a share of the spread of predictions. Same data, seed and number
    of threads give the same bits.
    """

    name: ClassVar[str] = "directions"
    rank: int | Literal["auto"] = "auto"
    block_size: int | Literal["auto"] = "auto"
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.rank != "auto":
            check_count("rank", self.rank, at_most=MOST_RANK, auto=True)
        if self.block_size != "auto":
            check_count("block_size", self.block_size, at_least=LEAST_ROUND, at_most=MOST_ROUND, auto=True)
        check_number("tolerance", self.tolerance, above=0.0)

    @property
    def soft_curvature(self) -> bool:
        return True  # without it a loss with kinks would seem to have no error

    def needs_norms(self, rule: Rule) -> bool:
        return True

    def native(self, work: Work) -> dict[str, Any]:
        if work.sparse and work.mapped:
            raise ValueError(
                f"strategy={self.name!r} keeps a copy of sparse rows, and X is in a file; use strategy='auto'"
            )
        return {
            "kind": "directions",
            "threads": work.n_threads,
            "cores": min(work.n_threads, available_cores()),
            "block_size": 0 if self.block_size == "auto" else self.block_size,
            "k": DIRECTIONS if self.rank == "auto" else self.rank,
            "tolerance": self.tolerance,
        }


@dataclass(frozen=True)
class _Racy(Strategy):
    """Threads that change one model at any time."""

    def check(self, rule: Rule, shuffle: object) -> None:
        if isinstance(rule.penalty, (L1, ElasticNet, Lasso)):
            raise ValueError(
                f"strategy={self.name!r} does not work with penalty={rule.penalty.name!r}: beside each weight that "
                "penalty keeps what the weight has paid, and threads that change the two at any time pay too often or "
                "not at all; use a strategy in rounds ('mr-symsgd'), or penalty='l2'"
            )
        if rule.average_from:
            raise ValueError(
                f"strategy={self.name!r} does not work with average: its threads leave no sequence of models to take "
                "the mean of; use a strategy in rounds ('mr-symsgd')"
            )


@dataclass(frozen=True)
class Hogwild(_Racy):
    """All threads step on one shared model, without locks; updates that meet may be lost (Recht et al. 2011)."""

    name: ClassVar[str] = "hogwild"

    def native(self, work: Work) -> dict[str, Any]:
        return {"kind": "hogwild", "threads": work.n_threads}


def _check_batch(batch_size: int) -> None:
    check_count("batch_size", batch_size, at_most=LARGEST_BATCH)


@dataclass(frozen=True)
class HogBatch(_Racy):
    """Hogwild! in mini-batches: predictions of ``batch_size`` rows first, then their updates (Sallinen et al. 2016)."""

    name: ClassVar[str] = "hogbatch"
    batch_size: int = 16

    def __post_init__(self) -> None:
        _check_batch(self.batch_size)

    def native(self, work: Work) -> dict[str, Any]:
        return {"kind": "hogbatch", "threads": work.n_threads, "batch_size": self.batch_size}


@dataclass(frozen=True)
class RoundRobin(_Racy):
    """Threads predict ``batch_size`` rows when they like, and update in turn: none is lost, and none is later than the
    number of threads (Langford et al. 2009)."""

    name: ClassVar[str] = "round-robin"
    batch_size: int = 1

    def __post_init__(self) -> None:
        _check_batch(self.batch_size)

    def native(self, work: Work) -> dict[str, Any]:
        return {"kind": "round-robin", "threads": work.n_threads, "batch_size": self.batch_size}


def _native_combiner(combiner: Combiner, n_features: int) -> dict[str, Any]:
    match combiner:
        case Exact(form, keep):
            matrix = form == "matrix" or (form == "auto" and (keep or n_features <= LARGEST_MATRIX))
            return {"combiner": "matrix" if matrix else "walk", "keep": keep}
        case Projected(k):
            return {"combiner": "projected", "k": k}
        case _:
            return {"combiner": combiner.name}


def _native_rounds(combiner: Combiner, block_size: int, n_threads: int, n_features: int) -> dict[str, Any]:
    # a round has a block a thread, whoever trains them: more threads than cores would only be in each other's way
    return {
        "kind": "rounds",
        "threads": n_threads,
        "cores": min(n_threads, available_cores()),
        "block_size": block_size,
        **_native_combiner(combiner, n_features),
    }


def _native_curvature(kind: str, combiner: Curvature, block_size: int | str, work: Work) -> dict[str, Any]:
    pays = work.sparse and work.n_features >= RENUMBER_FROM and work.n_passes >= RENUMBER_PASSES
    index_bytes = 2 if work.n_features <= SHORT_FEATURES else 4
    fits = index_bytes * work.entries < work.memory / 2 and work.n_features < 2**31
    return {
        "kind": kind,
        "threads": work.n_threads,
        "cores": min(work.n_threads, available_cores()),
        "block_size": 0 if block_size == "auto" else block_size,
        "k": 0 if combiner.rank == "auto" else combiner.rank,
        "refine": -1 if combiner.refine == "auto" else combiner.refine,
        "tolerance": combiner.tolerance,
        "renumber": kind == "curvature" and pays and fits and work.n_threads > 1 and not work.mapped,
        "places": MOST_PLACES,
        "only_worth": ONLY_WORTH,
    }


def _check_curvature(strategy: Strategy, rule: Rule) -> None:
    if rule.schedule.passive_aggressive:
        raise ValueError(
            f"strategy={strategy.name!r} with combiner=Curvature() needs to know the step sizes of a block beforehand; "
            f"schedule={rule.schedule.name!r} takes them from the margins; use combiner=Projected()"
        )
    if isinstance(rule.penalty, Lasso):
        raise ValueError(
            f"strategy={strategy.name!r} with combiner=Curvature() does not merge the halves of weights that "
            "penalty='lasso' keeps; use combiner=Projected(), or penalty='l1'"
        )


def _check_adagrad(strategy: Strategy, rule: Rule) -> None:
    if rule.schedule.passive_aggressive:
        raise ValueError(
            f"strategy={strategy.name!r} brings AdaGrad's step sizes; schedule={rule.schedule.name!r} takes its own "
            "from the margin, and there is no step that is both"
        )
    if isinstance(rule.penalty, Lasso):
        raise ValueError(
            f"strategy={strategy.name!r} has a step size for each weight; penalty='lasso' shrinks every weight at "
            "every step by the same; use penalty='l1'"
        )
    if rule.loss.name == "one_class":
        raise ValueError(
            f"strategy={strategy.name!r} has a step size for each weight; the offset of the one-class loss follows one "
            "step size at every row"
        )


@dataclass(frozen=True)
class Averaging(Strategy):
    """A thread trains its share of the pass alone; the models' mean starts the next pass (Zinkevich et al. 2010)."""

    name: ClassVar[str] = "averaging"

    def native(self, work: Work) -> dict[str, Any]:
        return _native_rounds(Mean(), 0, work.n_threads, work.n_features)


@dataclass(frozen=True)
class AllReduce(Strategy):
    """Averaging with AdaGrad's rates, ``step_size`` / √G_i for weight i whatever the schedule says, and a mean in which
    a thread's weight i counts by its G_i (Agarwal et al. 2014)."""

    name: ClassVar[str] = "allreduce"
    step_size: float = 0.5

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, above=0.0)

    @property
    def gathers(self) -> bool:
        return True

    def check(self, rule: Rule, shuffle: object) -> None:
        _check_adagrad(self, rule)

    def needs_norms(self, rule: Rule) -> bool:
        return True

    def schedule(self, schedule: Schedule) -> Schedule:
        return Constant(self.step_size)

    def native(self, work: Work) -> dict[str, Any]:
        return _native_rounds(AdaGradMean(self.step_size), 0, work.n_threads, work.n_features)


@dataclass(frozen=True)
class ParameterServer(_Racy):
    """A thread trains ``block_size`` rows on a copy of what they need and adds its movement to the model (Li et al.
    2014)."""

    name: ClassVar[str] = "parameter-server"
    block_size: int = 256

    def __post_init__(self) -> None:
        check_count("block_size", self.block_size, at_most=2**62)

    def native(self, work: Work) -> dict[str, Any]:
        return {
            "kind": "parameter-server",
            "threads": work.n_threads,
            "block_size": self.block_size,
            **_native_combiner(Sum(), work.n_features),
        }


def _check_combiner(combiner: object, accepted: tuple[type[Combiner], ...]) -> None:
    if not isinstance(combiner, accepted):
        names = ", ".join(kind.__name__ for kind in accepted)
        raise ValueError(f"combiner={combiner!r} is not accepted; it must be one of symsgd.combiners: {names}")


def _check_block(block_size: object, combiner: Combiner) -> None:
    if block_size != "auto":
        check_count("block_size", block_size, at_most=2**62, auto=isinstance(combiner, Curvature))
    elif not isinstance(combiner, Curvature):
        raise ValueError(
            f"block_size='auto' follows the measured error of combiner=Curvature(), which {combiner!r} does "
            "not measure; give a number of rows"
        )
    elif combiner.refine != "auto":
        raise ValueError(
            f"block_size='auto' follows the error that combiner=Curvature(refine='auto') measures; "
            f"refine={combiner.refine} needs a number of rows"
        )


@dataclass(frozen=True)
class MapReduce(Strategy):
    """MR-SymSGD: rounds of one block of ``block_size`` rows a thread, all from the same model, merged in order.

    It approximates the sequential run over the same rows in the same order, whatever the number of threads. Same data,
    seed and number of threads give the same bits.
    """

    name: ClassVar[str] = "mr-symsgd"
    combiner: Combiner = field(default_factory=Projected)
    block_size: int | Literal["auto"] = 64

    def __post_init__(self) -> None:
        _check_combiner(self.combiner, (Exact, Projected, Curvature, Sum, Mean, AdaGradMean))
        _check_block(self.block_size, self.combiner)

    @property
    def soft_curvature(self) -> bool:
        return bool(getattr(self.combiner, "soft_curvature", False))

    @property
    def gathers(self) -> bool:
        return isinstance(self.combiner, AdaGradMean)

    def check(self, rule: Rule, shuffle: object) -> None:
        if isinstance(self.combiner, AdaGradMean):
            _check_adagrad(self, rule)
        if isinstance(self.combiner, Curvature):
            _check_curvature(self, rule)
            if isinstance(rule.penalty, (L1, ElasticNet)) and self.combiner.refine not in ("auto", 0):
                raise ValueError(
                    f"combiner=Curvature(refine={self.combiner.refine}) trains blocks again, and would pay "
                    f"penalty={rule.penalty.name!r} again; refine='auto' or 0 merges what has been paid"
                )
        if isinstance(self.combiner, Exact) and self.combiner.keep:
            wanted = {
                "loss='squared_error'": rule.loss.name == "squared_error",
                "penalty None or 'l2'": rule.penalty.name in ("none", "l2"),
                "schedule='constant'": rule.schedule.name == "constant",
                "shuffle=False": shuffle is False,
                "no average": not rule.average_from,
            }
            missing = [need for need, there in wanted.items() if not there]
            if missing:
                raise ValueError(
                    f"combiner=Exact(keep=True) needs {' and '.join(missing)}: only then are a block's combiners the "
                    "same in every pass"
                )

    def check_checkpoint(self) -> None:
        if isinstance(self.combiner, Exact) and self.combiner.keep:
            raise ValueError(
                "combiner=Exact(keep=True) keeps a matrix a block, which a checkpoint does not; keep=False goes with it"
            )

    def needs_norms(self, rule: Rule) -> bool:
        return isinstance(self.combiner, (AdaGradMean, Curvature)) or super().needs_norms(rule)

    def schedule(self, schedule: Schedule) -> Schedule:
        return Constant(self.combiner.step_size) if isinstance(self.combiner, AdaGradMean) else schedule

    def native(self, work: Work) -> dict[str, Any]:
        if isinstance(self.combiner, Curvature):
            return _native_curvature("curvature", self.combiner, self.block_size, work)
        assert self.block_size != "auto"
        return _native_rounds(self.combiner, self.block_size, work.n_threads, work.n_features)


@dataclass(frozen=True)
class Async(_Racy):
    """Async-SymSGD: frequent features are merged with a combiner when a thread's block ends, without waiting for the
    others; all other weights are shared as in Hogwild!.

    A feature is frequent if at least ``frequent_threshold`` of ``frequent_sample`` rows have it. With
    ``combiner=Curvature()`` every feature is replicated and merged, and ``block_size`` may be "auto". Runs differ from
    one another when there is more than one thread.
    """

    name: ClassVar[str] = "async-symsgd"
    combiner: Combiner = field(default_factory=Projected)
    block_size: int | Literal["auto"] = 256
    frequent_threshold: float = 0.1
    frequent_sample: int = 1000

    def __post_init__(self) -> None:
        check_number("frequent_threshold", self.frequent_threshold, at_least=0.0, at_most=1.0)
        check_count("frequent_sample", self.frequent_sample)
        _check_combiner(self.combiner, (Exact, Projected, Curvature, Sum))
        _check_block(self.block_size, self.combiner)
        if isinstance(self.combiner, Curvature):
            self._check_curvature(self.combiner)
        if isinstance(self.combiner, Exact) and (self.combiner.form == "walk" or self.combiner.keep):
            raise ValueError(
                "Async merges blocks as they end, so there is no second walk and no block that comes again; "
                "combiner=Exact(form='matrix') keeps a matrix over the frequent features"
            )

    @property
    def soft_curvature(self) -> bool:
        return bool(getattr(self.combiner, "soft_curvature", False))

    def _check_curvature(self, combiner: Curvature) -> None:
        if combiner.refine not in ("auto", 0):
            raise ValueError(
                f"Async has no rounds that combiner=Curvature(refine={combiner.refine}) could sweep over again; "
                "refine='auto' measures the error of a merge now and then, refine=0 never does"
            )
        for parameter in ("frequent_threshold", "frequent_sample"):
            value = getattr(self, parameter)
            if value != type(self).__dataclass_fields__[parameter].default:
                raise ValueError(
                    f"{parameter}={value!r} says which features are shared as in Hogwild!; combiner=Curvature() "
                    "merges all of them"
                )

    def check(self, rule: Rule, shuffle: object) -> None:
        super().check(rule, shuffle)
        if isinstance(self.combiner, Curvature):
            _check_curvature(self, rule)

    def needs_norms(self, rule: Rule) -> bool:
        return isinstance(self.combiner, Curvature) or super().needs_norms(rule)

    def native(self, work: Work) -> dict[str, Any]:
        if isinstance(self.combiner, Curvature):
            return _native_curvature("async-curvature", self.combiner, self.block_size, work)
        combiner = Exact(form="matrix") if isinstance(self.combiner, Exact) else self.combiner
        return {
            "kind": "asynchronous",
            "threads": work.n_threads,
            "block_size": self.block_size,
            "frequent": self.frequent_threshold,
            "sample": self.frequent_sample,
            **_native_combiner(combiner, work.n_features),
        }


@dataclass(frozen=True)
class Auto(Strategy):
    """Chooses for you, and says in the result what it chose and why: sequential where the work is small or one core is
    all there is, ``Sliced()`` for long dense rows on two threads and ``Directions()`` on more, also for long sparse
    rows on many, else ``MapReduce(Curvature(), block_size="auto")``."""

    name: ClassVar[str] = "auto"

    def decide(self, rule: Rule, work: Work) -> tuple[Strategy, Work, str]:
        """The strategy for this work, the work as it is given to it, and why. Fewer threads may share it: what they
        merge grows with each."""
        parallel = MapReduce(Curvature(), block_size="auto")
        if work.n_threads == 1:
            return Sequential(), work, "sequential: there is one thread"
        if work.entries * work.n_passes < LEAST_WORK:
            return (
                Sequential(),
                work,
                (
                    f"sequential: {work.entries * work.n_passes:,} entries in all passes are trained in less time than "
                    f"threads take to agree ({LEAST_WORK:,} would be enough)"
                ),
            )
        row = work.n_features * work.bytes_a_number
        if not work.sparse and row >= SLICED_FROM and _trains(Sliced(), rule):
            threads = min(work.n_threads, row // LEAST_SLICE)
            kept = work.entries // work.n_features * DIRECTIONS * work.bytes_a_number
            if threads >= DIRECTIONS_FROM and work.n_passes >= DIRECTIONS_PASSES and kept < work.memory / 8:
                return (
                    Directions(),
                    replace(work, n_threads=threads),
                    (
                        f"directions: {threads} threads share the {work.n_features:,} features of dense rows, and what "
                        "steps do to each other is followed along the sharpest directions, as far as the measured "
                        "error allows"
                    ),
                )
            return (
                Sliced(),
                replace(work, n_threads=threads),
                (
                    f"sliced, which makes the sequential run's steps: {threads} threads share the "
                    f"{work.n_features:,} features of dense rows"
                ),
            )
        if threads := _threads_of_strips(rule, work):
            return (
                Directions(),
                replace(work, n_threads=threads),
                (
                    f"directions: {threads} threads share the features of rows of {work.entries // work.n_rows:,} "
                    "entries, and what steps do to each other is followed along the sharpest directions, as far as the "
                    "measured error allows"
                ),
            )
        try:
            parallel.check(rule, None)
        except ValueError as reason:
            return Sequential(), work, f"sequential: {reason}"
        against = _against_copies(work)
        fewer = work
        while against and fewer.n_threads > 3 and _against_copies(fewer):
            fewer = replace(fewer, n_threads=fewer.n_threads // 2)
        if _against_copies(fewer):
            return Sequential(), work, f"sequential: {_against_copies(fewer)}"
        return (
            parallel,
            fewer,
            (
                f"mr-symsgd with the curvature combiner, blocks as large as their measured error allows: "
                f"{work.entries:,} entries a pass on {fewer.n_threads} threads"
                + (f", for {against}" if against else "")
            ),
        )


def _trains(strategy: Strategy, rule: Rule) -> bool:
    try:
        strategy.check(rule, None)
    except ValueError:
        return False
    return True


def _threads_of_strips(rule: Rule, work: Work) -> int:
    """How many threads should share the features of sparse rows; 0 if rows are too short for that, or there is no room
    for the copy of them, what directions see of them, and two models."""
    if not work.sparse or work.mapped or work.n_rows == 0 or work.n_models > 1 or not _trains(Directions(), rule):
        return 0
    each = work.bytes_a_number
    row = work.entries // work.n_rows * (each + 4)
    copies = work.n_rows * (row + DIRECTIONS * each) + 2 * work.n_features * each
    threads = min(work.n_threads, row // LEAST_STRIP)
    enough = row >= SLICED_FROM and threads >= STRIPS_FROM and work.n_passes >= STRIPS_PASSES
    return threads if enough and copies < work.memory / 2 else 0


def _against_copies(work: Work) -> str:
    """Why the copies of the model that the curvature combiner makes for so many threads do not pay; or nothing."""
    replicas = (2 * work.n_threads + 6) * work.n_features * work.n_models * work.bytes_a_number
    if replicas > work.memory / 2:
        return (
            f"copies of the model for {work.n_threads} threads would take {replicas / 2**30:.1f} GiB of "
            f"{work.memory / 2**30:.1f}"
        )
    numbers = 2 * work.n_threads * work.n_features * work.n_models
    if numbers > COPIES_SHARE * work.entries * work.n_passes:
        return (
            f"copies of the model for {work.n_threads} threads would have {numbers:,} numbers, more than a fifth of "
            f"the {work.entries * work.n_passes:,} entries in all passes"
        )
    return ""


STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (
        Sequential, Sliced, Directions, Hogwild, HogBatch, RoundRobin, Averaging, AllReduce, ParameterServer,
        MapReduce, Async, Auto,
    )
}  # fmt: skip


def resolve(strategy: str | Strategy) -> Strategy:
    """The strategy itself, or that of the name."""
    return resolve_choice("strategy", strategy, STRATEGIES, Strategy)
