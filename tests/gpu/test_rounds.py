"""Rounds on a machine of blocks: near the sequential run, the same bits twice, and the sequential run itself where
nothing is left out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from curvature_cases import off
from gpu_cases import assert_same_model, in_rounds, on_cpu
from strategy_cases import LOSSES, dense_rows, name, targets, weights
from symsgd import EarlyStopping, Result, losses, penalties, schedules
from symsgd.combiners import Curvature
from symsgd.gpu import directions
from symsgd.gpu.host import Host
from symsgd.reference.losses import PIECEWISE_LINEAR
from symsgd.strategies import MapReduce

AUTO = MapReduce(Curvature(), block_size="auto")
BY_FOUR = MapReduce(Curvature(), block_size=4)
CASE = {"schedule": schedules.Constant(0.05), "penalty": penalties.L2(1e-3), "n_passes": 1}
SMOOTH = [loss for loss in LOSSES if loss.name not in PIECEWISE_LINEAR and loss.name != "one_class"]


def assert_same_bits(found: Result, wanted: Result) -> None:
    assert_array_equal(found.coef, wanted.coef)
    assert_array_equal(found.intercept, wanted.intercept)
    assert [dataclasses.replace(own, seconds=0.0) for own in found.passes] == [
        dataclasses.replace(own, seconds=0.0) for own in wanted.passes
    ]


# What "auto" decides


def test_auto_goes_in_rounds_from_8192_rows_on() -> None:
    X = dense_rows(8192, 10)
    y = targets(X, losses.LogLoss())
    many, few = in_rounds(X, y, **CASE), in_rounds(X[:8191], y[:8191], **CASE)
    assert many.strategy.startswith("mr-symsgd with the curvature combiner on NumPy")
    assert few.strategy.startswith("sequential on NumPy: 8191 rows are too few")
    assert few.passes[0].merges == 0 < many.passes[0].merges
    assert off(many, on_cpu(X, y, **CASE), X) < 0.005  # 0.0008


def test_auto_leaves_steps_from_margins_to_one_row_at_a_time() -> None:
    X = dense_rows(8192, 2)
    found = in_rounds(X, targets(X, losses.Hinge()), loss="hinge", schedule="pa2", n_passes=1, penalty=None)
    assert found.strategy.startswith("sequential on NumPy: schedule='pa2'")


# Near the sequential run: each bound is two to four times what was measured


@pytest.mark.parametrize(("strategy", "bound"), [(AUTO, 0.03), (BY_FOUR, 0.01)], ids=["auto", "4"])
@pytest.mark.parametrize("loss", SMOOTH, ids=name)
def test_smooth_losses(loss: Any, strategy: Any, bound: float) -> None:
    """0.001 … 0.011 in blocks as large as their error allows; below 0.004 in blocks of 4."""
    X = dense_rows(2500, 10)
    y = targets(X, loss)
    case = {**CASE, "loss": loss, "sample_weight": weights(2500)}
    assert off(in_rounds(X, y, strategy, **case), on_cpu(X, y, **case), X) < bound


@pytest.mark.parametrize("strategy", [AUTO, BY_FOUR], ids=["auto", "4"])
@pytest.mark.parametrize("loss", [losses.Hinge(), losses.EpsilonInsensitive(0.2)], ids=name)
def test_losses_that_jump(loss: Any, strategy: Any) -> None:
    """A row on the other side of its kink moves the model by a whole step: up to 0.03."""
    X = dense_rows(4000, 10)
    y = targets(X, loss)
    found, wanted = in_rounds(X, y, strategy, loss=loss, **CASE), on_cpu(X, y, loss=loss, **CASE)
    assert off(found, wanted, X) < 0.1
    assert found.passes[0].loss == pytest.approx(wanted.passes[0].loss, rel=0.02)


@pytest.mark.parametrize("loss", [losses.Perceptron(), losses.OneClass(0.3)], ids=name)
def test_losses_whose_steps_do_not_shrink(loss: Any) -> None:
    """The model wanders, so that only how well it does is near."""
    X = dense_rows(3000, 10)
    y = targets(X, loss)
    found, wanted = in_rounds(X, y, AUTO, loss=loss, **CASE), on_cpu(X, y, loss=loss, **CASE)
    assert found.passes[0].loss == pytest.approx(wanted.passes[0].loss, rel=0.1)


@pytest.mark.parametrize(
    "schedule", [schedules.Optimal(1e-2), schedules.InvScaling(0.2), schedules.Linear(0.1)], ids=name
)
def test_steps_that_change(schedule: Any) -> None:
    X = dense_rows(4000, 10, scale=0.2)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedule, "penalty": penalties.L2(1e-2), "n_passes": 2}
    assert off(in_rounds(X, y, AUTO, **case), on_cpu(X, y, **case), X) < 0.02


def test_more_classes_and_single_precision() -> None:
    X = dense_rows(3000, 10).astype(np.float32)
    y = np.argmax(X[:, :4] + 0.5 * dense_rows(3000, 4, seed=9), axis=1)
    found, wanted = in_rounds(X, y, AUTO, **CASE), on_cpu(X, y, **CASE)
    assert found.coef.dtype == np.float32
    for c in range(4):
        apart = np.std(X @ (found.coef[c] - wanted.coef[c])) / np.std(X @ wanted.coef[c])
        assert apart < 0.02


def test_fewer_directions_than_features() -> None:
    """Rank 4 of 30: what is left out is taken for round, which these rows are."""
    X = dense_rows(4000, 30, scale=0.2)
    y = targets(X, losses.LogLoss())
    found = in_rounds(X, y, MapReduce(Curvature(rank=4), block_size="auto"), **CASE)
    assert found.passes[0].rank == 4
    assert off(found, on_cpu(X, y, **CASE), X) < 0.05


def test_a_strong_penalty_cuts_passes_into_stretches() -> None:
    """Weights fade by exp(−300) in a pass."""
    X = dense_rows(3000, 6)
    y = targets(X, losses.LogLoss())
    case = {"schedule": schedules.Constant(0.2), "penalty": penalties.L2(0.5), "n_passes": 2}
    assert off(in_rounds(X, y, BY_FOUR, **case), on_cpu(X, y, **case), X) < 0.02


# Exactly the sequential run


@pytest.mark.parametrize(
    ("blocks", "strategy"),
    [
        (1, AUTO),
        (1, MapReduce(Curvature(), 16)),
        (4, MapReduce(Curvature(refine=3), 16)),
        (3, MapReduce(Curvature(refine=2, rank=128), 7)),
    ],
    ids=["one block, auto", "one block", "as many sweeps as blocks", "of another size"],
)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_nothing_left_out_is_sequential(loss: Any, blocks: int, strategy: Any) -> None:
    """All directions, and one block a round, or as many sweeps of refinement as it has blocks less one."""
    X = dense_rows(431, 10)
    case = {"loss": loss, "schedule": schedules.Constant(0.15), "penalty": penalties.L2(0.05), "n_passes": 2}
    case |= {"sample_weight": weights(431), "fit_intercept": blocks != 3}
    y = targets(X, loss)
    found = in_rounds(X, y, strategy, Host(blocks=blocks), **case)
    assert_same_model(found, on_cpu(X, y, **case), 1e-9)
    assert sum(record.merges for record in found.passes) > 0


def test_sweeps_bring_it_nearer() -> None:
    X = dense_rows(3000, 10)
    y = targets(X, losses.LogLoss())
    case = {**CASE, "schedule": schedules.Constant(0.2)}
    wanted = on_cpu(X, y, **case)
    apart = [off(in_rounds(X, y, MapReduce(Curvature(refine=own), 16), **case), wanted, X) for own in (0, 1, 3)]
    assert apart[0] > 2 * apart[1] > 4 * apart[2]


@pytest.mark.parametrize(
    "loss",
    [
        losses.SquaredError(),  # 0.018 off, and 0.23 if movements were added up
    ],
    ids=name,
)
def test_a_merge_without_sweeps_is_nearer_than_a_sum(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = dense_rows(2000, 10)
    y = targets(X, loss)
    case = {**CASE, "loss": loss, "schedule": schedules.Constant(0.1)}
    strategy, wanted = MapReduce(Curvature(refine=0), 16), on_cpu(X, y, **case)
    merged = off(in_rounds(X, y, strategy, **case), wanted, X)
    find = directions.find

    def without_curvature(*arguments: Any) -> Any:
        found = find(*arguments)
        return dataclasses.replace(found, sharpness=0 * found.sharpness)

    monkeypatch.setattr(directions, "find", without_curvature)
    assert merged < 0.5 * off(in_rounds(X, y, strategy, **case), wanted, X)


# What the records say


def test_records() -> None:
    X = dense_rows(4000, 10)
    y = targets(X, losses.LogLoss())
    found = in_rounds(X, y, AUTO, **{**CASE, "n_passes": 2})
    first, second = found.passes
    assert (first.rank, second.rank) == (10, 10)
    assert first.rows == second.rows == 4000
    assert (first.rows_alone, second.rows_alone) == (4000 // 16, 0)
    assert 0 < first.error < 0.01
    assert first.merges > second.merges > 0  # blocks grow
    assert first.merges % 8 == second.merges % 8 == 0
    assert first.sweeps > 0
    assert second.loss < first.loss


def test_blocks_of_a_given_size_are_of_that_size() -> None:
    X = dense_rows(4000, 10)
    y = targets(X, losses.LogLoss())
    for size in (4, 32):
        record = in_rounds(X, y, MapReduce(Curvature(), block_size=size), **CASE).passes[0]
        assert record.merges == 8 * -(-3750 // (8 * size))
    most = in_rounds(X, y, MapReduce(Curvature(), 512), Host(rows_at_most=16), **CASE).passes[0]  # what it has room for
    assert most.merges == 8 * -(-3750 // (8 * 16))


@pytest.mark.parametrize("refine", [0, 1, 3])
def test_as_many_sweeps_as_asked(refine: int) -> None:
    X = dense_rows(2000, 10)
    record = in_rounds(X, targets(X, losses.LogLoss()), MapReduce(Curvature(refine=refine), 4), **CASE).passes[0]
    assert record.sweeps * 8 == refine * record.merges


def test_a_tolerance_says_how_large_blocks_get() -> None:
    """Two directions of 20, and large steps: what is left out is felt."""
    X = dense_rows(3000, 20)
    y = targets(X, losses.LogLoss())
    case = {**CASE, "schedule": schedules.Constant(0.2)}
    loose, tight, none = (
        in_rounds(X, y, MapReduce(Curvature(rank=2, tolerance=own), "auto"), **case) for own in (0.05, 0.01, 0.001)
    )
    assert loose.passes[0].mean_block > 2 * tight.passes[0].mean_block
    assert tight.passes[0].error < 0.01 < loose.passes[0].error < 0.05
    wanted = on_cpu(X, y, **case)
    assert off(none, wanted, X) < off(tight, wanted, X) < off(loose, wanted, X) < 0.3
    # no block is small enough: rounds are given up, and rows go one by one
    assert none.passes[0].mean_block == 1.0
    assert none.passes[0].rows_alone > 2000


# The same twice, whatever else


@pytest.mark.parametrize("strategy", [AUTO, BY_FOUR, MapReduce(Curvature(refine=1), 8)], ids=["auto", "4", "refined"])
def test_the_same_bits_twice(strategy: Any) -> None:
    X = dense_rows(600, 10)
    y = np.arange(600) % 3
    case = {**CASE, "n_passes": 2}
    first, second, other = (in_rounds(X, y, strategy, seed=seed, **case) for seed in (2, 2, 3))
    assert_same_bits(first, second)
    assert not np.array_equal(first.coef, other.coef)


@pytest.mark.parametrize("shuffle", [True, "full", False, "blocks"])
def test_every_order_and_rows_held_out(shuffle: Any) -> None:
    X = dense_rows(2500, 8)
    y = targets(X, losses.LogLoss())
    case = {**CASE, "shuffle": shuffle, "early_stopping": EarlyStopping(np.arange(2500) % 5 == 0)}
    found, wanted = in_rounds(X, y, BY_FOUR, **case), on_cpu(X, y, **case)
    assert found.passes[0].rows == wanted.passes[0].rows == 2000
    assert off(found, wanted, X) < 0.01


def test_classes_stop_one_by_one() -> None:
    X = dense_rows(1000, 6)
    y = np.argmax(X[:, :4] + 0.5 * dense_rows(1000, 4, seed=9), axis=1)
    case = {"schedule": schedules.Constant(0.05), "penalty": None, "n_passes": 20, "tol": 0.02, "patience": 1}
    found, wanted = in_rounds(X, y, BY_FOUR, **case), on_cpu(X, y, **case)
    assert (found.converged, found.n_passes) == (True, wanted.n_passes)
    assert off(found, wanted, X) < 0.02


def test_a_training_goes_on() -> None:
    X = dense_rows(2000, 8)
    y = targets(X, losses.LogLoss())
    case = {**CASE, "shuffle": False}
    half = on_cpu(X, y, **case)
    found, wanted = in_rounds(X, y, BY_FOUR, init=half, **case), on_cpu(X, y, init=half, **case)
    assert found.t == wanted.t == 4001
    assert off(found, wanted, X) < 0.01


# Rows that do not fit into the machine's memory


@pytest.mark.parametrize("strategy", [AUTO, BY_FOUR], ids=["auto", "4"])
def test_rows_in_pieces(strategy: Any) -> None:
    """Room for about a tenth of the rows at a time; rounds end where pieces do."""
    X = dense_rows(2000, 8)
    y = targets(X, losses.LogLoss())
    small = Host(blocks=8, memory=200 * 8 * 8 * 7)
    case = {**CASE, "n_passes": 2}
    found = in_rounds(X, y, strategy, small, **case)
    assert off(found, on_cpu(X, y, **case), X) < 0.02
    assert_same_bits(found, in_rounds(X, y, strategy, small, **case))
    assert found.passes[0].rows == 2000


# Sparse rows


@pytest.mark.parametrize(
    ("blocks", "strategy"), [(1, MapReduce(Curvature(), 16)), (4, MapReduce(Curvature(refine=3), 16))],
    ids=["one block", "as many sweeps as blocks"],
)  # fmt: skip
@pytest.mark.parametrize("loss", [losses.LogLoss(), losses.Hinge(), losses.SquaredError()], ids=name)
def test_sparse_rows_with_nothing_left_out_are_sequential(loss: Any, blocks: int, strategy: Any) -> None:
    """Rows without a feature among them, and an intercept that learns a hundred times slower."""
    X = dense_rows(500, 20, density=0.3)
    y = targets(X, loss)
    case = {"loss": loss, "schedule": schedules.Constant(0.1), "penalty": penalties.L2(0.05), "n_passes": 2}
    case |= {"sample_weight": weights(500)}
    found = in_rounds(sp.csr_matrix(X), y, strategy, Host(blocks=blocks), **case)
    assert_same_model(found, on_cpu(sp.csr_matrix(X), y, **case), 1e-9)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sparse_rows(dtype: str, index: Any) -> None:
    """0.001 off; fewer rows than dense ones need to go in rounds."""
    X = sp.csr_matrix(dense_rows(1500, 30, density=0.3).astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    y = targets(X.toarray(), losses.LogLoss())
    case = {**CASE, "schedule": schedules.Constant(0.1)}
    found, wanted = in_rounds(X, y, **case), on_cpu(X, y, **case)
    assert found.passes[0].merges > 0
    assert found.coef.dtype == X.dtype
    assert off(found, wanted, X) < 0.01
    assert_same_bits(found, in_rounds(X, y, **case))


def test_sparse_rows_that_name_a_feature_twice() -> None:
    X = sp.csr_matrix(dense_rows(600, 10, density=0.4))
    twice = sp.csr_matrix((np.repeat(X.data, 2) / 2, np.repeat(X.indices, 2), 2 * X.indptr), X.shape)
    y = targets(X.toarray(), losses.LogLoss())
    found, wanted = in_rounds(twice, y, BY_FOUR, **CASE), in_rounds(X, y, BY_FOUR, **CASE)
    assert_same_model(found, wanted, 1e-9)
    assert twice.nnz == 2 * X.nnz  # the caller's is left as it was
