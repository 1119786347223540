"""Models for other runtimes: an ONNX graph that computes what the estimator computes.

Plain operators, not ai.onnx.ml's LinearClassifier: that one keeps its coefficients in single precision and knows
neither modified_huber nor one-vs-rest probabilities. Outputs have the names, shapes and, in order, the rounding of what
they stand for:

    scores           decision_function(X), or predict(X) where numbers are predicted (then called "prediction")
    label            predict(X)
    probabilities    predict_proba(X), in double precision as there
"""

from __future__ import annotations

import importlib
import json
import os
from importlib.metadata import version
from typing import Any

import numpy as np

from symsgd.estimators._base import BaseSGD
from symsgd.files import written_whole
from symsgd.models.predictor import Array, Predictor
from symsgd.training import Result

OPSET = 17
IR_VERSION = 8  # of the same year, so that runtimes since then read it
LARGEST_BYTES = 2**31 - 2**20  # of a protocol buffer, less what is not coefficients
LARGEST_EXPONENT = 700.0  # as in predict_proba: exp of more is no double


def to_onnx(model: BaseSGD | Result, path: str | os.PathLike[str] | None = None, *, dtype: Any = None) -> Any:
    """The model as an ``onnx.ModelProto``, written to ``path`` if there is one. Needs ``pip install symsgd[onnx]``.

    The graph takes dense rows "X", shape (rows, features), of the coefficients' own type or of ``dtype`` (float32 or
    float64), and gives "label", "scores" and, for log_loss and modified_huber, "probabilities"; "prediction" where
    numbers are predicted. Labels are int64 or text; those that are fractions are doubles. Feature names, where there
    are any, are in the metadata as a JSON list.
    """
    try:
        onnx = importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install symsgd[onnx]") from error
    predictor = Predictor.of(model)
    graph = _Graph(onnx, _float_type(predictor.coef if dtype is None else dtype))
    if predictor.coef.size * graph.dtype.itemsize > LARGEST_BYTES:
        raise ValueError(f"{predictor.coef.size:,} coefficients are more than an ONNX file can hold, 2 GiB")
    _build(graph, predictor)
    proto = graph.model(predictor.n_features)
    names = predictor.own_names if predictor.own_names is not None else getattr(predictor.schema, "feature_names", None)
    if names is not None:
        onnx.helper.set_model_props(proto, {"feature_names": json.dumps(list(map(str, names)))})
    onnx.checker.check_model(proto)
    if path is not None:
        with written_whole(path) as file:
            file.write(proto.SerializeToString())
    return proto


def _float_type(source: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(getattr(source, "dtype", source))
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype} is not accepted; it must be float32 or float64")
    return dtype


class _Graph:
    """Nodes, constants and outputs as they come."""

    def __init__(self, onnx: Any, dtype: np.dtype[Any]) -> None:
        self.onnx, self.dtype = onnx, dtype
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.outputs: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        """The name of a constant; text is a tensor of text."""
        array = np.asarray(value)
        if array.dtype.kind in "UO":
            text = [str(own).encode() for own in array.ravel()]
            tensor = self.onnx.helper.make_tensor(name, self.onnx.TensorProto.STRING, array.shape, text)
        else:
            tensor = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.constants[name] = tensor
        return name

    def node(self, operator: str, *inputs: str, called: str | None = None, **attributes: Any) -> str:
        """The name of what ``operator`` makes of the inputs."""
        name = called or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def output(self, name: str, element: int, *columns: int) -> None:
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, element, ["rows", *columns]))

    def model(self, n_features: int) -> Any:
        helper = self.onnx.helper
        element = helper.np_dtype_to_tensor_dtype(self.dtype)
        rows = helper.make_tensor_value_info("X", element, ["rows", n_features])
        graph = helper.make_graph(self.nodes, "linear model", [rows], self.outputs, list(self.constants.values()))
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="symsgd",
            producer_version=version("symsgd"),
        )


def _build(graph: _Graph, predictor: Predictor) -> None:
    kinds = graph.onnx.TensorProto
    element = graph.onnx.helper.np_dtype_to_tensor_dtype(graph.dtype)
    several, classes = len(predictor.coef) > 1, predictor.classes
    numbers = classes is None and not predictor.outliers
    # a vector makes one score a row without a second axis, as decision_function does
    coef = predictor.coef.T if several else predictor.coef[0]
    intercept = predictor.intercept if several else predictor.intercept[0]
    products = graph.node("MatMul", "X", graph.constant("coef", coef.astype(graph.dtype)))
    shift = graph.constant("intercept", np.asarray(intercept, graph.dtype))
    scores = graph.node("Add", products, shift, called="prediction" if numbers else "scores")
    if numbers:
        graph.output(scores, element)
        return
    labels = np.array([-1, 1]) if classes is None else _label_type(classes)
    if several:
        chosen = graph.node("ArgMax", scores, axis=1, keepdims=0)
    else:
        compare = "GreaterOrEqual" if predictor.outliers else "Greater"
        above = graph.node(compare, scores, graph.constant("zero", np.zeros((), graph.dtype)))
        chosen = graph.node("Cast", above, to=kinds.INT64)
    graph.node("Gather", graph.constant("classes", labels), chosen, called="label")
    of_labels = {"U": kinds.STRING, "O": kinds.STRING, "f": kinds.DOUBLE}.get(labels.dtype.kind, kinds.INT64)
    graph.output("label", of_labels)
    graph.output("scores", element, *([len(predictor.coef)] if several else []))
    if predictor.loss in ("log_loss", "modified_huber"):
        _add_probabilities(graph, scores, predictor)
        graph.output("probabilities", kinds.DOUBLE, len(labels))


def _label_type(classes: Array) -> Array:
    if classes.dtype.kind in "biu":
        return classes.astype(np.int64)
    return classes.astype(np.float64) if classes.dtype.kind == "f" else classes


def _add_probabilities(graph: _Graph, scores: str, predictor: Predictor) -> None:
    """As :meth:`symsgd.SGDClassifier.predict_proba`."""
    one = graph.constant("one", np.float64(1))
    exact = graph.node("Cast", scores, to=graph.onnx.TensorProto.DOUBLE)
    logistic = predictor.loss == "log_loss"
    bound = LARGEST_EXPONENT if logistic else 1.0
    low, high = graph.constant("low", np.float64(-bound)), graph.constant("high", np.float64(bound))
    within = graph.node("Clip", exact, low, high)
    if logistic:
        positive = graph.node("Div", one, graph.node("Add", one, graph.node("Exp", graph.node("Neg", within))))
    else:
        positive = graph.node("Div", graph.node("Add", within, one), graph.constant("two", np.float64(2)))
    columns = graph.constant("columns", np.array([1]))
    if len(predictor.coef) == 1:
        negative = graph.node("Sub", one, positive)
        parts = [graph.node("Unsqueeze", part, columns) for part in (negative, positive)]
        graph.node("Concat", *parts, called="probabilities", axis=1)
        return
    total = graph.node("ReduceSum", positive, columns)
    none = graph.node("Equal", total, graph.constant("nothing", np.float64(0)))
    filled = graph.node("Where", none, one, positive)
    graph.node("Div", filled, graph.node("ReduceSum", filled, columns), called="probabilities")
