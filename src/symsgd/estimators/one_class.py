"""`SGDOneClassSVM`."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from symsgd import devices, losses, penalties, schedules
from symsgd.devices import is_on_gpu
from symsgd.estimators._base import SCHEDULE_NAMES, Array, BaseSGD, State, draw_for_data, draw_seed
from symsgd.inputs import on_host
from symsgd.losses import Loss
from symsgd.penalties import Penalty
from symsgd.schedules import Schedule


class SGDOneClassSVM(OutlierMixin, BaseSGD):  # type: ignore[misc]
    """One-class SVM by stochastic gradient descent, to find outliers.

    scikit-learn's ``SGDOneClassSVM`` with the same parameters, attributes and answers, and ``strategy``, ``device``,
    ``n_jobs``, ``callbacks`` and ``shuffle="full"`` as in :class:`SGDClassifier`.

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
        eta0: float | str = 0.01,
        power_t: float = 0.5,
        warm_start: bool = False,
        average: bool | int = False,
        strategy: Any = "auto",
        n_jobs: int | None = None,
        callbacks: Any = None,
        device: str = "cpu",
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
        self.device = device

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
            intercept = 1 - np.asarray(0.0 if offset_init is None else on_host(offset_init), np.float64)
            state = self._new_state(X, coef_init, intercept)
            self._fit_rows(state, X, sample_weight, max_iter=self.max_iter)
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
            state = self._new_state(X, None, np.ones(1)) if first else self._state()
            self._fit_rows(state, X, sample_weight, max_iter=1)
        return self

    def _fit_rows(self, state: State, X: Any, sample_weight: Any, **options: Any) -> None:
        random = check_random_state(self.random_state)
        if self.random_state is None:  # here scikit-learn draws for its data from numpy's own state, whatever is given
            draw_for_data(random)
        self._fit_from(state, X, None, X.shape[0], seed=draw_seed(random), sample_weight=sample_weight, **options)

    def _model(self) -> tuple[Array, Array]:
        return self.coef_, 1 - self.offset_

    def _set_model(self, coef: Array, intercept: Array) -> None:
        self.coef_, self.offset_ = (coef if coef.ndim == 1 else coef[0]), 1 - intercept

    def decision_function(self, X: Any) -> Array:
        """Signed distance to the boundary: positive for inliers, negative for outliers."""
        return self._scores(X, -getattr(self, "offset_", np.zeros(1)))

    def score_samples(self, X: Any) -> Array:
        """The scores before the offset is taken off."""
        found = self.decision_function(X)
        scores: Array = found + (devices.cuda().asarray(self.offset_) if is_on_gpu(found) else on_host(self.offset_))
        return scores

    def predict(self, X: Any) -> Array:
        """1 for inliers, −1 for outliers."""
        inside = self.decision_function(X) >= 0
        labels: Array = 2 * inside.astype(np.int32) - 1
        return labels
