"""What the four estimators share: parameters, checks, a fit that changes nothing if it fails, prediction.

An estimator checks, calls :func:`symsgd.training.train` and keeps what comes back under scikit-learn's names. Where
scikit-learn has quirks that its users' models depend on, they are kept here and said so.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from symsgd import penalties, schedules
from symsgd.callbacks import Callback, ProgressBar, as_callbacks
from symsgd.devices import DEVICES, is_on_gpu
from symsgd.errors import TrainingInterrupted
from symsgd.estimators import convert
from symsgd.inputs import check_data, dense, on_host
from symsgd.judging import EarlyStopping, check_eval_set
from symsgd.losses import Loss
from symsgd.penalties import Penalty
from symsgd.schedules import Schedule
from symsgd.strategies import Strategy
from symsgd.threads import resolve_threads
from symsgd.training import Result, Start, decision, train

if TYPE_CHECKING:
    from symsgd.data.dataset import Schema

Array = npt.NDArray[Any]

LARGEST_SEED = np.iinfo(np.int32).max
SCHEDULE_NAMES = {"constant", "optimal", "invscaling", "linear", "adaptive", "pa1", "pa2"}


@dataclass
class State:
    """A model between calls: what the next step starts from and, with averaging, the means so far."""

    coef: Array
    intercept: Array
    average_coef: Array | None = None
    average_intercept: Array | None = None
    averaging: bool = False  # the means have begun


class BaseSGD(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators; ``loss`` and the rest are scikit-learn's parameters."""

    loss: str
    penalty: str | None
    alpha: float
    l1_ratio: float | None
    fit_intercept: bool
    max_iter: int
    tol: float | None
    shuffle: bool | str
    verbose: int
    epsilon: float
    random_state: Any
    learning_rate: str
    eta0: float | str
    power_t: float
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    warm_start: bool
    average: bool | int
    strategy: str | Strategy
    device: str
    n_jobs: int | None
    callbacks: Any

    coef_: Any
    t_: float
    n_iter_: int
    result_: Result
    schema_: Schema

    loss_functions: ClassVar[dict[str, tuple[Any, ...]]]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "shuffle": ["boolean", StrOptions({"blocks", "full"})],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "average": [Interval(Integral, 0, None, closed="neither"), "boolean"],
        "eta0": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "power_t": [Interval(Real, None, None, closed="neither")],
        "learning_rate": [StrOptions(SCHEDULE_NAMES)],
        "n_jobs": [Integral, None],
        "strategy": [str, Strategy],
        "device": [StrOptions(set(DEVICES))],
        "callbacks": [callable, Callback, list, tuple, None],
    }

    # --- what the parameters mean to `train` ---------------------------------------------------------------------

    def _loss(self) -> Loss:
        chosen, *defaults = self.loss_functions[self.loss]
        loss: Loss = chosen(self.epsilon) if defaults else chosen()
        return loss

    def _penalty(self) -> Penalty:
        match self.penalty:
            case None:
                return penalties.NoPenalty()
            case "l2":
                return penalties.L2(self.alpha)
            case "l1":
                return penalties.L1(self.alpha)
            case "lasso":
                return penalties.Lasso(self.alpha)
            case _:
                return penalties.ElasticNet(self.alpha, 0.0 if self.l1_ratio is None else self.l1_ratio)

    def _schedule(self) -> Schedule:
        match self.learning_rate:
            case "optimal":
                return schedules.Optimal(self.alpha)
            case "invscaling":
                return schedules.InvScaling(self.eta0, self.power_t)  # type: ignore[arg-type]  # not "auto"
            case name:
                return schedules.SCHEDULES[name](self.eta0)  # type: ignore[call-arg]

    def train_options(self) -> dict[str, Any]:
        """The parameters in the words of :func:`symsgd.train`, but for those that need the data to be one thing or
        another: the seed, class weights, rows to hold out."""
        return {
            "loss": self._loss(),
            "penalty": self._penalty(),
            "schedule": self._schedule(),
            "strategy": self.strategy,
            "device": self.device,
            "n_threads": resolve_threads(self.n_jobs),
            "n_passes": self.max_iter,
            "fit_intercept": self.fit_intercept,
            "shuffle": self.shuffle,
            "tol": self.tol,
            "patience": self.n_iter_no_change,
            "average": self.average,
        }

    def _callbacks(self) -> list[Callback]:
        return [*as_callbacks(self.callbacks), *([ProgressBar()] if self.verbose else [])]

    def _check_parameters(self, *, partial: bool) -> None:
        self._validate_params()
        if partial and self.early_stopping:
            raise ValueError("early_stopping should be False with partial_fit")
        if self.learning_rate == "optimal" and self.alpha == 0:
            raise ValueError(
                "alpha must be > 0 since learning_rate is 'optimal'. alpha is used to compute the optimal learning "
                "rate."
            )
        if self.eta0 == "auto" and self.learning_rate != "linear":
            raise ValueError(
                f"eta0='auto' goes with learning_rate='linear' only, not with {self.learning_rate!r}: it is the size "
                "of a first step from which the schedule must come down to 0"
            )
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise ValueError("l1_ratio must be set when penalty is 'elasticnet'")

    def _check_learning_rate(self) -> None:
        """ValueError if it does not go with the loss."""

    # --- fitting -------------------------------------------------------------------------------------------------

    @contextmanager
    def _unchanged_if_it_fails(self) -> Iterator[None]:
        """A failed fit leaves the estimator as it was; an interrupted one has stored what it reached."""
        before = dict(self.__dict__)
        try:
            yield
        except TrainingInterrupted:
            raise
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """scikit-learn's checks, but for finiteness of X, which the core checks on all cores. X stays where it is, in
        the memory of a GPU too; y comes to the host."""
        if reset:
            self.__dict__.pop("schema_", None)  # of other data
        y = on_host(y)
        if is_on_gpu(X):
            X = check_data(X, 1).source
            validate_data(self, X, y, reset=reset, skip_check_array=True)
            if isinstance(y, str) and y == "no_validation":
                return X
            return X, column_or_1d(check_array(y, ensure_2d=False, dtype=None), warn=True)
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}
        return validate_data(self, X, y, reset=reset, ensure_all_finite=False, **options)

    def _train(
        self,
        X: Any,
        y: Any,
        state: State,
        *,
        max_iter: int,
        seed: int,
        sample_weight: Any,
        eval_set: Any = None,
        early_stopping: EarlyStopping | None = None,
        **options: Any,
    ) -> Result:
        start = Start(
            state.coef, state.intercept, self.t_, state.average_coef, state.average_intercept
        )  # fmt: skip
        if eval_set is not None:
            eval_X, eval_y = check_eval_set(eval_set)
            eval_set = (self._validate(eval_X, reset=False), eval_y)
        return train(
            X,
            y,
            **(self.train_options() | {"n_passes": max_iter}),
            seed=seed,
            sample_weight=sample_weight,
            init=start,
            early_stopping=early_stopping,
            eval_set=eval_set,
            callbacks=self._callbacks(),
            **options,
        )

    def _split(self, y: Array, sample_weight: Any, splitter: type) -> EarlyStopping | None:
        """The rows that early stopping holds out: scikit-learn's own split."""
        if not self.early_stopping:
            return None
        split = splitter(test_size=self.validation_fraction, random_state=self.random_state)
        train_rows, held_rows = next(split.split(np.zeros((len(y), 1)), y))
        if sample_weight is not None and not np.any(np.asarray(on_host(sample_weight))[held_rows] > 0):
            raise ValueError(
                "The sample weights for validation set are all zero, consider using a different random state."
            )
        if len(train_rows) == 0 or len(held_rows) == 0:
            raise ValueError(
                f"Splitting {len(y)} samples into a train set and a validation set with "
                f"validation_fraction={self.validation_fraction!r} led to an empty set ({len(train_rows)} and "
                f"{len(held_rows)} samples). Please either change validation_fraction, increase number of samples, or "
                "disable early_stopping."
            )
        held_out = np.zeros(len(y), bool)
        held_out[held_rows] = True
        return EarlyStopping(held_out)

    def _warn_after_fit(self) -> None:
        if self.tol is not None and self.n_iter_ == self.max_iter:
            warnings.warn(
                "Maximum number of iteration reached before convergence. Consider increasing max_iter to improve the "
                "fit.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if self.power_t < 0:
            warnings.warn(
                "Negative values for `power_t` are deprecated in version 1.8 and will raise an error in 1.10. Use "
                "values in the range [0.0, inf) instead.",
                FutureWarning,
                stacklevel=3,
            )

    # --- the model between calls ---------------------------------------------------------------------------------

    def _n_models(self) -> int:
        return 1

    def _model(self) -> tuple[Array, Array]:
        """The coefficients and intercepts that predict, in the memory that the rows were in."""
        raise NotImplementedError

    def _set_model(self, coef: Array, intercept: Array) -> None:
        raise NotImplementedError

    def _new_state(self, X: Any, coef_init: Any, intercept_init: Any) -> State:
        n_models = self._n_models()
        coef = _initial("coef_init", coef_init, (n_models, X.shape[1]), X.dtype)
        intercept = _initial("intercept_init", intercept_init, (n_models,), np.float64)
        if not self.average:
            return State(coef, intercept)
        return State(coef, intercept, _flat_if_one(np.zeros_like(coef)), np.zeros_like(intercept))

    def _state(self) -> State:
        if self.average and hasattr(self, "_average_coef"):
            means = (self._average_coef, self._average_intercept, self.average <= self.t_ - 1)
            return State(self._standard_coef, self._standard_intercept, *means)
        coef, intercept = self._model()
        return State(on_host(dense(coef)), on_host(intercept))

    def _store(self, result: Result, state: State, n_rows: int) -> None:
        """Keeps a training's result under scikit-learn's names."""
        self.n_iter_ = max(1, result.n_passes)
        self.t_ += self.n_iter_ * n_rows
        if self.average:
            self._set_model(*self._keep_iterates(result, state))
        else:
            for attribute in ("_standard_coef", "_standard_intercept", "_average_coef", "_average_intercept"):
                self.__dict__.pop(attribute, None)
            # partial_fit changes the coefficients where they are, as scikit-learn's does
            self._set_model(_written(result.coef, state.coef), result.intercept)
        # result_ shares its arrays with the estimator's, so that a pickle holds them once
        coef, intercept = self._model()
        self.result_ = dataclasses.replace(
            result, coef=coef, intercept=intercept, average_coef=None, average_intercept=None
        )

    def _keep_iterates(self, result: Result, state: State) -> tuple[Array, Array]:
        """Keeps the iterates and their means apart for the next call; returns which of them predict."""
        self._standard_coef, self._standard_intercept = _flat_if_one(result.coef), result.intercept
        if result.average_coef is None or result.average_intercept is None:  # averaging has not begun
            self._average_coef, self._average_intercept = state.average_coef, state.average_intercept
            return result.coef, result.intercept
        self._average_coef, self._average_intercept = _flat_if_one(result.average_coef), result.average_intercept
        return result.average_coef, result.average_intercept

    def _fit_from(self, state: State, X: Any, y: Any, n_rows: int, **options: Any) -> None:
        try:
            result = self._train(X, y, state, **options)
        except TrainingInterrupted as interrupt:
            self._store(interrupt.result, state, n_rows)
            raise
        self._store(result, state, n_rows)

    # --- to and from `train` -------------------------------------------------------------------------------------

    def adopt(self, result: Result) -> Self:
        """Becomes the model of a :class:`symsgd.Result`, as if ``fit`` had trained it with these parameters."""
        self._validate_params()
        if result.average_coef is not None and not self.average:
            raise ValueError(f"average={self.average!r}, but the result has the means of its iterates; average=True")
        with self._unchanged_if_it_fails():
            self._take_classes(result)
            for attribute in ("feature_names_in_", "schema_"):
                self.__dict__.pop(attribute, None)
            if result.schema is not None:
                self.schema_ = result.schema
            self.n_features_in_ = result.coef.shape[1]
            self.t_ = result.t
            state = State(on_host(result.coef), on_host(result.intercept))
            if self.average:
                state.average_coef = _flat_if_one(np.zeros_like(on_host(result.coef)))
                state.average_intercept = np.zeros_like(on_host(result.intercept))
            self._store(result, state, 0)
        return self

    def _take_classes(self, result: Result) -> None:
        if result.classes is not None:
            raise ValueError(f"the result tells {len(result.classes)} classes apart; {type(self).__name__} has none")

    def as_start(self) -> Start:
        """Where a :func:`symsgd.train` begins that continues this model."""
        check_is_fitted(self)
        state = self._state()
        return Start(np.atleast_2d(state.coef), state.intercept, self.t_, state.average_coef, state.average_intercept)

    # --- prediction and coefficients -----------------------------------------------------------------------------

    def _scores(self, X: Any, intercept: Array) -> Array:
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        return decision(X, self.coef_, intercept, n_threads=resolve_threads(self.n_jobs))

    def to_sklearn(self) -> Any:
        """The same model as scikit-learn's estimator of this name."""
        return convert.to_sklearn(self)

    @classmethod
    def from_sklearn(cls, estimator: Any) -> Self:
        """The same model from scikit-learn's estimator of this name."""
        converted: Self = convert.from_sklearn(cls, estimator)
        return converted

    def save(self, path: str | os.PathLike[str], *, schema: Schema | None = None) -> None:
        """Writes the fitted model to a file: :func:`symsgd.save`."""
        from symsgd import models  # which is made of estimators

        models.save(self, path, schema=schema)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model in a file, if it is one of this class: :func:`symsgd.load`."""
        from symsgd import models

        return models.load(path, cls)

    def densify(self) -> Self:
        """Makes ``coef_`` a dense array again."""
        check_is_fitted(self, msg="Estimator, %(name)s, must be fitted before densifying.")
        self._hold(dense(self.coef_))
        return self

    def sparsify(self) -> Self:
        """Makes ``coef_`` a sparse matrix, smaller where an L1 penalty left most weights at zero."""
        check_is_fitted(self, msg="Estimator, %(name)s, must be fitted before sparsifying.")
        as_arrays = get_config().get("sparse_interface") == "sparray"
        self._hold((sp.csr_array if as_arrays else sp.csr_matrix)(sp.csr_array(on_host(self.coef_))))
        return self

    def _hold(self, coef: Any) -> None:
        self.coef_ = coef
        if hasattr(self, "result_"):
            self.result_ = dataclasses.replace(self.result_, coef=coef)

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or a pickle, has its model in the host's memory, so that machines without a GPU can load it."""
        state: dict[str, Any] = dict(super().__getstate__())  # not the model's own
        moved = [name for name in ("coef_", "intercept_", "offset_") if is_on_gpu(state.get(name))]
        state |= {name: on_host(state[name]) for name in moved}
        if moved and "result_" in state:
            result: Result = state["result_"]
            coef = state["coef_"] if result.coef is self.coef_ else on_host(result.coef)
            state["result_"] = dataclasses.replace(result, coef=coef, intercept=on_host(result.intercept))
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def loss_table(classes: Iterable[type[Loss]]) -> dict[str, tuple[Any, ...]]:
    """scikit-learn's public ``loss_functions``: by name, the class of a loss and its default ε if it has one."""
    return {loss.name: (loss, *(field.default for field in dataclasses.fields(loss))) for loss in classes}


def draw_seed(random: np.random.RandomState) -> int:
    """The seed of an order, as scikit-learn draws it."""
    return int(random.randint(LARGEST_SEED))


def draw_for_data(random: np.random.RandomState) -> None:
    """What scikit-learn's data set objects draw and nobody uses: seeds before and after must come out the same."""
    random.randint(1, LARGEST_SEED)


def _flat_if_one(coef: Array) -> Array:
    """The coefficients of a single model without their first axis, as scikit-learn keeps the iterates."""
    return coef[0] if len(coef) == 1 else coef


def _written(values: Array, into: Array) -> Array:
    """``into``, holding the values now; or the values if it cannot hold them."""
    if is_on_gpu(values) or into.dtype != values.dtype or not into.flags.writeable:
        return values
    into[...] = values.reshape(into.shape)
    return into


def _initial(argument: str, value: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """``coef_init`` or ``intercept_init`` as an own array of that shape, zeros if there is none."""
    if value is None:
        return np.zeros(shape, dtype)
    array: Array = np.array(on_host(dense(value)), dtype)
    if array.shape != shape and array.size == int(np.prod(shape)) and shape[0] == 1:
        array = array.reshape(shape)
    if array.shape != shape:
        raise ValueError(f"Provided {argument} does not match dataset: its shape is {array.shape}, not {shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"Provided {argument} contains NaN or infinity.")
    return array
