"""`SGDClassifier` and `Perceptron`."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from symsgd import devices, losses
from symsgd.devices import is_on_gpu
from symsgd.estimators._base import Array, BaseSGD, State, draw_for_data, draw_seed, loss_table
from symsgd.inputs import find_classes, on_host
from symsgd.training import Result

FIRST_ROWS = 1 << 16  # enough to tell numbers from labels, without sorting all of y as scikit-learn's check does


class BaseClassifier(ClassifierMixin, BaseSGD):  # type: ignore[misc]
    """What `SGDClassifier` and `Perceptron` share."""

    class_weight: Any
    classes_: Array
    intercept_: Array

    loss_functions = loss_table(loss for name, loss in losses.LOSSES.items() if name != "one_class")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSGD._parameter_constraints,
        "penalty": [StrOptions({"l2", "l1", "elasticnet", "lasso"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

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
            check_classification_targets(y[:FIRST_ROWS])
            if self.warm_start and hasattr(self, "coef_"):
                coef_init = self.coef_ if coef_init is None else coef_init
                intercept_init = self.intercept_ if intercept_init is None else intercept_init
            self.classes_ = unique_labels(find_classes(y))
            self.t_ = 1.0
            state = self._new_state(X, coef_init, intercept_init)
            self._fit_classes(state, X, y, sample_weight, max_iter=self.max_iter, eval_set=eval_set)
        self._warn_after_fit()
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass over these rows, continuing the model; ``classes`` is needed at the first call."""
        first = not hasattr(self, "classes_")
        self._check_parameters(partial=first)
        if first:
            self._check_learning_rate()
            if self.class_weight == "balanced":
                raise ValueError(
                    "class_weight 'balanced' is not supported for partial_fit. In order to use 'balanced' weights, "
                    "use compute_class_weight('balanced', classes=classes, y=y). In place of y you can use a large "
                    "enough sample of the full training set target to properly estimate the class frequency "
                    "distributions. Pass the resulting weights as the class_weight parameter."
                )
        with self._unchanged_if_it_fails():
            X, y = self._validate(X, y, reset=first)
            self._check_classes(classes)
            if not hasattr(self, "t_"):
                self.t_ = 1.0
            state = self._state() if hasattr(self, "coef_") else self._new_state(X, None, None)
            self._fit_classes(state, X, y, sample_weight, max_iter=1)
        return self

    def _check_learning_rate(self) -> None:
        if self.learning_rate in ("pa1", "pa2") and self.loss != "hinge":
            raise ValueError(f"Learning rate '{self.learning_rate}' only works with loss 'hinge'.")

    def _check_classes(self, classes: Any) -> None:
        classes = on_host(classes)
        if not hasattr(self, "classes_"):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = unique_labels(classes)
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}"
            )

    def _take_classes(self, result: Result) -> None:
        if result.classes is None:
            raise ValueError(f"the result predicts numbers; {type(self).__name__} needs one of classes")
        self.classes_ = result.classes

    def _n_models(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _fit_classes(self, state: State, X: Any, y: Array, sample_weight: Any, **options: Any) -> None:
        random = check_random_state(self.random_state)
        if self._n_models() == 1:
            draw_for_data(random)
        held_out = self._split(y, sample_weight, StratifiedShuffleSplit)
        self._fit_from(
            state,
            X,
            y,
            len(y),
            seed=draw_seed(random),
            sample_weight=sample_weight,
            early_stopping=held_out,
            classes=self.classes_,
            class_weight=self._class_weights(y),
            **options,
        )

    def _class_weights(self, y: Array) -> Array | None:
        if self.class_weight is None:
            return None
        if self.class_weight == "balanced":
            counts = np.array([np.count_nonzero(y == label) for label in self.classes_])
            balanced: Array = len(y) / (len(counts) * np.maximum(counts, 1))
            return balanced
        weights: Array = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return weights

    def _model(self) -> tuple[Array, Array]:
        return self.coef_, self.intercept_

    def _set_model(self, coef: Array, intercept: Array) -> None:
        self.coef_ = coef
        self.intercept_ = intercept if self._n_models() == 1 else intercept.astype(coef.dtype, copy=False)

    def _keep_iterates(self, result: Result, state: State) -> tuple[Array, Array]:
        """As the base class, but for the intercepts that scikit-learn's `partial_fit` carries on under averaging.

        Once averaging has begun, a binary model starts each call from the intercept that it had before; a multiclass
        model does so a call later, and takes the last intercepts for their means from then on.
        """
        coef, intercept = super()._keep_iterates(result, state)
        if result.average_coef is None:
            return coef, intercept
        if self._n_models() == 1 or state.averaging:
            self._standard_intercept = state.intercept
        if self._n_models() > 1 and state.averaging:
            self._average_intercept = intercept = result.intercept
        return coef, intercept

    def decision_function(self, X: Any) -> Array:
        """Scores, shape (rows,) for two classes and (rows, classes) for more."""
        return self._scores(X, getattr(self, "intercept_", np.zeros(1)))

    def predict(self, X: Any) -> Array:
        """The class of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        if is_on_gpu(chosen) and self.classes_.dtype.kind in "biuf":  # a GPU has no words
            found: Array = devices.cuda().asarray(self.classes_)[chosen]
            return found
        labels: Array = self.classes_[on_host(chosen)]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is the predicted one."""
        return float(accuracy_score(on_host(y), on_host(self.predict(X)), sample_weight=on_host(sample_weight)))


class SGDClassifier(BaseClassifier):
    """Linear classifiers (SVM, logistic regression, perceptron, …) by stochastic gradient descent.

    scikit-learn's ``SGDClassifier`` with the same parameters, attributes and answers; see its documentation for those.
    Beyond it, 64-bit sparse indices are accepted, all classes are trained in one walk over the data, prediction uses
    all cores, and some parameters do more.

    Parameters
    ----------
    shuffle : ``True`` for an order as random as a permutation and kind to the caches, ``"full"`` for scikit-learn's own
        permutation, ``False`` for the order of the rows
    penalty : also ``"lasso"``, the paper's Lasso on two non-negative halves
    strategy : how the cores share the work; ``"auto"`` decides and says so in ``result_.strategy``
    device : ``"cpu"``, ``"cuda"`` to train on a GPU (docs/gpu.md), or ``"auto"`` for a GPU where there is one and the
        work is worth it; predictions are made where their rows are
    n_jobs : threads, ``None`` for every core this process may use
    callbacks : functions of a :class:`symsgd.PassRecord`, or :class:`symsgd.callbacks.Callback`; True stops the fit

    Attributes
    ----------
    result_ : :class:`symsgd.Result` of the last fit, with the record of every pass
    coef_, intercept_, classes_, n_iter_, t_, n_features_in_, feature_names_in_ : scikit-learn's

    Examples
    --------
    >>> from symsgd import SGDClassifier
    >>> from symsgd.data import twin
    >>> rcv1 = twin("rcv1", scale=0.01)
    >>> model = SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0).fit(rcv1.X, rcv1.y)
    >>> bool(model.score(rcv1.X_test, rcv1.y_test) > 0.85)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseClassifier._parameter_constraints,
        "loss": [StrOptions(set(BaseClassifier.loss_functions))],
        "epsilon": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        loss: str = "hinge",
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
        n_jobs: int | None = None,
        random_state: Any = None,
        learning_rate: str = "optimal",
        eta0: float | str = 0.01,
        power_t: float = 0.5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: Any = None,
        warm_start: bool = False,
        average: bool | int = False,
        strategy: Any = "auto",
        device: str = "cpu",
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.average = average
        self.strategy = strategy
        self.device = device
        self.callbacks = callbacks

    def _has_probabilities(self) -> bool:
        if self.loss not in ("log_loss", "modified_huber"):
            raise AttributeError(f"probability estimates are not available for loss={self.loss!r}")
        return True

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes: one-vs-rest estimates, normalised where there are more than two.

        For log_loss σ(score), for modified_huber (clip(score, −1, 1) + 1) / 2.
        """
        return probabilities(self.loss, self.decision_function(X))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`; modified_huber may give −inf."""
        found = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            logarithms: Array = devices.cuda().xp.log(found) if is_on_gpu(found) else np.log(found)
        return logarithms


def probabilities(loss: str, scores: Array) -> Array:
    """Of log_loss and modified_huber: a column a class."""
    xp: Any = devices.cuda().xp if is_on_gpu(scores) else np
    scores = scores.astype(np.float64)
    positive = 1 / (1 + xp.exp(-scores.clip(-700, 700))) if loss == "log_loss" else (scores.clip(-1, 1) + 1) / 2
    if positive.ndim == 1:
        both: Array = xp.column_stack([1 - positive, positive])
        return both
    total = positive.sum(axis=1, keepdims=True)
    positive[total[:, 0] == 0] = 1.0
    normalised: Array = positive / positive.sum(axis=1, keepdims=True)
    return normalised


class Perceptron(BaseClassifier):
    """The perceptron: scikit-learn's ``Perceptron``, with ``strategy``, ``device``, ``n_jobs`` and ``callbacks``.

    It is ``SGDClassifier(loss="perceptron", learning_rate="constant", eta0=1, penalty=None)``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from symsgd import Perceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(Perceptron().fit(X, y).score(X, y) > 0.9)
    True
    """

    loss = "perceptron"
    learning_rate = "constant"
    epsilon = 0.1
    power_t = 0.5
    average = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: constraint
        for name, constraint in BaseClassifier._parameter_constraints.items()
        if name not in ("average", "learning_rate", "power_t")
    }

    def __init__(
        self,
        *,
        penalty: str | None = None,
        alpha: float = 0.0001,
        l1_ratio: float = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool | str = True,
        verbose: int = 0,
        eta0: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = 0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: Any = None,
        warm_start: bool = False,
        strategy: Any = "auto",
        device: str = "cpu",
        callbacks: Any = None,
    ) -> None:
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.eta0 = eta0
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.strategy = strategy
        self.device = device
        self.callbacks = callbacks
