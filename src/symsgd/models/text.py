"""A model in lines that people read."""

from __future__ import annotations

import numpy as np

from symsgd.estimators._base import BaseSGD
from symsgd.models.predictor import Array, Predictor
from symsgd.training import Result


def to_text(model: BaseSGD | Result, largest: int | None = None) -> str:
    """The model as text: what it is and how it was trained, then its weights by size, largest first, with names.

    Where there are more than two classes a line has a weight for each, and the largest of them counts. Features whose
    weights are all zero are counted, not listed; ``largest`` is how many others are, ``None`` for all. Numbers are
    written so that they read back as they are.
    """
    predictor = Predictor.of(model)
    lines = [f"{key}: {value}" for key, value in describe(model).items()]
    columns = ["weight"] if predictor.classes is None or len(predictor.coef) == 1 else list(map(str, predictor.classes))
    order = by_size(predictor.coef)
    shown = order[:largest]
    rows = [("(intercept)", predictor.intercept)]
    rows += [(predictor.name(int(feature)), predictor.coef[:, feature]) for feature in shown]
    width = max(len(name) for name, _ in rows)
    lines += ["", "\t".join(["feature".ljust(width), *columns])]
    lines += ["\t".join([name.ljust(width), *(repr(own.item()) for own in weights)]) for name, weights in rows]
    if len(shown) < len(order):
        lines.append(f"(and {len(order) - len(shown):,} smaller ones)")
    return "\n".join(lines) + "\n"


def by_size(coef: Array) -> Array:
    """The features that have a weight, the largest first; of equal ones the first first."""
    size = abs(coef).max(axis=0)
    order = np.argsort(-size, kind="stable")
    return order[: np.count_nonzero(size)]


def describe(model: BaseSGD | Result) -> dict[str, str]:
    """What the model is and how it was trained, a few words a line."""
    predictor = Predictor.of(model)
    result: Result | None = model if isinstance(model, Result) else getattr(model, "result_", None)
    used = int(np.count_nonzero(abs(predictor.coef).max(axis=0)))
    lines = {"model": type(model).__name__}
    if isinstance(model, BaseSGD):
        plain = type(model)().get_params()
        chosen = {name: value for name, value in model.get_params().items() if value != plain[name]}
        chosen.pop("callbacks", None)
        lines["loss"] = str(model.loss)
        if chosen:
            lines["parameters"] = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
    if predictor.classes is not None:
        lines["classes"] = ", ".join(map(str, predictor.classes))
    lines["features"] = f"{predictor.n_features:,}, {used:,} of them with a weight"
    if predictor.schema is not None:
        lines["read from"] = predictor.schema.format
    if result is not None:
        lines["strategy"] = result.strategy
        lines["steps"] = f"{int(result.t) - 1:,}"
        if result.passes:
            last, seconds = result.passes[-1], sum(record.seconds for record in result.passes)
            lines["passes"] = f"{len(result.passes)} in {seconds:.3g} s, training loss {last.loss:.6g}"
    return lines
