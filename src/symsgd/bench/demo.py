"""`make demo`: the RCV1 twin, trained with what there is, side by side."""

from __future__ import annotations

import time
import warnings
from typing import Any

import sklearn.linear_model
from rich.console import Console
from rich.table import Table
from sklearn.metrics import log_loss, roc_auc_score

import symsgd
from symsgd.bench import machine
from symsgd.data import Twin, twin
from symsgd.strategies import STRATEGIES

PASSES = 5
REPEATS = 3


def main(scale: float = 0.1) -> None:
    """Prints the table."""
    console = Console()
    console.print(f"{machine.describe()}\n", soft_wrap=True)
    console.print("Making a twin of RCV1 (news articles as bags of words, two classes) …")
    data = twin("rcv1", scale)
    console.print(
        f"{data.X.shape[0]:,} rows to train on, {data.X_test.shape[0]:,} to judge by, {data.X.shape[1]:,} features, "
        f"{data.X.nnz / data.X.shape[0]:.0f} nonzeros a row\n"
    )
    common: dict[str, Any] = {"loss": "log_loss", "alpha": 1e-6, "learning_rate": "constant", "eta0": 1.0}
    common |= {"max_iter": PASSES, "tol": None, "random_state": 0}
    rows: list[tuple[str, Any]] = [("scikit-learn", sklearn.linear_model.SGDClassifier(**common))]
    rows += [(f"symsgd, {name}", symsgd.SGDClassifier(**common, strategy=name)) for name in STRATEGIES]
    table = Table(title=f"Logistic regression, {PASSES} passes")
    for column in ("", "seconds", "faster", "held-out AUC", "log loss"):
        table.add_column(column, justify="left" if not column else "right")
    baseline = None
    for name, model in rows:
        seconds = _fit(model, data)
        baseline = baseline or seconds
        score = model.decision_function(data.X_test)
        table.add_row(
            name, f"{seconds:.3f}", f"{baseline / seconds:.1f}x", f"{roc_auc_score(data.y_test, score):.4f}",
            f"{log_loss(data.y_test, model.predict_proba(data.X_test)[:, 1]):.4f}",
        )  # fmt: skip
    console.print(table)
    chosen = rows[-1][1].result_.strategy
    console.print(f"\nAll rows train the same model; what differs is the order of the examples. auto chose {chosen}.")
    console.print("Next: the example in README.md, on your own matrix; docs/benchmarks.md has more and larger sets.")


def _fit(model: Any, data: Twin) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            model.fit(data.X, data.y)
            times.append(time.perf_counter() - started)
        return min(times)


if __name__ == "__main__":
    main()
