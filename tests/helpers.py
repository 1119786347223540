"""Data and pairs of estimators for the tests that hold symsgd against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import sklearn.linear_model
from numpy.testing import assert_allclose

import symsgd

ALPHA = 0.05
N, F = 97, 67  # neither divides by anything that vectors or slices come in
CLASSES = [3, 5, 11, 20]  # a lane width of the core each

MARGIN_LOSSES = ["log_loss", "hinge", "perceptron", "squared_hinge", "modified_huber"]
REAL_LOSSES = ["squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"]
CLASSIFIERS = [
    *[("SGDClassifier", loss) for loss in [*MARGIN_LOSSES, *REAL_LOSSES]],
    ("Perceptron", "perceptron"),
]
REGRESSORS = [("SGDRegressor", loss) for loss in REAL_LOSSES]
LEARNERS = [*CLASSIFIERS, *REGRESSORS, ("SGDOneClassSVM", "one_class")]
PENALTIES = [None, "l2", "l1", "elasticnet"]
SCHEDULES = {
    "constant": {"eta0": 0.25},
    "optimal": {},
    "invscaling": {"eta0": 0.5, "power_t": 0.3},
    "adaptive": {"eta0": 0.125},
    "pa1": {"eta0": 0.4},
    "pa2": {"eta0": 0.7},
}


def name(case: Any) -> str:
    """A readable id of a parameter, or of a tuple of them."""
    return "-".join(map(name, case)) if isinstance(case, tuple) else str(case)


def rows(
    n: int = N, f: int = F, *, sparse: bool = False, scale: float = 1.0, seed: int = 0, dtype: Any = np.float64
) -> Any:
    """Rows with ‖x‖² about 0.4: short enough for the first steps of "optimal" not to diverge. Sparse ones as CSR."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, f)) * (0.6 * scale / np.sqrt(f))
    if not sparse:
        return X.astype(dtype)
    X *= rng.random((n, f)) < 0.4
    X[3::10] = 0.0  # rows without a feature
    return scipy.sparse.csr_matrix(X.astype(dtype))


def targets(X: Any, learner: str, classes: int = 2, seed: int = 1) -> Any:
    """Noisy numbers for the regressor, None for the one-class SVM, else labels 0, 1, … of equal frequency."""
    if learner == "SGDOneClassSVM":
        return None
    rng = np.random.default_rng(seed)
    signal = X @ rng.standard_normal(X.shape[1]) * 2 + 0.3 * rng.standard_normal(X.shape[0])
    return signal + 0.5 if learner == "SGDRegressor" else np.argsort(np.argsort(signal)) * classes // len(signal)


def settings(learner: str, loss: str, penalty: str | None = "l2", schedule: str = "constant") -> dict[str, Any]:
    """The parameters of these choices, as far as the learner has them."""
    if learner == "SGDOneClassSVM":
        return {"nu": ALPHA, "learning_rate": schedule, **SCHEDULES[schedule]}
    shared = {"penalty": penalty, "alpha": ALPHA, "l1_ratio": 0.4}
    if learner == "Perceptron":
        return {**shared, "eta0": 0.25}
    return {**shared, "loss": loss, "epsilon": 0.2, "learning_rate": schedule, **SCHEDULES[schedule]}


def both(learner: str, **parameters: Any) -> tuple[Any, Any]:
    """Our estimator and scikit-learn's with the same parameters; ``shuffle="full"`` is scikit-learn's shuffle."""
    parameters = {"tol": None, "max_iter": 3, "shuffle": False, "random_state": 5, **parameters}
    theirs = getattr(sklearn.linear_model, learner)
    return getattr(symsgd, learner)(**parameters), theirs(**parameters | {"shuffle": parameters["shuffle"] == "full"})


def fit_both(learner: str, X: Any, y: Any, fit: dict[str, Any] | None = None, **parameters: Any) -> tuple[Any, Any]:
    """The two fitted; ``fit`` has the other arguments of fit."""
    ours, theirs = both(learner, **parameters)
    return ours.fit(X, y, **fit or {}), theirs.fit(X, y, **fit or {})


def assert_same_model(ours: Any, theirs: Any, tolerance: float = 1e-9) -> None:
    """The arrays agree to `tolerance`, relative to the largest coefficient; shapes, types and counts are equal."""
    scale = max(1e-3, float(np.abs(theirs.coef_).max()))
    for array in ("coef_", "offset_" if hasattr(theirs, "offset_") else "intercept_"):
        here, there = getattr(ours, array), getattr(theirs, array)
        assert (here.shape, here.dtype) == (there.shape, there.dtype), array
        assert_allclose(here, there, rtol=tolerance, atol=tolerance * scale, err_msg=array)
    assert (ours.n_iter_, ours.t_) == (theirs.n_iter_, theirs.t_)
