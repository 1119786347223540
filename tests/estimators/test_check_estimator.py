"""scikit-learn's checks of third-party estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from symsgd import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor

# the passes that scikit-learn itself checks its SGD with
ESTIMATORS = [estimator(max_iter=5) for estimator in (SGDClassifier, SGDRegressor, Perceptron, SGDOneClassSVM)]

REASON = "a row of weight two is one step of twice the size, not two steps"


def fails_for_scikit_learn_too(estimator: BaseEstimator) -> dict[str, str]:
    """The checks that scikit-learn expects to fail for its own SGD (its PER_ESTIMATOR_XFAIL_CHECKS)."""
    return {
        "check_sample_weight_equivalence_on_dense_data": REASON,
        "check_sample_weight_equivalence_on_sparse_data": REASON,
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=fails_for_scikit_learn_too)
def test_check(estimator: BaseEstimator, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("check", [check_dataframe_column_names_consistency, check_param_validation])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_check_that_scikit_learn_keeps_for_its_own(estimator: BaseEstimator, check: Callable[[str, Any], None]) -> None:
    check(type(estimator).__name__, estimator)
