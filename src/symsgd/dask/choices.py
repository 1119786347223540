"""Which strategies and rules make sense across workers, and what each becomes there."""

from __future__ import annotations

from dataclasses import dataclass

from symsgd import strategies
from symsgd.combiners import AdaGradMean, Curvature, Mean, Sum
from symsgd.penalties import L2, NoPenalty
from symsgd.problem import Rule
from symsgd.schedules import Adaptive
from symsgd.strategies import AllReduce, Auto, Averaging, MapReduce, ParameterServer, Sequential, Strategy

ACCEPTED = (
    "'auto', 'sequential', 'averaging', 'allreduce', 'parameter-server', 'mr-symsgd', and MapReduce with Curvature(), "
    "Sum(), Mean() or AdaGradMean()"
)


# Twice what one machine tolerates: an error fades in the rows that come after it, and rounds across workers are few and
# large, where those of threads are many and small and their errors add up.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Plan:
    """What workers' models become one by ("curvature", "sum", "mean", "adagrad"), and how large blocks are: None as
    large as the error allows, 0 all of a lane. ``within`` is the strategy of a block on its worker. ``pays``: rounds
    that cost more than they gain are not made. ``parallel``: there is more than one lane."""

    merges: str
    block_size: int | None
    within: Strategy
    tolerance: float
    rank: int | None
    measures: bool
    pays: bool
    parallel: bool
    reason: str


def plan_for(strategy: str | Strategy, rule: Rule) -> Plan:
    """Raises ValueError for what does not make sense across workers, and says why."""
    # the paper's projection would have to travel with every movement: by its name it is the combiner that needs not
    chosen = (
        MapReduce(Curvature(), block_size="auto") if strategy == "mr-symsgd" else strategies.resolve(strategy)
    )  # fmt: skip
    _check_rule(rule)
    automatic = isinstance(chosen, Auto)
    if isinstance(chosen, Auto):
        parallel = MapReduce(Curvature(tolerance=TOLERANCE), block_size="auto")
        try:
            parallel.check(rule, None)
            chosen = parallel
        except ValueError as error:
            return _plan("sum", None, f"sequential: {error}", parallel=False)
    chosen.check(rule, None)
    match chosen:
        case Sequential():
            return _plan("sum", None, "sequential: as asked; one block after the other", parallel=False)
        case Averaging():
            return _plan("mean", 0, "averaging: as asked; once a pass")
        case AllReduce():
            return _plan("adagrad", 0, "allreduce: as asked; once a pass", within=chosen)
        case ParameterServer(block_size):
            return _plan("sum", block_size, "parameter-server: as asked; movements are added up in rounds")
        case MapReduce(Curvature() as combiner, block_size):
            if combiner.refine not in ("auto", 0):
                raise ValueError(
                    f"combiner=Curvature(refine={combiner.refine}) trains blocks again and again, which is not made "
                    "across workers; refine='auto' measures the error, 0 does not"
                )
            return Plan(
                merges="curvature",
                block_size=None if block_size == "auto" else block_size,
                within=Auto(),
                tolerance=combiner.tolerance,
                rank=None if combiner.rank == "auto" else combiner.rank,
                measures=combiner.refine == "auto",
                pays=automatic,
                parallel=True,
                reason="mr-symsgd with the curvature combiner across workers, rounds as large as their measured error "
                "allows",
            )
        case MapReduce(Sum(), int(block_size)):
            return _plan("sum", block_size, "mr-symsgd: as asked; movements are added up in rounds")
        case MapReduce(Mean(), int(block_size)):
            return _plan("mean", block_size, "mr-symsgd: as asked; the mean of every round")
        case MapReduce(AdaGradMean(step_size), int(block_size)):
            within = AllReduce(step_size)
            return _plan("adagrad", block_size, "mr-symsgd: as asked; AdaGrad's mean of every round", within=within)
        case _:
            raise ValueError(f"strategy={chosen!r} does not make sense across workers; accepted are {ACCEPTED}")


def _plan(
    merges: str, block_size: int | None, reason: str, *, within: Strategy | None = None, parallel: bool = True
) -> Plan:
    return Plan(merges, block_size, within or Auto(), 0.01, None, False, False, parallel, reason)


def _check_rule(rule: Rule) -> None:
    if not isinstance(rule.penalty, NoPenalty | L2):
        raise ValueError(
            f"penalty={rule.penalty.name!r} does not work across workers, which have None and 'l2': it keeps beside "
            "each weight what the weight has paid, and that does not travel; train it on one machine"
        )
    if rule.average_from:
        raise ValueError("average does not work across workers: the iterates between two rounds are not kept there")


def check_several(rule: Rule, n_models: int) -> None:
    """Raises ValueError for what several models cannot have."""
    if isinstance(rule.schedule, Adaptive) and n_models > 1:
        raise ValueError(
            f"schedule='adaptive' lowers the step of each class by itself, which {n_models} classes cannot do across "
            "workers; use another schedule, or one machine"
        )
