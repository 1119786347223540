"""`SGDClassifier` and `SGDRegressor` for Dask collections, with the parameters of their twins on one machine."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from symsgd import estimators
from symsgd.dask import prediction
from symsgd.dask.partitions import Partitions, partitions_of
from symsgd.dask.prediction import Predictor, is_collection
from symsgd.dask.training import train
from symsgd.errors import TrainingInterrupted
from symsgd.estimators._base import BaseSGD, State, draw_for_data, draw_seed
from symsgd.estimators.classifier import probabilities
from symsgd.results import Start

Array = npt.NDArray[Any]


class OnDask(BaseSGD):
    """What the two share. ``client`` is the cluster's; by default the one that this process has made last."""

    _client: Any = None

    @property
    def client(self) -> Any:
        """A ``distributed.Client``; not a parameter, and neither copied by ``clone`` nor pickled."""
        if self._client is not None:
            return self._client
        from distributed import default_client

        try:
            return default_client()
        except ValueError as error:
            raise ValueError(
                f"{type(self).__name__} found no distributed.Client; make one, or set model.client"
            ) from error

    @client.setter
    def client(self, client: Any) -> None:
        self._client = client

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_client"}

    def fit(
        self,
        X: Any,
        y: Any = None,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        blocks: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 1,
    ) -> Self:
        """Fits the model. ``blocks``, ``checkpoint`` and ``every`` as in :func:`symsgd.dask.train`."""
        self._check_for_dask(partial=False)
        with self._unchanged_if_it_fails():
            found = partitions_of(self.client, X, y, sample_weight)
            if self.warm_start and hasattr(self, "coef_"):
                before = self._state()
                coef_init = before.coef if coef_init is None else coef_init
                intercept_init = before.intercept if intercept_init is None else intercept_init
            self._take_labels(found)
            self._described(found)
            self.t_ = 1.0
            state = self._first_state(found, coef_init, intercept_init)
            options = {"eval_set": eval_set, "blocks": blocks, "checkpoint": checkpoint, "every": every}
            self._fit_partitions(found, state, self.max_iter, options)
        self._warn_after_fit()
        return self

    def _take_labels(self, found: Partitions) -> None:
        """Keeps what the targets can be, where that is for them to say."""

    def _drawn(self) -> int:
        """The seed, drawn as on one machine."""
        raise NotImplementedError

    def _own_options(self, found: Partitions) -> dict[str, Any]:
        """What `train` is told beside the parameters that both have."""
        return {}

    def _goes_on(self, found: Partitions) -> None:
        """One pass, from the model so far or from a new one."""
        first = not hasattr(self, "coef_")
        if first:
            self._described(found)
            self.t_ = 1.0
        state = self._first_state(found, None, None) if first else self._state()
        self._fit_partitions(found, state, 1, {"tol": None})

    def _fit_partitions(self, found: Partitions, state: State, max_iter: int, options: dict[str, Any]) -> None:
        own = {
            name: value
            for name, value in self.train_options().items()
            if name not in ("device", "average", "n_threads")
        }
        start = Start(state.coef, state.intercept, self.t_)
        arguments = {
            **own, "n_passes": max_iter, "n_threads": self.n_jobs, "seed": self._drawn(), "init": start,
            "callbacks": self._callbacks(), **self._own_options(found), **options,
        }  # fmt: skip
        try:
            result = train(self.client, found, **arguments)
        except TrainingInterrupted as interrupt:
            self._store(interrupt.result, state, found.n_rows)
            raise
        self._store(result, state, found.n_rows)
        self.result_ = result

    def _check_for_dask(self, *, partial: bool) -> None:
        self._check_parameters(partial=partial)
        self._check_learning_rate()
        for name, value, accepted in (
            ("early_stopping", self.early_stopping, False), ("average", self.average, False),
            ("device", self.device, "cpu"),
        ):  # fmt: skip
            if value != accepted:
                raise ValueError(f"{name}={value!r} does not work across workers; accepted is {name}={accepted!r}")
        if self.n_jobs is not None and self.n_jobs < 1:
            raise ValueError(
                f"n_jobs={self.n_jobs} is not accepted: a block has that many threads; None, or 1 and more"
            )

    def _described(self, found: Partitions) -> None:
        self.__dict__.pop("schema_", None)
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = found.n_features
        if found.names is not None:
            self.feature_names_in_ = np.array(found.names, object)

    def _first_state(self, found: Partitions, coef_init: Any, intercept_init: Any) -> State:
        shape = np.empty((0, found.n_features), found.dtype)  # as much of X as a state asks for
        return self._new_state(shape, coef_init, intercept_init)

    def _predictor(self, then: Any = None) -> Predictor:
        check_is_fitted(self)
        state = self._state()
        return Predictor(np.atleast_2d(np.asarray(state.coef)), np.asarray(state.intercept, np.float64), then)


