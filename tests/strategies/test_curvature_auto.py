"""What the curvature combiner decides by itself, and says: the size of its blocks, sweeps, rank; and `strategy="auto"`,
which chooses it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from curvature_cases import curved, labels_of, off, one_hot, sequential, trained, zipf_rows
from strategy_cases import dense_rows, targets
from symsgd import Result, SGDClassifier, losses, penalties, schedules, strategies, train
from symsgd.callbacks import History
from symsgd.combiners import Curvature
from symsgd.data import twin
from symsgd.problem import Rule
from symsgd.strategies import Auto, Averaging, Directions, MapReduce, Sequential, Work

LOG = losses.LogLoss()
EASY = {"penalty": penalties.L2(1e-4), "schedule": schedules.Constant(0.005), "n_passes": 4}


def easy(n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    X = dense_rows(n, 10)
    rng = np.random.default_rng(3)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ rng.standard_normal(10))), 1.0, -1.0)


def at_the_end(rows: int, n_threads: int) -> int:
    """Rows of a pass that one thread trains last."""
    return rows // 256 if n_threads >= 4 else 0


# Blocks


@pytest.mark.parametrize("n_threads", [2, 4, 16])
def test_blocks_grow_on_easy_data(n_threads: int) -> None:
    """As long as a round has room for a block a thread."""
    X, y = easy(80_000)
    for matrix in (X, sp.csr_matrix(X)):
        result = trained(matrix, y, curved(), n_threads, **EASY)
        blocks = [record.mean_block or 0.0 for record in result.passes]
        assert blocks[-1] > 1.2 * blocks[0]
        assert result.passes[0].rows_alone >= len(y) // 16  # one thread begins
        assert blocks[-1] * n_threads <= len(y)
        assert result.passes[-1].rows_alone == at_the_end(len(y), n_threads)
        assert off(result, sequential(matrix, y, **EASY), X) < 0.03


@pytest.mark.parametrize("n_threads", [2, 3, 7])
@pytest.mark.parametrize("n", [30_011, 32_000, 41_777])
def test_a_pass_is_cut_into_rounds_that_are_alike(n: int, n_threads: int) -> None:
    """Hardly a row is left over for one thread at the end; a few blocks grow until a pass has four or five rounds, many
    double as long as it has four."""
    X, y = easy(n)
    last = trained(X, y, curved(tolerance=0.1), n_threads, **EASY | {"n_passes": 8}).passes[-1]
    assert last.rows_alone == at_the_end(n, n_threads)
    assert 4 * n_threads <= last.merges <= (5 if n_threads <= 4 else 8) * n_threads


def test_one_thread_goes_on_alone_on_hard_data() -> None:
    """Labels that can be told apart, and steps of 20: the curvature is another one after every step."""
    X, _ = easy(4000)
    case = EASY | {"schedule": schedules.Constant(20.0)}
    for n_threads in (2, 4, 16):
        for record in trained(X, X[:, 0] > 0, curved(), n_threads, **case).passes:
            assert record.rows_alone > 1000


def test_an_error_may_be_larger_where_chance_moves_more() -> None:
    """Two seeds of the sequential run are half of the spread of predictions apart; two blocks a round stay a tenth of
    that away from the sequential run, with errors above the tolerance. Not in the first pass, nor with many blocks."""
    rng = np.random.default_rng(0)
    n, fields, values = 60_000, 20, 200
    columns = np.minimum(rng.geometric(3 / values, (n, fields)) - 1, values - 1) + np.arange(fields) * values
    X = sp.csr_array((np.ones(n * fields), columns.ravel(), np.arange(n + 1) * fields), shape=(n, fields * values))
    y = rng.random(n) < 1 / (1 + np.exp(-0.3 * (X @ rng.standard_normal(fields * values))))
    case: dict[str, Any] = {"schedule": schedules.Constant(0.035), "n_passes": 4, "penalty": penalties.L2(1e-6)}

    few = trained(X, y, curved(), 2, **case)
    assert few.passes[0].rows_alone > n / 2
    assert sum(record.rows_alone for record in few.passes[1:]) < n / 4
    errors = [record.error for record in few.passes[1:] if record.error is not None]
    assert 0.01 < np.mean(errors) < 0.05
    many = trained(X, y, curved(), 16, **case)
    assert all(record.sweeps > 0 for record in many.passes)

    wanted = X @ sequential(X, y, **case).coef.ravel()
    other = X @ sequential(X, y, seed=1, **case).coef.ravel()
    assert np.std(X @ few.coef.ravel() - wanted) < 0.15 * np.std(other - wanted)


@pytest.mark.parametrize(("n_threads", "rows", "most"), [(2, 4000, 0.055), (4, 1000, 0.044), (8, 500, 0.049)])
def test_checks_say_how_sharp_features_are(n_threads: int, rows: int, most: float) -> None:
    """Every column is there eight times, so that rows do eight times as much to a weight as its own column says.
    Without that .067, .051 and .056."""
    X, y, case = one_hot(fields=6, values=330, alike=8, step_size=0.3)
    case["n_passes"] = 4
    assert off(trained(X, y, curved(rows), n_threads, **case), sequential(X, y, **case), X) < most


def test_the_loss_counts_as_predictions_do() -> None:
    """Labels that can nearly be told apart: all predictions are off by a little in the same direction, which is a small
    share of their spread, and more of the loss (1.4 % of it otherwise; from seed to seed it differs by 10)."""
    data = twin("url", 0.03)
    y = np.asarray(data.y) > 0
    case: dict[str, Any] = {"schedule": schedules.Constant(1.0), "n_passes": 6, "penalty": penalties.L2(1e-6)}
    off_by = []
    for seed in range(12):
        found, wanted = (
            float(np.logaddexp(0, -np.where(y, 1, -1) * result.decision(data.X)).mean())
            for result in (trained(data.X, y, curved(), 4, seed=seed, **case), sequential(data.X, y, seed=seed, **case))
        )
        off_by.append(abs(found / wanted - 1))
    assert 0.0 < np.median(off_by) < 0.008


def test_given_blocks_stay_as_they_are() -> None:
    X, y = easy(4000)
    for block_size in (10, 250):
        for record in trained(X, y, curved(block_size), 4, **EASY).passes:
            assert record.mean_block == block_size
            assert record.merges == 4000 // block_size


@pytest.mark.parametrize(("n", "n_threads"), [(1, 2), (5, 3), (40, 16), (70, 2)])
def test_first_blocks_leave_one_for_every_thread(n: int, n_threads: int) -> None:
    X, y = easy(100)
    for record in trained(X[:n], y[:n], curved(), n_threads, loss="squared_error", **EASY).passes:
        assert record.rows == n
        assert (record.mean_block or 0.0) <= max(1, n // n_threads)


def test_a_tolerance_is_a_price() -> None:
    """Fewer rows alone for more error, and the other way round."""
    X, y = easy()
    case = EASY | {"schedule": schedules.Constant(0.05)}
    wanted = sequential(X, y, **case)
    results = [trained(X, y, curved(tolerance=tolerance), 8, **case) for tolerance in (1e-3, 1e-1)]
    distances = [off(result, wanted, X) for result in results]
    assert distances[0] < distances[1] < 0.5
    alone = [sum(record.rows_alone for record in result.passes) for result in results]
    assert alone[0] > 4 * alone[1]


def test_sweeps_come_nearer() -> None:
    X, y = easy(4000)
    case = EASY | {"schedule": schedules.Constant(0.1)}
    wanted = sequential(X, y, **case)
    distances = [off(trained(X, y, curved(50, refine=refine), 7, **case), wanted, X) for refine in range(7)]
    assert distances[0] > 3 * distances[1] > 9 * distances[2] > 27 * distances[3]
    assert distances[6] < 1e-12


def test_directions_come_nearer() -> None:
    """Rows in 40 features as unlike one another as 1 and 1/40."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 40)) @ np.linalg.qr(rng.standard_normal((40, 40)))[0] / np.arange(1, 41)
    X = X @ np.linalg.qr(rng.standard_normal((40, 40)))[0]
    y = targets(X, losses.SquaredError())
    case = {"loss": "squared_error", "penalty": None, "schedule": schedules.Constant(0.05)}
    wanted = sequential(X, y, **case)
    distances = []
    for rank in (3, 8, 21, 41, "auto"):
        result = trained(X, y, curved(64, rank=rank, refine=0), 8, **case)
        distances.append(off(result, wanted, X))
        assert result.passes[-1].rank == (32 if rank == "auto" else rank)
    assert distances[0] > distances[-1] > 0.0


