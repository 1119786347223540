"""Models that commands take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symsgd.data.dataset import Dataset


def load_estimator(path: str) -> Any:
    """The estimator in a file; its ``schema_`` may be missing."""
    import symsgd
    from symsgd.errors import ModelError

    model = symsgd.load(path)
    if isinstance(model, symsgd.Result):
        raise ModelError(path, "holds a Result, which does not know by which loss it was trained; give an estimator")
    return model


def check_width(model: Any, data: Dataset, path: str) -> None:
    """ValueError if the rows cannot be those of the model."""
    if data.X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"{path} has {data.X.shape[1]:,} features, and the model {model.n_features_in_:,}; it does not know how "
            "the data it was trained on was read, or that was another kind of file"
        )
