"""`SGDRegressor`."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.model_selection import ShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from symsgd import losses
from symsgd.estimators._base import Array, BaseSGD, State, draw_for_data, draw_seed, loss_table
from symsgd.inputs import on_host


class SGDRegressor(RegressorMixin, BaseSGD):  # type: ignore[misc]
    """Linear regression by stochastic gradient descent.

    scikit-learn's ``SGDRegressor`` with the same parameters, attributes and answers, and ``strategy``, ``device``,
    ``n_jobs``, ``callbacks``, ``shuffle="full"`` and ``penalty="lasso"`` as in :class:`SGDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from symsgd import SGDRegressor
    >>> X = np.random.default_rng(0).standard_normal((1000, 5))
    >>> y = X @ np.arange(5.0) + 1
    >>> bool(SGDRegressor(random_state=0).fit(X, y).score(X, y) > 0.999)
    True
    """

    intercept_: Array

    loss_functions = loss_table(loss for loss in losses.LOSSES.values() if not loss.margin)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSGD._parameter_constraints,
        "loss": [StrOptions(set(loss_functions))],
        "penalty": [StrOptions({"l2", "l1", "elasticnet", "lasso"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        penalty: str | None = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool | str = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        random_state: Any = None,
        learning_rate: str = "invscaling",
        eta0: float | str = 0.01,
        power_t: float = 0.25,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        average: bool | int = False,
        strategy: Any = "auto",
        device: str = "cpu",
        n_jobs: int | None = None,
        callbacks: Any = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.average = average
        self.strategy = strategy
        self.device = device
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
    ) -> Self:
        """Fits the model; scikit-learn's parameters, and ``eval_set=(X, y)`` to be scored after each pass."""
        self._check_parameters(partial=False)
        self._check_learning_rate()
        with self._unchanged_if_it_fails():
            X, y = self._validate(X, y, reset=True)
            if self.warm_start and hasattr(self, "coef_"):
                state = self._state()
                coef_init = state.coef if coef_init is None else coef_init
                intercept_init = state.intercept if intercept_init is None else intercept_init
            self.t_ = 1.0
            state = self._new_state(X, coef_init, intercept_init)
            self._fit_numbers(state, X, y, sample_weight, max_iter=self.max_iter, eval_set=eval_set)
        self._warn_after_fit()
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One pass over these rows, continuing the model."""
        first = not hasattr(self, "coef_")
        self._check_parameters(partial=first)
        self._check_learning_rate()
        with self._unchanged_if_it_fails():
            X, y = self._validate(X, y, reset=first)
            if not hasattr(self, "t_"):
                self.t_ = 1.0
            state = self._new_state(X, None, None) if first else self._state()
            self._fit_numbers(state, X, y, sample_weight, max_iter=1)
        return self

    def _check_learning_rate(self) -> None:
        if self.learning_rate in ("pa1", "pa2") and self.loss != "epsilon_insensitive":
            raise ValueError(f"Learning rate '{self.learning_rate}' only works with loss 'epsilon_insensitive'.")

    def _fit_numbers(self, state: State, X: Any, y: Array, sample_weight: Any, **options: Any) -> None:
        held_out = self._split(y, sample_weight, ShuffleSplit)
        random = check_random_state(self.random_state)
        seed = draw_seed(random)
        draw_for_data(random)
        self._fit_from(
            state,
            X,
            y,
            len(y),
            seed=seed,
            sample_weight=sample_weight,
            early_stopping=held_out,
            **options,
        )

    def _model(self) -> tuple[Array, Array]:
        return self.coef_, self.intercept_

    def _set_model(self, coef: Array, intercept: Array) -> None:
        self.coef_, self.intercept_ = (coef if coef.ndim == 1 else coef[0]), intercept

    def predict(self, X: Any) -> Array:
        """x·w + b of each row."""
        return self._scores(X, getattr(self, "intercept_", np.zeros(1)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the share of the variance of y that is explained."""
        return float(r2_score(on_host(y), on_host(self.predict(X)), sample_weight=on_host(sample_weight)))