def test_no_rounds_where_one_thread_is_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 rows of ten features are a tenth of a millisecond's work, of which no four rounds are to be had."""
    monkeypatch.setattr(strategies, "ONLY_WORTH", True)
    X, y = easy(2000)
    wanted = sequential(X, y, **EASY)
    for n_threads in (2, 16):
        result = trained(X, y, curved(), n_threads, **EASY)
        assert [record.rows_alone for record in result.passes] == [2000] * len(result.passes)
        np.testing.assert_array_equal(result.coef, wanted.coef)
        assert sum(record.merges for record in trained(X, y, curved(100), n_threads, **EASY).passes) > 0
    X, y = easy(80_000)
    assert sum(record.merges for record in trained(X, y, curved(), 4, **EASY).passes) > 0


# What is said of a pass


def test_losses_are_those_of_the_sequential_run() -> None:
    """Blocks see more of it, as they lack what the blocks before have learned: 1.7 % here in the first pass."""
    rng = np.random.default_rng(0)
    n, features, entries = 20_000, 3000, 30
    common = np.minimum(5 * rng.pareto(1.0, (n, entries)), features - 1).astype(np.int64)
    X = sp.csr_matrix((np.full(common.size, entries**-0.5), common.ravel(), np.arange(n + 1) * entries))
    X.sum_duplicates()
    y = X @ rng.standard_normal(X.shape[1]) + 0.5 * rng.standard_normal(n) > 0
    case: dict[str, Any] = {"loss": "log_loss", "schedule": schedules.Constant(0.03), "penalty": penalties.L2(1e-4)}
    case |= {"n_passes": 4, "shuffle": True, "seed": 0}
    wanted = [record.loss for record in sequential(X, y, **case).passes]
    found = [record.loss for record in trained(X, y, curved(256), 4, **case).passes]
    off_by = np.abs(np.array(found) / wanted - 1.0)
    assert np.all(off_by < [0.01, 0.002, 0.001, 0.001])


