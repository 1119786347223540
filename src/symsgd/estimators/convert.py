"""Models to and from scikit-learn's own estimators."""

from __future__ import annotations

import copy
from typing import Any

import sklearn.linear_model

from symsgd.inputs import on_host

SHARED_ATTRIBUTES = (
    "coef_", "intercept_", "offset_", "classes_", "n_iter_", "t_", "n_features_in_", "feature_names_in_",
    "_standard_coef", "_standard_intercept", "_average_coef", "_average_intercept",
)  # fmt: skip


def to_sklearn(estimator: Any) -> Any:
    """scikit-learn's estimator of the same name, with the same parameters and, if fitted, the same model."""
    target = getattr(sklearn.linear_model, type(estimator).__name__)
    if estimator.penalty == "lasso":
        raise ValueError("penalty='lasso' has no counterpart in scikit-learn")
    parameters = {name: value for name, value in estimator.get_params().items() if name in target().get_params()}
    if parameters["shuffle"] in ("full", "blocks"):
        parameters["shuffle"] = True
    return _carry(estimator, target(**parameters))


def from_sklearn(target: type, estimator: Any) -> Any:
    """Our estimator of the same name, with the same parameters and, if fitted, the same model."""
    theirs = getattr(sklearn.linear_model, target.__name__)
    if not isinstance(estimator, theirs):
        raise TypeError(f"{type(estimator).__name__} is not a scikit-learn {target.__name__}")
    return _carry(estimator, target(**estimator.get_params()))


def _carry(source: Any, target: Any) -> Any:
    model = {name: on_host(getattr(source, name)) for name in SHARED_ATTRIBUTES if hasattr(source, name)}
    # copied together, so that arrays which are one stay one: scikit-learn's averaging needs it
    target.__dict__.update(copy.deepcopy(model))
    return target
