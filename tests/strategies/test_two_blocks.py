"""Rounds of two blocks: what a check finds is taken, and blocks may be half a pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from curvature_cases import Problem, curved, off, one_hot, sequential, trained
from symsgd import penalties, schedules


def forgetful() -> Problem:
    """Within some thousands of rows nothing is left of where the model came from."""
    return one_hot(fields=20, values=150, alike=1, step_size=0.7)


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error", "huber"])
@pytest.mark.parametrize("sparse", [True, False])
def test_what_a_check_finds_is_taken(loss: str, sparse: bool) -> None:
    """Where no error is small enough, every round is checked: the last of two blocks is trained again from where the
    first has ended, which is the sequential run."""
    rng = np.random.default_rng(0)
    X = sp.random_array((600, 50), density=0.2, format="csr", rng=rng)
    X, y = X if sparse else X.toarray(), X @ rng.standard_normal(50) > 0
    case: dict[str, Any] = {"loss": loss, "penalty": penalties.L2(1e-3), "schedule": schedules.Constant(0.05)}
    found, wanted = trained(X, y, curved(tolerance=1e-12), 2, **case), sequential(X, y, **case)
    assert found.passes[0].merges == 2
    assert found.passes[0].caught == 0
    np.testing.assert_allclose(found.coef, wanted.coef, atol=1e-12)
    np.testing.assert_allclose(found.intercept, wanted.intercept, atol=1e-12)


def test_blocks_of_half_a_pass() -> None:
    X, y, case = forgetful()
    case["n_passes"] = 5
    found = trained(X, y, curved(), 2, **case)
    assert [record.mean_block for record in found.passes[2:]] == [20_000] * 3
    assert [record.merges for record in found.passes[2:]] == [2] * 3
    assert [record.error is None for record in found.passes[2:]] == [False, True, True]
    wanted, other = sequential(X, y, **case), sequential(X, y, seed=1, **case)
    assert off(found, wanted, X) < 0.2 * off(other, wanted, X)


def test_not_with_more_blocks_than_two() -> None:
    X, y, case = forgetful()
    for record in trained(X, y, curved(), 3, n_passes=4, **case).passes:
        assert (record.mean_block or 0) < 5_000


def test_long_blocks_are_given_up() -> None:
    """Where the end of a pass remembers its beginning, whatever their error; it would be .21 if checks had not said how
    much sharper features are that come together."""
    X, y, case = one_hot(fields=6, values=330, alike=8, step_size=0.3)
    _, short, long, again = trained(X, y, curved(), 2, n_passes=4, **case).passes
    assert (short.mean_block or 0) < 2_000
    assert long.mean_block == 20_000
    assert long.error is not None
    assert long.error < 0.15
    assert (again.mean_block or 0) < 2_000


def test_they_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    X, y, case = forgetful()
    wanted = trained(X, y, curved(), 2, n_passes=4, **case)
    checkpoint = tmp_path / "training"
    trained(X, y, curved(), 2, n_passes=4, checkpoint=checkpoint, callbacks=[lambda record: record.number == 3], **case)
    found = trained(X, y, curved(), 2, n_passes=4, checkpoint=checkpoint, **case)
    np.testing.assert_array_equal(found.coef, wanted.coef)