@pytest.mark.parametrize(
    "schedule", [schedules.Constant(0.01), schedules.InvScaling(0.2, power=0.5), schedules.Adaptive(0.01)]
)
def test_a_tolerance_stops_where_that_of_the_sequential_run_does(schedule: Any) -> None:
    X, y = easy()
    case = EASY | {"schedule": schedule, "penalty": penalties.L2(1e-3), "tol": 1e-4, "n_passes": 80}
    wanted = sequential(X, y, **case)
    assert 5 < wanted.n_passes < 80
    for n_threads in (2, 8):
        result = trained(X, y, curved(128), n_threads, **case)
        assert result.n_passes == wanted.n_passes
        assert result.passes[-1].merges > 0


@pytest.mark.parametrize(
    ("n_threads", "penalty"), [(2, penalties.L2(1e-2)), (8, penalties.L2(1e-2)), (2, penalties.ElasticNet(1e-3, 0.3))]
)
@pytest.mark.parametrize("waits", [False, True])
def test_the_penalty_is_that_of_the_models_that_rows_have_met(
    monkeypatch: pytest.MonkeyPatch, waits: bool, n_threads: int, penalty: Any
) -> None:
    """Not that at the end of the pass, nor halfway to it: weights grow fast at first."""
    if waits:
        monkeypatch.setattr(strategies, "RENUMBER_FROM", 8)
        monkeypatch.setattr(strategies, "MOST_PLACES", 4)
    X, merged = zipf_rows(20_000, 400, 6), 0
    for y in (labels_of(X), np.argmax(X @ np.random.default_rng(0).standard_normal((400, 3)), axis=1)):
        case = EASY | {"penalty": penalty, "schedule": schedules.Constant(0.01), "tol": 1e-9}
        runs = trained(X, y, curved(), n_threads, **case), sequential(X, y, **case)
        found, wanted = (np.array([record.objective - record.loss for record in run.passes]) for run in runs)
        np.testing.assert_allclose(found, wanted, rtol=0.04)
        merged += sum(record.merges for record in runs[0].passes)
    assert merged > 0


