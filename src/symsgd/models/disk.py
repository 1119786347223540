"""`save` and `load`: fitted estimators and results of `train`, to a file and back.

A file holds the parameters, the coefficients and what a continued training needs besides, the record of the training,
and what the columns of the data meant. What it looks like is in :mod:`symsgd.archives`.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, TypeVar, overload

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from symsgd import archives
from symsgd.callbacks import PassRecord
from symsgd.data.dataset import Schema
from symsgd.errors import ModelError
from symsgd.estimators import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor
from symsgd.estimators._base import BaseSGD
from symsgd.estimators.convert import SHARED_ATTRIBUTES
from symsgd.models.values import Decoder, Encoder
from symsgd.training import Result

logger = logging.getLogger("symsgd")

FORMAT = "symsgd model"
FORMAT_VERSION = 1
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (SGDClassifier, Perceptron, SGDRegressor, SGDOneClassSVM, Result)
}

Path = str | os.PathLike[str]
Model = BaseSGD | Result
M = TypeVar("M", bound=Model)


def save(model: Model, path: Path, *, schema: Schema | None = None) -> None:
    """Writes a fitted estimator or a :class:`symsgd.Result` to a file, for :func:`load`.

    Parameters
    ----------
    model : an ``SGDClassifier``, ``Perceptron``, ``SGDRegressor`` or ``SGDOneClassSVM``, or what ``train`` returned.
        Callbacks are not saved; the file has a note where there were some.
    path : replaced if it exists, once the new file is complete
    schema : what the columns of the data meant, from the reader that read it; the model's own if there is none. The
        loaded model has it as ``schema_`` (a ``Result`` as ``schema``), to read the next file as the first.

    Raises
    ------
    TypeError : another kind of model
    ValueError : a parameter or label that cannot be saved, or a schema of another width; nothing is written
    """
    kind = type(model).__name__
    if KINDS.get(kind) is not type(model):
        raise TypeError(
            f"a {kind} is not saved by symsgd.save; accepted are {', '.join(KINDS)}. Of a pipeline save the last step"
        )
    model = copy.copy(model)  # in the host's memory
    encoder, notes = Encoder(), []
    if isinstance(model, Result):
        content, known = {"result": _result_fields(encoder, model)}, model.schema
        n_features = model.coef.shape[-1]
    else:
        check_is_fitted(model)
        content, known = _estimator_fields(encoder, model), getattr(model, "schema_", None)
        n_features = model.n_features_in_
        if model.callbacks is not None:
            notes.append("callbacks were not saved")
            logger.info("callbacks are not saved with the model")
    schema = known if schema is None else schema
    if schema is not None and schema.n_features != n_features:
        raise ValueError(f"schema has {schema.n_features} features, but the model has {n_features}")
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "symsgd": version("symsgd"),
        "kind": kind,
        "notes": notes,
        "schema": None if schema is None else schema.to_json(),
        **content,
    }
    archives.write(archives.MODEL, path, document, encoder.arrays)


@overload
def load(path: Path) -> Any: ...
@overload
def load(path: Path, kind: type[M]) -> M: ...
def load(path: Path, kind: type[Any] | None = None) -> Any:
    """The model in a file: the same kind, parameters, predictions and, if training goes on, the same bits as before.

    ``kind`` is the class it has to be, any if there is none. Nothing in the file is executed or unpickled.

    Raises
    ------
    ModelError : a ValueError: not a model, cut short, damaged, written by a later version or of another kind
    """
    document, arrays = archives.read(archives.MODEL, path)
    name = _checked_kind(path, document)
    if kind is not None and not issubclass(KINDS[name], kind):
        raise ModelError(path, f"holds a model of the kind {name}, not {kind.__name__}; symsgd.load takes both")
    try:
        return _restored(name, document, Decoder(arrays))
    except Exception as error:  # sealed by somebody else: values can be of any type, in any place
        raise ModelError(path, f"is not made as a symsgd model is: {type(error).__name__}: {error}") from error


def _checked_kind(path: Path, document: Mapping[str, Any]) -> str:
    if document.get("format") != FORMAT:
        raise ModelError(path, "is not a symsgd model")
    written = document.get("version")
    if not isinstance(written, int) or written > FORMAT_VERSION:
        raise ModelError(
            path,
            f"was written by symsgd {document.get('symsgd')} in version {written} of the format; this is symsgd "
            f"{version('symsgd')}, which reads up to version {FORMAT_VERSION}. A newer symsgd will read it",
        )
    name = document.get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise ModelError(path, f"holds a model of the kind {name!r}; known are {', '.join(KINDS)}")
    return name


def _restored(name: str, document: Mapping[str, Any], decoder: Decoder) -> Any:
    schema = None if document["schema"] is None else Schema.from_json(document["schema"])
    if name == Result.__name__:
        result = dataclasses.replace(_result(decoder, document["result"]), schema=schema)
        _check_weights(result.coef, *np.shape(result.coef))
        return result
    model = KINDS[name](**{key: decoder.decode(value) for key, value in document["parameters"].items()})
    for key, value in document["attributes"].items():
        if key not in SHARED_ATTRIBUTES:
            raise ValueError(f"{key} is no attribute of a model")
        setattr(model, key, decoder.decode(value))
    if document["result"] is not None:
        model.result_ = _result(decoder, document["result"])
    if schema is not None:
        model.schema_ = schema
    check_is_fitted(model)
    n_classes = len(model.classes_) if hasattr(model, "classes_") else 2
    _check_weights(model.coef_, 1 if n_classes == 2 else n_classes, model.n_features_in_)
    return model


def _check_weights(coef: Any, n_models: int, n_features: int) -> None:
    """ValueError if these are not so many models' weights of so many features."""
    shapes = [(n_models, n_features), *([(n_features,)] if n_models == 1 else [])]
    if not (isinstance(coef, np.ndarray) or sp.issparse(coef)) or coef.dtype.kind != "f" or coef.shape not in shapes:
        raise ValueError(f"coef is not an array of numbers of shape {shapes[0]}")


def _estimator_fields(encoder: Encoder, model: BaseSGD) -> dict[str, Any]:
    parameters = model.get_params(deep=False) | {"callbacks": None}
    attributes = {name: model.__dict__[name] for name in SHARED_ATTRIBUTES if name in model.__dict__}
    result = getattr(model, "result_", None)  # models that came from scikit-learn have none
    return {
        "parameters": {name: encoder.encode(name, value) for name, value in parameters.items()},
        "attributes": {name: encoder.encode(name, value) for name, value in attributes.items()},
        "result": None if result is None else _result_fields(encoder, result),
    }


def _result_fields(encoder: Encoder, result: Result) -> dict[str, Any]:
    fields = {own.name: getattr(result, own.name) for own in dataclasses.fields(result)}
    passes, _ = fields.pop("passes"), fields.pop("schema")
    return {
        **{name: encoder.encode(f"result.{name}", value) for name, value in fields.items()},
        "passes": [
            {own.name: encoder.encode(own.name, getattr(record, own.name)) for own in dataclasses.fields(record)}
            for record in passes
        ],
    }


def _result(decoder: Decoder, fields: Mapping[str, Any]) -> Result:
    passes = [
        PassRecord(**{name: decoder.decode(value) for name, value in record.items()}) for record in fields["passes"]
    ]
    others = {name: decoder.decode(value) for name, value in fields.items() if name != "passes"}
    return Result(**others, passes=passes)
