"""Models to and from scikit-learn's own estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.linear_model

SHARED_ATTRIBUTES = (
    "coef_", "intercept_", "offset_", "classes_", "n_iter_", "t_", "n_features_in_", "feature_names_in_",
    "_standard_coef", "_standard_intercept", "_average_coef", "_average_intercept",
)  # fmt: skip
ONLY_OURS = ("strategy", "callbacks")


def to_sklearn(estimator: Any) -> Any:
    """scikit-learn's estimator of the same name, with the same parameters and, if fitted, the same model."""
    target = getattr(sklearn.linear_model, type(estimator).__name__)
    if estimator.penalty == "lasso":
        raise ValueError("penalty='lasso' has no counterpart in scikit-learn")
    parameters = {name: value for name, value in estimator.get_params().items() if name in target().get_params()}
    if parameters["shuffle"] == "full":
        parameters["shuffle"] = True
    return _carry(estimator, target(**parameters))


def from_sklearn(target: type, estimator: Any) -> Any:
    """Our estimator of the same name, with the same parameters and, if fitted, the same model."""
    theirs = getattr(sklearn.linear_model, target.__name__)
    if not isinstance(estimator, theirs):
        raise TypeError(f"{type(estimator).__name__} is not a scikit-learn {target.__name__}")
    return _carry(estimator, target(**estimator.get_params()))


def _carry(source: Any, target: Any) -> Any:
    for attribute in SHARED_ATTRIBUTES:
        if hasattr(source, attribute):
            value = getattr(source, attribute)
            setattr(target, attribute, value.copy() if isinstance(value, np.ndarray) else value)
    return target