def assert_told(result: Result, n_threads: int) -> None:
    for record in result.passes:
        assert record.error is None or 0.0 <= record.error < np.inf
        assert 0 <= record.rows_alone <= record.rows
        assert record.sweeps >= 0
        assert record.caught >= 0
        assert (record.merges == 0) == (record.mean_block is None)
        assert (record.rank > 0) == (n_threads > 1)


@pytest.mark.parametrize("n_threads", [1, 2, 5, 16])
def test_what_is_said_of_a_pass(n_threads: int) -> None:
    X, y = easy(2000)
    for step in (0.005, 0.1, 2.0):
        for strategy in (curved(), curved(16), curved(16, refine=1), curved(rank=1), curved(tolerance=10.0)):
            case = EASY | {"schedule": schedules.Constant(step), "n_passes": 2}
            for labels in (y, np.arange(2000) % 3):
                result = trained(X, labels, strategy, n_threads, **case)
                assert_told(result, n_threads)
                assert (result.passes[0].error is not None) == (n_threads > 1)


def test_the_error_is_what_a_sweep_changes() -> None:
    """Of the first round, which is all of the pass: by hand, of all 200 rows."""
    X, y = easy(200)
    case = EASY | {"n_passes": 1, "schedule": schedules.Constant(0.1), "shuffle": False, "penalty": None}
    merged, once, last = (trained(X, y, curved(67, refine=refine), 3, **case) for refine in (0, 1, 2))
    assert [result.passes[0].sweeps for result in (merged, once, last)] == [0, 1, 2]
    assert merged.passes[0].error is None
    assert once.passes[0].error == pytest.approx(off(merged, once, X), rel=1e-9)
    assert off(once, last, X) < 0.2 * off(merged, last, X)