class SGDClassifier(OnDask, estimators.SGDClassifier):
    """Linear classifiers by stochastic gradient descent on a Dask cluster: :class:`symsgd.SGDClassifier`, whose
    parameters it has, on Dask arrays, dataframes, delayed partitions and stores.

    ``n_jobs`` is the number of threads of a large block; ``result_`` a :class:`symsgd.dask.DistributedResult`. The
    cluster is ``model.client = client``, or the last client that was made. ``early_stopping``, ``average``, ``device``
    and penalties with L1 are refused.
    """

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass over these rows, continuing the model; ``classes`` is needed at the first call."""
        self._check_for_dask(partial=not hasattr(self, "classes_"))
        if self.class_weight == "balanced":
            raise ValueError("class_weight 'balanced' is not supported for partial_fit; give the weights themselves")
        with self._unchanged_if_it_fails():
            found = partitions_of(self.client, X, y, sample_weight)
            self._check_classes(classes)
            self._goes_on(found)
        return self

    def _take_labels(self, found: Partitions) -> None:
        loss = self._loss()
        labels = found.classes(loss, None if loss.margin else found.labels())
        if labels is None:
            raise ValueError("y has no labels, or too many for classes")
        self.classes_ = labels

    def _drawn(self) -> int:
        random = check_random_state(self.random_state)
        if self._n_models() == 1:
            draw_for_data(random)
        return draw_seed(random)

    def _own_options(self, found: Partitions) -> dict[str, Any]:
        return {"classes": self.classes_, "class_weight": self._weights_of(found)}

    def _weights_of(self, found: Partitions) -> Array | None:
        if self.class_weight != "balanced":
            return self._class_weights(self.classes_)
        counts = found.label_counts(self.classes_)
        balanced: Array = counts.sum() / (len(counts) * np.maximum(counts, 1))
        return balanced

    def decision_function(self, X: Any) -> Any:
        if not is_collection(X):
            return super().decision_function(X)
        several = self._n_models() if self._n_models() > 1 else None
        return prediction.mapped(X, self._predictor(), self.coef_.dtype, several)

    def predict(self, X: Any) -> Any:
        """The class of each row; lazy for collections."""
        if not is_collection(X):
            return super().predict(X)
        return prediction.mapped(X, self._predictor(partial(_chosen, self.classes_)), self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes; lazy for collections."""
        if not is_collection(X):
            return super().predict_proba(X)
        self._has_probabilities()
        then = partial(probabilities, self.loss)
        return prediction.mapped(X, self._predictor(then), np.float64, len(self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; of collections computed by the workers."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        return prediction.score(X, y, sample_weight, self._predictor(), self.classes_)


class SGDRegressor(OnDask, estimators.SGDRegressor):
    """Linear regression by stochastic gradient descent on a Dask cluster: :class:`symsgd.SGDRegressor`, as
    :class:`SGDClassifier` is."""

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """One pass over these rows, continuing the model."""
        self._check_for_dask(partial=not hasattr(self, "coef_"))
        with self._unchanged_if_it_fails():
            self._goes_on(partitions_of(self.client, X, y, sample_weight))
        return self

    def _drawn(self) -> int:
        random = check_random_state(self.random_state)
        seed = draw_seed(random)
        draw_for_data(random)
        return seed

    def predict(self, X: Any) -> Any:
        """x·w + b of each row; lazy for collections."""
        if not is_collection(X):
            return super().predict(X)
        return prediction.mapped(X, self._predictor(), self.coef_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R²; of collections computed by the workers."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        return prediction.score(X, y, sample_weight, self._predictor(), None)


def _chosen(classes: Array, scores: Array) -> Array:
    labels: Array = classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
    return labels
