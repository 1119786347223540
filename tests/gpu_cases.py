"""Trainings on `Host`, the machine of NumPy that does what the kernels of a GPU do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from strategy_cases import close
from symsgd import Result, devices, train
from symsgd.gpu.host import Host


@contextmanager
def as_cuda(machine: Any) -> Iterator[None]:
    """`device="cuda"` is this machine."""
    with mock.patch.object(devices, "cuda", return_value=machine):
        yield


def on_machine(machine: Any, X: Any, y: Any = None, **case: Any) -> Result:
    """Trained there; row by row unless another strategy is given."""
    with as_cuda(machine):
        return train(X, y, device="cuda", **{"strategy": "sequential", "n_passes": 2, **case})


def on_cpu(X: Any, y: Any = None, **case: Any) -> Result:
    return train(X, y, **{"strategy": "sequential", "n_passes": 2, **case})


def in_rounds(X: Any, y: Any, strategy: Any = "auto", machine: Any = None, **case: Any) -> Result:
    return on_machine(machine or Host(blocks=8), X, y, strategy=strategy, **case)


def assert_exact(machine: Any, X: Any, y: Any, tolerance: float = 1e-10, **case: Any) -> Result:
    """The machine's sequential model is the CPU's, losses and steps included; and it has learned something."""
    found, wanted = on_machine(machine, X, y, **case), on_cpu(X, y, **case)
    assert_same_model(found, wanted, tolerance)
    assert found.coef.dtype == wanted.coef.dtype == X.dtype
    assert np.abs(wanted.coef).max() > 1e-3
    return found


def assert_same_model(found: Result, wanted: Result, tolerance: float) -> None:
    assert (found.t, found.n_passes, found.converged) == (wanted.t, wanted.n_passes, wanted.converged)
    close(found.coef, wanted.coef, tolerance)
    close(found.intercept, wanted.intercept, tolerance)
    close([record.loss for record in found.passes], [record.loss for record in wanted.passes], tolerance)
    assert [record.rows for record in found.passes] == [record.rows for record in wanted.passes]