def test_a_check_trains_the_last_block_again() -> None:
    """Of two, from where the first has ended: that is the sequential run, and the merge stays as it was."""
    X, y = easy(200)
    case = EASY | {"n_passes": 1, "schedule": schedules.Constant(0.1), "shuffle": False}
    for n_threads in (2, 4):
        merged, checked = (trained(X, y, curved(200 // n_threads, refine=r), n_threads, **case) for r in (0, "auto"))
        np.testing.assert_array_equal(merged.coef, checked.coef)
        assert checked.passes[0].sweeps == 0
        if n_threads == 2:
            assert checked.passes[0].error == pytest.approx(off(sequential(X, y, **case), merged, X), rel=1e-6)


def test_others_have_nothing_to_say() -> None:
    X, y = easy(500)
    for strategy in (Sequential(), MapReduce(), Averaging()):
        record = trained(X, y, strategy, 2, **EASY).passes[0]
        assert (record.rank, record.sweeps, record.error, record.rows_alone, record.caught) == (0, 0, None, 0, 0)


def test_callbacks_see_it() -> None:
    X, y = easy(2000)
    history = History()
    result = trained(X, y, curved(), 3, callbacks=[history, lambda record: record.number == 2], **EASY)
    assert history.records == result.passes
    assert result.n_passes == 2
    assert history.records[0].error is not None


# strategy="auto"


@pytest.fixture
def little_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if threads paid from 1,000 entries on."""
    monkeypatch.setattr(strategies, "LEAST_WORK", 1000)


def chosen(**more: Any) -> str:
    X, y = easy(500)
    return train(
        X, y, **{"strategy": "auto", "n_threads": 3, "n_passes": 2, "schedule": schedules.Constant(0.01), **more}
    ).strategy


def test_auto_is_the_default() -> None:
    X, y = easy(500)
    assert train(X, y).strategy == train(X, y, strategy="auto").strategy
    assert SGDClassifier().strategy == "auto"


def test_auto_is_sequential_for_little_work() -> None:
    assert chosen(n_passes=3) == (
        "sequential: 15,000 entries in all passes are trained in less time than threads take to agree "
        "(50,000,000 would be enough)"
    )


@pytest.mark.usefixtures("little_is_enough")
def test_auto_is_sequential_on_one_thread() -> None:
    assert chosen(n_threads=1) == "sequential: there is one thread"


@pytest.mark.usefixtures("little_is_enough")
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"penalty": "lasso"}, "does not merge the halves of weights that penalty='lasso' keeps"),
        (
            {"loss": "hinge", "schedule": schedules.PassiveAggressive1(0.1)},
            "schedule='pa1' takes them from the margins",
        ),
        (
            {"loss": "hinge", "schedule": schedules.PassiveAggressive2(0.1)},
            "schedule='pa2' takes them from the margins",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_auto_is_sequential_where_curvature_is_refused(more: dict[str, Any], reason: str) -> None:
    words = chosen(**more)
    assert words.startswith("sequential: ")
    assert reason in words


@pytest.mark.usefixtures("little_is_enough")
def test_auto_is_sequential_where_copies_would_not_fit() -> None:
    rule = Rule.check(LOG, penalties.L2(1e-4), schedules.Constant(0.1), False)
    work = {"n_threads": 8, "n_passes": 1, "entries": 10**9, "sparse": True, "n_models": 10, "bytes_a_number": 8}
    fits, not_ = (Work(**work, n_features=f, memory=2**33) for f in (10**4, 10**7))
    assert isinstance(Auto().decide(rule, fits)[0], MapReduce)
    strategy, same, words = Auto().decide(rule, not_)
    assert (strategy, same) == (Sequential(), not_)
    assert re.fullmatch(r"sequential: copies of the model for 2 threads would take \d\.\d GiB of 8\.0", words)


@pytest.mark.usefixtures("little_is_enough")
def test_auto_is_sequential_where_copies_would_take_too_long() -> None:
    rule = Rule.check(LOG, penalties.L2(1e-4), schedules.Constant(0.1), False)
    work = {"n_threads": 4, "n_passes": 10, "sparse": True, "n_features": 10**6, "n_models": 1, "bytes_a_number": 4}
    wide, long = (Work(**work, entries=entries, memory=2**40) for entries in (10**6, 10**7))
    strategy, _, words = Auto().decide(rule, wide)
    assert strategy == Sequential()
    assert words.startswith("sequential: copies of the model for 2 threads would have 4,000,000 numbers")
    assert isinstance(Auto().decide(rule, long)[0], MapReduce)


@pytest.mark.usefixtures("little_is_enough")
def test_auto_takes_fewer_threads_where_copies_for_all_would_take_too_long() -> None:
    rule = Rule.check(LOG, penalties.L2(1e-4), schedules.Constant(0.1), False)
    work = Work(
        n_threads=13, n_passes=10, sparse=True, n_features=2 * 10**5, n_models=1, bytes_a_number=4, entries=10**6,
        memory=2**40,
    )  # fmt: skip
    strategy, given, words = Auto().decide(rule, work)
    assert strategy == MapReduce(Curvature(), block_size="auto")
    assert given == replace(work, n_threads=3)
    assert words.endswith(
        "1,000,000 entries a pass on 3 threads, for copies of the model for 13 threads would have 5,200,000 numbers, "
        "more than a fifth of the 10,000,000 entries in all passes"
    )


@pytest.mark.usefixtures("little_is_enough")
def test_auto_shares_out_the_features_of_long_sparse_rows() -> None:
    rule = Rule.check(LOG, penalties.L2(1e-4), schedules.Constant(0.1), False)
    work = Work(
        n_threads=16, n_passes=5, sparse=True, n_features=10**5, n_models=1, bytes_a_number=4, entries=256 * 10**5,
        memory=2**40, n_rows=10**5,
    )  # fmt: skip
    strategy, given, words = Auto().decide(rule, work)
    assert (strategy, given) == (Directions(), work)
    assert words.startswith("directions: 16 threads share the features of rows of 256 entries")
    assert Auto().decide(rule, replace(work, bytes_a_number=8, n_threads=40))[1].n_threads == 24
    l1 = Rule.check(LOG, penalties.L1(1e-4), schedules.Constant(0.1), False)
    others = [
        (rule, replace(work, n_threads=7)), (rule, replace(work, n_passes=4)), (rule, replace(work, n_models=3)),
        (rule, replace(work, entries=255 * 10**5)), (rule, replace(work, mapped=True)), (rule, replace(work, n_rows=0)),
        (rule, replace(work, memory=2 * 210_000_000)), (l1, work),
    ]  # fmt: skip
    for own, other in others:
        assert not isinstance(Auto().decide(own, other)[0], Directions), other
    assert isinstance(Auto().decide(rule, replace(work, memory=2 * 230_000_000))[0], Directions)


@pytest.mark.usefixtures("little_is_enough")
def test_auto_trains_long_sparse_rows_by_directions() -> None:
    rng = np.random.default_rng(0)
    X = sp.random(400, 3_000, 0.1, format="csr", dtype=np.float32, random_state=rng)
    y = np.asarray(X @ rng.standard_normal(3_000)).ravel() > 0
    found = train(X, y, schedule=schedules.Constant(0.01), n_threads=8, n_passes=5, strategy="auto")
    named = train(X, y, schedule=schedules.Constant(0.01), n_threads=8, n_passes=5, strategy=Directions())
    assert found.strategy.startswith("directions: 8 threads share the features of rows of 300 entries")
    np.testing.assert_array_equal(found.coef, named.coef)


@pytest.mark.usefixtures("little_is_enough")
def test_fewer_threads_are_what_trains() -> None:
    """The copies for eight threads would have too many numbers; it is the training of two, to the bit."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix((np.ones(8000), rng.integers(0, 600, 8000), np.arange(0, 8001, 4)), shape=(2000, 600))
    y = rng.integers(0, 2, 2000)
    found, wanted = (train(X, y, n_threads=n, n_passes=2, strategy="auto") for n in (8, 2))
    assert "on 2 threads, for copies of the model for 8 threads" in found.strategy
    np.testing.assert_array_equal(found.coef, wanted.coef)


@pytest.mark.usefixtures("little_is_enough")
def test_auto_else_is_curvature() -> None:
    words = chosen()
    assert words.startswith("mr-symsgd with the curvature combiner, blocks as large as their measured error allows: ")
    assert "5,000 entries a pass on 3 threads" in words
    X, y = easy(3000)
    case = EASY | {"seed": 5, "shuffle": "full"}
    found = train(X, y, strategy="auto", n_threads=3, **case)
    wanted = trained(X, y, MapReduce(Curvature(), "auto"), 3, **case)
    np.testing.assert_array_equal(found.coef, wanted.coef)
    model = SGDClassifier("log_loss", n_jobs=2, random_state=0).fit(X, y)
    assert "curvature" in model.result_.strategy


def test_many_blocks_have_a_larger_sample() -> None:
    """H of 1,300 rows made this round twice as wrong: that error is the same for each of its blocks."""
    data = twin("rcv1", 0.05)
    case = {"schedule": schedules.Constant(0.5), "penalty": penalties.NoPenalty(), "n_passes": 1, "shuffle": False}
    begun = sequential(data.X, data.y, **case)
    X, y = data.X[: 16 * 1024], data.y[: 16 * 1024]
    wanted = sequential(X, y, init=begun, **case)
    assert off(trained(X, y, curved(1024, refine=0), 16, init=begun, **case), wanted, data.X_test) < 0.018
