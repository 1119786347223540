"""The systems under test, all at one thread: what is set up is not timed, what is run is, scores are taken after."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.metrics import roc_auc_score

import symsgd
from symsgd.bench.datasets import Dataset

STEP_SIZE = 0.5
ALPHA = 1e-6


class System:
    """Logistic regression by SGD: constant step, L2, no stopping rule."""

    name: ClassVar[str]

    def set_up(self, data: Dataset) -> str:
        """Prepares; returns why the system cannot run, or nothing."""
        self.data = data
        return ""

    def run(self, passes: int) -> float:
        """Seconds that a fit of so many passes takes, from the caller's matrix to the model."""
        raise NotImplementedError

    def auc(self) -> float | None:
        """Held-out AUC of the last model, for two classes; accuracy for more."""
        return None

    def tear_down(self) -> None:
        """Removes what `set_up` made."""


class _Estimator(System):
    def make(self, passes: int) -> Any:
        raise NotImplementedError

    def run(self, passes: int) -> float:
        self.model = self.make(passes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started = time.perf_counter()
            self.model.fit(self.data.X, self.data.y)
            return time.perf_counter() - started

    def auc(self) -> float | None:
        if len(self.model.classes_) > 2:
            return float(self.model.score(self.data.X_test, self.data.y_test))
        return float(roc_auc_score(self.data.y_test, self.model.decision_function(self.data.X_test)))


class ScikitLearn(_Estimator):
    """scikit-learn's SGDClassifier, its own shuffling."""

    name = "scikit-learn"

    def make(self, passes: int) -> Any:
        return sklearn.linear_model.SGDClassifier(
            loss="log_loss", alpha=ALPHA, learning_rate="constant", eta0=STEP_SIZE, max_iter=passes, tol=None,
            random_state=0,
        )  # fmt: skip


class Symsgd(_Estimator):
    """Our SGDClassifier on one thread, in the window order."""

    name = "symsgd"
    shuffle: ClassVar[bool | str] = True

    def make(self, passes: int) -> Any:
        return symsgd.SGDClassifier(
            loss="log_loss", alpha=ALPHA, learning_rate="constant", eta0=STEP_SIZE, max_iter=passes, tol=None,
            random_state=0, n_jobs=1, strategy="sequential", shuffle=self.shuffle,
        )  # fmt: skip


class SymsgdFull(Symsgd):
    """The same in scikit-learn's order."""

    name = "symsgd, shuffle='full'"
    shuffle = "full"


class VowpalWabbit(System):
    """Vowpal Wabbit, plain SGD, reading its binary cache: it does not shuffle. A process of its own."""

    name = "Vowpal Wabbit"

    def set_up(self, data: Dataset) -> str:
        super().set_up(data)
        if importlib.util.find_spec("vowpalwabbit") is None:
            return "vowpalwabbit is not installed"
        if not sp.issparse(data.X) or len(np.unique(data.y)) != 2:
            return "compared on sparse rows of two classes"
        self.folder = tempfile.TemporaryDirectory()
        self.text = Path(self.folder.name) / "rows.vw"
        write_vowpal(data, self.text)
        self._train(1, keep=False)
        return ""

    def run(self, passes: int) -> float:
        return self._train(passes, keep=True)

    def _train(self, passes: int, keep: bool) -> float:
        bits = max(18, int(self.data.X.shape[1]).bit_length())
        arguments = (
            f"-d {self.text} --cache_file {self.text}.cache --passes {passes} --loss_function logistic --sgd "
            f"-l {STEP_SIZE} --l2 {ALPHA} -b {bits} --holdout_off --quiet" + ("" if keep else " -k")
        )
        code = (
            "import sys, time, vowpalwabbit\n"
            "started = time.perf_counter()\n"
            "vowpalwabbit.Workspace(sys.argv[1]).finish()\n"
            "print(time.perf_counter() - started)"
        )
        done = subprocess.run([sys.executable, "-c", code, arguments], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    def tear_down(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


def write_vowpal(data: Dataset, path: Path) -> None:
    """The rows as Vowpal Wabbit text."""
    X, y = data.X, np.where(np.asarray(data.y) > 0, "1", "-1")
    with path.open("w") as file:
        for row, label in enumerate(y):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            words = map("%d:%.6g".__mod__, zip(X.indices[entries].tolist(), X.data[entries].tolist(), strict=True))
            file.write(f"{label} | {' '.join(words)}\n")
