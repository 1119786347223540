"""What predicts in a model, whatever its kind: one row of weights and an intercept for each score, and names."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from symsgd.estimators import SGDOneClassSVM
from symsgd.estimators._base import BaseSGD
from symsgd.inputs import dense
from symsgd.training import Result

if TYPE_CHECKING:
    from symsgd.data.dataset import Schema

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Predictor:
    """Scores are ``coef`` · x + ``intercept``, one for two classes and for numbers, one a class for more classes."""

    coef: Array  # (scores, features)
    intercept: Array  # (scores,)
    classes: Array | None
    loss: str | None  # None where it is not known: a Result
    outliers: bool
    schema: Schema | None
    own_names: Sequence[str] | None = None

    @staticmethod
    def of(model: BaseSGD | Result) -> Predictor:
        """Of a fitted estimator, or of a result; in the host's memory, as a copy is."""
        if isinstance(model, Result):
            model = copy.copy(model)
            coef, intercept = model.coef, model.intercept
            if model.average_coef is not None and model.average_intercept is not None:
                coef, intercept = model.average_coef, model.average_intercept
            return Predictor(np.atleast_2d(coef), np.atleast_1d(intercept), model.classes, None, False, model.schema)
        if not isinstance(model, BaseSGD):
            raise TypeError(f"a {type(model).__name__} is neither one of symsgd's estimators nor a symsgd.Result")
        check_is_fitted(model)
        outliers = isinstance(model, SGDOneClassSVM)
        known = copy.copy(model).__dict__
        return Predictor(
            np.atleast_2d(dense(known["coef_"])),
            np.atleast_1d(-known["offset_"] if outliers else known["intercept_"]),
            known.get("classes_"),
            model.loss,
            outliers,
            known.get("schema_"),
            known.get("feature_names_in_"),
        )

    @property
    def n_features(self) -> int:
        return int(self.coef.shape[1])

    def name(self, feature: int) -> str:
        """What a column of X is called: by its name if there are names, else by its number in the file it came from."""
        if self.own_names is not None:
            return str(self.own_names[feature])
        return str(feature) if self.schema is None else self.schema.name(feature)
