"""`SGDOneClassSVM`."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from symsgd import losses, penalties, schedules
from symsgd.errors import TrainingInterrupted
from symsgd.estimators import convert
from symsgd.estimators._base import SCHEDULE_NAMES, Array, BaseSGD, State, initial
from symsgd.losses import Loss
from symsgd.penalties import Penalty
from symsgd.schedules import Schedule
from symsgd.training import Result


class SGDOneClassSVM(OutlierMixin, BaseSGD):  # type: ignore[misc]
    """One-class SVM by stochastic gradient descent, to find outliers.

    scikit-learn's ``SGDOneClassSVM`` with the same parameters, attributes and answers, and ``strategy``, ``n_jobs``,
    ``callbacks`` and ``shuffle="full"`` as in :class:`SGDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from symsgd import SGDOneClassSVM
    >>> X = np.array([[-1, -1], [-2, -1], [1, 1], [2, 1]])
    >>> SGDOneClassSVM(random_state=42, tol=None).fit(X).predict([[4, 4]])
    array([1])
    """

    loss = "one_class"
    penalty = "l2"
    l1_ratio = 0.0
    epsilon = 0.1
    early_stopping = False
    validation_fraction = 0.1
    n_iter_no_change = 5

    offset_: Array

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSGD._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        "learning_rate": [StrOptions(SCHEDULE_NAMES - {"pa1", "pa2"})],
    }

    def __init__(
        self,
        nu: float = 0.5,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool | str = True,
        verbose: int = 0,
        random_state: Any = None,
        learning_rate: str = "optimal",
        eta0: float = 0.01,
        power_t: float = 0.5,
        warm_start: bool = False,
        average: bool | int = False,
        strategy: Any = "auto",
        n_jobs: int | None = None,
        callbacks: Any = None,
    ) -> None:
        self.nu = nu
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.warm_start = warm_start
        self.average = average
        self.strategy = strategy
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    @property
    def alpha(self) -> float:  # type: ignore[override]
        """ν is the strength of the penalty too."""
        return self.nu

    def _loss(self) -> Loss:
        return losses.OneClass(self.nu)

    def _penalty(self) -> Penalty:
        return penalties.L2(self.nu)

    def _schedule(self) -> Schedule:
        return schedules.Optimal(self.nu) if self.learning_rate == "optimal" else super()._schedule()

    def fit(
        self, X: Any, y: Any = None, coef_init: Any = None, offset_init: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fits the model; ``y`` is not used."""
        self._check_parameters(partial=False)
        with self._unchanged_if_it_fails():
            X = self._validate(X, reset=True)
            if self.warm_start and hasattr(self, "coef_"):
                coef_init = self.coef_ if coef_init is None else coef_init
                offset_init = self.offset_ if offset_init is None else offset_init
            self.t_ = 1.0
            self._fit_from(self._new_state(X, coef_init, offset_init), X, self.max_iter, sample_weight)
        self._warn_after_fit()
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """One pass over these rows, continuing the model."""
        first = not hasattr(self, "coef_")
        self._check_parameters(partial=first)
        with self._unchanged_if_it_fails():
            X = self._validate(X, reset=first)
            if not hasattr(self, "t_"):
                self.t_ = 1.0
            self._fit_from(self._new_state(X, None, None) if first else self._state(), X, 1, sample_weight)
        return self

    def _new_state(self, X: Any, coef_init: Any, offset_init: Any) -> State:
        coef = initial("coef_init", coef_init, (1, X.shape[1]), X.dtype, "Provided coef_init does not match dataset.")
        offset = initial(
            "offset_init", offset_init, (1,), np.float64, "Provided intercept_init does not match dataset."
        )
        if not self.average:
            return State(coef, 1 - offset)
        return State(coef, 1 - offset, np.zeros_like(coef), np.zeros_like(offset))

    def _state(self) -> State:
        if self.average and hasattr(self, "_average_coef"):
            return State(self._standard_coef, self._standard_intercept, self._average_coef, self._average_intercept)
        return State(self.coef_, 1 - self.offset_)

    def _fit_from(self, state: State, X: Any, max_iter: int, sample_weight: Any) -> None:
        try:
            result = self._train(
                X, None, state, max_iter=max_iter, seed=self._seed(after=0), sample_weight=sample_weight
            )
        except TrainingInterrupted as interrupt:
            self._store(interrupt.result, state, X.shape[0])
            raise
        self._store(result, state, X.shape[0])

    def _store(self, result: Result, state: State, n_rows: int) -> None:
        self.n_iter_ = max(1, result.n_passes)
        self.t_ += self.n_iter_ * n_rows
        self.coef_, intercept = result.coef.ravel(), result.intercept
        if self.average:
            begun = result.average_coef is not None
            self._standard_coef, self._standard_intercept = self.coef_, intercept
            average_coef = result.average_coef if begun else state.average_coef
            assert average_coef is not None
            self._average_coef = average_coef.ravel()
            average_intercept = result.average_intercept if begun else state.average_intercept
            assert average_intercept is not None
            self._average_intercept = average_intercept
            if begun:
                self.coef_, intercept = self._average_coef, average_intercept
        self.offset_ = 1 - intercept
        self._keep_result(result, coef=self.coef_, intercept=intercept, average_coef=None, average_intercept=None)

    def decision_function(self, X: Any) -> Array:
        """Signed distance to the boundary: positive for inliers, negative for outliers."""
        return self._scores(X, -getattr(self, "offset_", np.zeros(1)))

    def score_samples(self, X: Any) -> Array:
        """The scores before the offset is taken off."""
        scores: Array = self.decision_function(X) + self.offset_
        return scores

    def predict(self, X: Any) -> Array:
        """1 for inliers, −1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def to_sklearn(self) -> Any:
        """The same model as scikit-learn's estimator of this name."""
        return convert.to_sklearn(self)

    @classmethod
    def from_sklearn(cls, estimator: Any) -> Self:
        """The same model from scikit-learn's estimator of this name."""
        return convert.from_sklearn(cls, estimator)
