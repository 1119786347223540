"""A pass on the GPU against the CPU's sequential loop: the paper's two dense shapes, in storage and window order.

*exact* goes from row to row, *symsgd* in rounds that are merged by the curvature combiner; both are held against the
sequential model in the same order. Rows are in the GPU's memory from the first pass on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sklearn.metrics import roc_auc_score

import symsgd
from symsgd import devices
from symsgd.bench.datasets import Dataset
from symsgd.callbacks import PassRecord
from symsgd.combiners import Curvature
from symsgd.data import twin
from symsgd.penalties import L2
from symsgd.results import Result
from symsgd.schedules import Constant
from symsgd.strategies import MapReduce, Sequential, Strategy

SETS = {"epsilon": 0.3, "adclick": 0.3}  # twins and their step sizes; 400,000 × 2,000 and 500,000 × 3,076 at scale 1
ALPHA = 1e-6
PASSES = 10
SEQUENTIAL = "sequential, CPU"
SYSTEMS: dict[str, tuple[Strategy, str]] = {
    SEQUENTIAL: (Sequential(), "cpu"),
    "exact, CUDA": (Sequential(), "cuda"),
    "symsgd, CUDA": (MapReduce(Curvature(), block_size="auto"), "cuda"),
}
COLUMNS = (
    "data set", "system", "shuffle", "ms a pass", "times CPU", "GB/s", "first pass, s", "AUC", "AUC less CPU",
    "distance", "error", "rows a block", "rows alone",
)  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """A result, and the seconds from the call to the end of its first pass."""

    result: Result
    first: float

    @property
    def a_pass(self) -> float:
        """Seconds: the median of passes 2 … n."""
        return median(record.seconds for record in self.result.passes[1:])


def run(console: Console, scale: float = 1.0, passes: int = PASSES) -> None:
    """``scale`` is that of the twins' rows."""
    reason = devices.why_not_cuda()
    if reason:
        console.print(f"gpu: skipped: {escape(reason)}")
        return
    console.print(f"{devices.cuda().name}; {passes} passes, logistic loss, L2, constant step size, float32")
    table = Table(title="A pass is the median of those after the first; CPU is one thread")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("data set", "system", "shuffle") else "right")
    for name, step_size in SETS.items():
        data = dense_twin(name, scale)
        for shuffle in (False, True):
            for cells in lines(data, step_size, shuffle, passes):
                table.add_row(*cells)
        table.add_section()
    console.print(table)


def dense_twin(name: str, scale: float) -> Dataset:
    """Every number of its rows, zeros too."""
    made = twin(name, scale)
    X, X_test = (
        np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows, np.float32)
        for rows in (made.X, made.X_test)
    )
    return Dataset(f"{name} twin, {X.shape[0]:,} × {X.shape[1]:,}", X, made.y, X_test, made.y_test)


def lines(data: Dataset, step_size: float, shuffle: bool, passes: int) -> Iterator[list[str]]:
    """A line of the table for each system; one that fails has its reason."""
    sequential: Trained | None = None
    for label, (strategy, device) in SYSTEMS.items():
        begins = [data.name, label, "yes" if shuffle else "no"]
        try:
            trained = train(data, step_size, strategy, device, shuffle, passes)
        except (MemoryError, RuntimeError, ValueError) as error:
            yield [*begins, escape(str(error).splitlines()[0])]
            continue
        if label == SEQUENTIAL:
            sequential = trained
        yield [*begins, *_cells(data, trained, sequential)]


def train(data: Dataset, step_size: float, strategy: Strategy, device: str, shuffle: bool, passes: int) -> Trained:
    """All passes, however little they still improve."""
    began, first = time.perf_counter(), math.nan

    def note(record: PassRecord) -> None:
        nonlocal first
        if record.number == 1:
            first = time.perf_counter() - began

    result = symsgd.train(
        data.X, data.y, loss="log_loss", penalty=L2(ALPHA), schedule=Constant(step_size), strategy=strategy,
        device=device, shuffle=shuffle, n_passes=passes, callbacks=note,
    )  # fmt: skip
    return Trained(result, first)


def _cells(data: Dataset, own: Trained, sequential: Trained | None) -> list[str]:
    auc = _auc(data, own.result)
    passes = own.result.passes
    merges, alone = sum(record.merges for record in passes), sum(record.rows_alone for record in passes)
    errors = [record.error for record in passes if record.error is not None]
    rows = sum(record.rows for record in passes)
    compared = ["", "", ""]
    if sequential is not None:
        coef = sequential.result.coef
        distance = np.linalg.norm(own.result.coef - coef) / np.linalg.norm(coef)
        difference = auc - _auc(data, sequential.result)
        compared = [f"{sequential.a_pass / own.a_pass:.1f}", f"{difference:+.1e}", f"{distance:.1e}"]
    return [
        f"{1e3 * own.a_pass:.2f}", compared[0], f"{data.X.nbytes / own.a_pass / 1e9:,.0f}", f"{own.first:.2f}",
        f"{auc:.5f}", *compared[1:], f"{np.mean(errors):.1e}" if errors else "",
        f"{(rows - alone) / merges:.1f}" if merges else "", f"{alone / rows:.1%}" if merges else "",
    ]  # fmt: skip


def _auc(data: Dataset, result: Result) -> float:
    return float(roc_auc_score(np.asarray(data.y_test) > 0, result.decision(data.X_test)))
