"""What a training on a cluster is made of, without one: lanes, steps, control, curvature, costs, means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dask_cases import dense_rows, sparse_rows, write_store
from symsgd import losses, penalties, schedules
from symsgd.dask import costs
from symsgd.dask.control import Control, first_control
from symsgd.dask.directions import Estimator, Sample
from symsgd.dask.lanes import Journal, Lanes, flat_journal, journal_passes
from symsgd.dask.means import adagrad_mean_of, mean_of, summed, sums_of
from symsgd.dask.merging import Movement
from symsgd.dask.packing import pack
from symsgd.inputs import check_data
from symsgd.problem import Rule
from symsgd.steps import StepSizes


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(sum),
    st.integers(1, 9),
    st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=30),
)
def test_every_row_has_its_turn_once_whatever_the_rounds(
    partitions: list[int], n_lanes: int, sizes: list[tuple[bool, int]]
) -> None:
    lanes, journal = Lanes(partitions, n_lanes, seed=1), Journal(tuple(partitions), True)
    for number in range(2):
        lanes.begin_pass(number)
        journal.passes.append([])
        t, turn = 1.0, 0
        while lanes.left:
            alone, rows = sizes[turn % len(sizes)]
            blocks = lanes.take_alone(rows, t) if alone else lanes.take(rows, t)
            assert [block.t for block in blocks] == list(t + np.cumsum([0, *(b.rows for b in blocks)])[:-1])
            t += sum(block.rows for block in blocks)
            journal.passes[-1].append(blocks)
            turn += 1
        assert np.array_equal(np.sort(journal.order(number)), np.arange(sum(partitions)))
    again = Journal(journal.partition_rows, True, journal_passes(flat_journal(journal), 2))
    assert again == journal


def test_passes_and_segments_are_shuffled_apart() -> None:
    orders = []
    for number in (0, 1):
        lanes, journal = Lanes([4_000, 4_000], 2, seed=0), Journal((4_000, 4_000), True)
        lanes.begin_pass(number)
        journal.passes.append([lanes.take(2_000, 1.0), lanes.take(2_000, 1.0)])
        orders.append(journal.order(0))
    assert not np.array_equal(orders[0], orders[1])
    assert set(orders[0][:2_000]) == set(range(2_000))


RULES = [
    schedules.Constant(0.3), schedules.Optimal(1e-3), schedules.InvScaling(0.5, 0.4), schedules.Linear(0.3, 50_000, 1),
]  # fmt: skip


@pytest.mark.parametrize("schedule", RULES, ids=lambda schedule: schedule.name)
@pytest.mark.parametrize(("t", "count"), [(1.0, 10), (1.0, 30_000), (777.0, 20_001)])
def test_sums_of_steps_are_those_of_each_step(schedule: schedules.Schedule, t: float, count: int) -> None:
    steps = StepSizes.of(Rule.check(losses.LogLoss(), penalties.L2(1e-3), schedule, False))
    sizes = steps.size(t + np.arange(count))
    total, log_kept = steps.sums(t, count)
    assert total == pytest.approx(sizes.sum(), rel=2e-4)
    assert log_kept == pytest.approx(np.log1p(-1e-3 * sizes).sum(), rel=2e-4)


def test_the_schedule_is_that_of_the_core() -> None:
    """A row of zeros but for one, whose weight moves by the step size alone."""
    import symsgd

    X, y = np.ones((50, 1)), np.ones(50)
    y[0] = 0
    for schedule in RULES:
        rule = Rule.check(losses.SquaredError(), penalties.NoPenalty(), schedule, False)
        result = symsgd.train(
            X[:1], [1e3], loss="squared_error", penalty=None, schedule=schedule, fit_intercept=False, n_passes=1,
            init=symsgd.Start(np.zeros((1, 1)), np.zeros(1), 20.0), shuffle=False,
        )  # fmt: skip
        assert result.coef[0, 0] == pytest.approx(1e3 * float(StepSizes.of(rule).size(20.0)), rel=1e-6)


def test_blocks_follow_the_error() -> None:
    control = first_control(1_000_000, 8, 1, 0.01, None)
    assert (control.rows, control.alone) == (256, 16_384)
    assert control.checked(0.001)
    assert (control.rows, control.due) == (512, True)  # a new size is checked at once
    assert control.checked(0.009)
    assert (control.rows, control.due) == (512, False)
    assert not Control(512, 256, 10_000, 0.01).checked(0.03)  # of a new size: undone
    assert control.checked(0.015)
    assert control.rows == 512  # one may be chance
    assert control.checked(0.015)
    assert control.rows == 256
    hopeless = Control(256, 256, 10_000, 0.01)
    assert not hopeless.checked(0.5)
    assert hopeless.alone == 8 * 256
    hopeless.alone = 0
    assert not hopeless.checked(0.5)
    assert hopeless.alone == 16 * 256
    given_size = first_control(1_000, 4, 1, 0.01, 50)
    assert given_size.checked(0.3)
    assert not given_size.checked(0.6)
    assert given_size.rows == 50
    harmed = Control(1_024, 256, 10_000, 0.01)
    harmed.harmed()
    assert harmed.rows == 512
    assert first_control(1_000_000, 8, 10**6, 0.01, None).alone > 1_000_000  # rounds do not pay


@pytest.mark.parametrize("rows", [sparse_rows, dense_rows])
@pytest.mark.parametrize("wide", [False, True])
def test_curvature_is_that_of_the_sample(rows, wide: bool) -> None:  # type: ignore[no-untyped-def]
    X, y = rows(2_000, 300 if wide else 40)
    rng = np.random.default_rng(0)
    w, b, kappa = rng.standard_normal((2, X.shape[1])), rng.standard_normal(2), 0.01
    sample = Sample(X, np.vstack([y, -y]).astype(float), rng.uniform(0.5, 2, (2, X.shape[0])))
    slopes = sample.slopes(losses.LogLoss(), sample.predictions(w, b), 0.1, np.zeros(2), kappa)
    found = Estimator(sample, kappa).estimate(slopes)
    dense = np.column_stack([X.toarray() if sp.issparse(X) else X, np.full(X.shape[0], 0.1)])
    np.testing.assert_allclose(found.Q.T @ found.Q, np.eye(found.rank), atol=1e-4)
    p = dense[:, :-1] @ w.T + b
    expected = sample.weights * (1 / (1 + np.exp(-p)) / (1 + np.exp(p))).T
    np.testing.assert_allclose(slopes, expected, rtol=1e-5)
    places = np.append(found.places, X.shape[1])
    H = [dense.T @ (own[:, None] * dense) / X.shape[0] for own in slopes]
    for c in range(2):
        own = H[c][np.ix_(places, places)]
        np.testing.assert_allclose(found.sharpness[c], np.diag(found.Q.T @ own @ found.Q), rtol=1e-3, atol=1e-9)
        diagonal = np.zeros(X.shape[1] + 1)
        diagonal[places] += (found.Q**2) @ found.sharpness[c]
        diagonal[np.append(found.known, X.shape[1])] += found.rest[c]
        seen = np.append(np.intersect1d(found.places, found.known), X.shape[1])
        assert (diagonal[seen] >= np.diag(H[c])[seen] * 0.999 - 1e-9).all()
    values = np.linalg.eigvalsh(sum(H)[np.ix_(places, places)] / 2)[::-1]
    np.testing.assert_allclose(found.sharpness.mean(axis=0)[:5], values[:5], rtol=0.05)


def test_losses_that_jump_have_soft_curvature() -> None:
    X, y = dense_rows(500)
    sample = Sample(X, y[None].astype(float), np.ones((1, 500)))
    p = sample.predictions(np.zeros((1, X.shape[1])), np.array([0.9]))
    tight, wide = (sample.slopes(losses.Hinge(), p, 1e-6, np.array([d]), 1.0) for d in (0.01, 1.0))
    assert not tight.any()  # no prediction is that near the margin
    assert (wide[0, y > 0] > 0).all()
    reach = 3.0 * ((X**2).sum(axis=1) + 1.0)
    steep = sample.slopes(losses.Hinge(), np.ones((1, 500)), 3.0, np.zeros(1), 1.0)
    assert (steep[0] <= 1 / reach + 1e-6).all()


def _movement(change: np.ndarray, squares: np.ndarray | None = None) -> Movement:  # type: ignore[type-arg]
    one = np.ones(1)
    return Movement(
        pack(change), 2 * one, 0 * one, one, one, 3, gathered=None if squares is None else pack(squares),
        gathered_intercept=None if squares is None else 4 * one,
    )  # fmt: skip


def test_means_are_means() -> None:
    a, b = np.array([[1.0, 0.0, 3.0]]), np.array([[3.0, 0.0, 0.0]])
    start = np.array([[10.0, 10.0, 10.0]])
    coef, intercept = mean_of(start, np.zeros(1), summed([sums_of(_movement(a)), sums_of(_movement(b))]))
    np.testing.assert_allclose(coef, [[12.0, 10.0, 11.5]])
    assert intercept == [2.0]
    G = np.array([[1.0, 0.0, 2.0]]), np.array([[3.0, 0.0, 0.0]])
    parts = [sums_of(_movement(own, squares)) for own, squares in zip((a, b), G, strict=True)]
    coef, intercept, squares, own = adagrad_mean_of(start, np.zeros(1), summed(parts))
    np.testing.assert_allclose(coef, [[10 + (1 * 1 + 3 * 3) / 4, 10.0, 13.0]])
    np.testing.assert_allclose(squares, [[10 / 4, 0.0, 2.0]])
    assert (intercept, own) == ([2.0], [4.0])


def test_the_cost_model() -> None:
    dense = costs.Shape(1_000_000, 1, 8, 4, None)
    assert costs.round_bytes(dense, 100) == pytest.approx(4e6 * (6 + 3 + 2))
    assert costs.model_bytes(dense, 4e6) == pytest.approx(4e6 * (4 + 1))
    assert costs.model_bytes(dense, 4e4) == pytest.approx(4e4 * 8 * 2)  # goes with every block
    share = np.r_[np.ones(10), np.full(999_990, 1e-5)]
    sparse = costs.Shape(1_000_000, 1, 8, 4, share)
    assert sparse.touched(1) == pytest.approx(20, abs=0.1)
    assert costs.round_bytes(sparse, 100) < 0.05 * costs.round_bytes(dense, 100)
    assert costs.least_rows(100, 8) < costs.least_rows(10, 8) < costs.least_rows(10, 2)
    assert costs.least_rows(10, 1) > 10**12
    paper = costs.pass_cost(sparse, 1e8, 100, 1e5, 1e9)
    assert paper.rounds == pytest.approx(125)
    assert 1 < paper.gain < 4
    slow = costs.pass_cost(sparse, 1e8, 100, 1e5, 1e6)
    assert (slow.rounds, slow.sent) == (paper.rounds, paper.sent)
    assert slow.gain < 0.2


def test_rows_between_are_the_rows() -> None:
    X, _ = sparse_rows(100, 20)
    for rows in (X, X.toarray()):
        part = check_data(rows, 1).between(30, 70)
        assert part.n_rows == 40
        found = part.source.toarray() if sp.issparse(part.source) else part.source
        np.testing.assert_array_equal(found, X[30:70].toarray())
        assert check_data(part, 1) is part


def test_some_rows_of_a_store_are_compared_with_their_checksums(tmp_path: Path) -> None:
    from symsgd.data import open as open_store
    from symsgd.errors import StoreError

    X, y = sparse_rows(60_000, 200, 30)
    path = write_store(tmp_path / "rows.store", X, y)
    store = open_store(path)
    last = max(store._table.arrays["values"].extents, key=lambda extent: extent.offset)
    with path.open("r+b") as file:
        file.seek(last.offset)
        byte = file.read(1)
        file.seek(last.offset)
        file.write(bytes([byte[0] ^ 1]))
    damaged = open_store(path)
    damaged.verify_rows(0, 100, 1)
    with pytest.raises(StoreError, match="its array 'values' is damaged"):
        damaged.verify_rows(59_900, 60_000, 1)
    with pytest.raises(StoreError, match="its array 'values' is damaged"):
        damaged.verify(1)


@pytest.mark.parametrize("classes", [2, 3])
def test_what_adagrad_has_gathered_can_be_taken_up_again(classes: int) -> None:
    """Two halves, the second from where the first ended, are the whole."""
    import symsgd
    from symsgd.strategies import AllReduce

    X, _ = dense_rows(400)
    y = np.arange(400) % classes
    choices = {"strategy": AllReduce(0.3), "n_threads": 1, "n_passes": 1, "shuffle": False, "classes": range(classes)}
    whole = symsgd.train(X, y, **choices)
    first = symsgd.train(X[:200], y[:200], **choices)
    start = symsgd.Start(
        first.coef, first.intercept, first.t, gathered_coef=first.gathered_coef,
        gathered_intercept=first.gathered_intercept,
    )  # fmt: skip
    second = symsgd.train(X[200:], y[200:], **choices, init=start)
    np.testing.assert_allclose(second.coef, whole.coef, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(second.gathered_coef, whole.gathered_coef, rtol=1e-5)
    np.testing.assert_allclose(second.gathered_intercept, whole.gathered_intercept)
    assert len(whole.losses) == (1 if classes == 2 else classes)
    assert symsgd.train(X, y, strategy="sequential", n_passes=1).gathered_coef is None
