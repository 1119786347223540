"""Linear models by stochastic gradient descent: scikit-learn's estimators on a fast native loop.

Modules are imported when they are first used, so that `import symsgd` and the program's help take no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symsgd import (
        analysis,
        callbacks,
        combiners,
        data,
        losses,
        models,
        penalties,
        reference,
        schedules,
        strategies,
    )
    from symsgd.callbacks import History, PassRecord
    from symsgd.errors import CheckpointError, DivergenceError, ModelError, TrainingInterrupted
    from symsgd.estimators import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor
    from symsgd.judging import EarlyStopping
    from symsgd.models import load, save, to_onnx
    from symsgd.training import Result, Start, decision, train

    __version__: str

_MODULES = (
    "analysis", "callbacks", "combiners", "data", "losses", "models", "penalties", "reference", "schedules",
    "strategies",
)  # fmt: skip
_NAMES = {
    "callbacks": ("History", "PassRecord"),
    "errors": ("CheckpointError", "DivergenceError", "ModelError", "TrainingInterrupted"),
    "estimators": ("Perceptron", "SGDClassifier", "SGDOneClassSVM", "SGDRegressor"),
    "judging": ("EarlyStopping",),
    "models": ("load", "save", "to_onnx"),
    "training": ("Result", "Start", "decision", "train"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "CheckpointError",
    "DivergenceError",
    "EarlyStopping",
    "History",
    "ModelError",
    "PassRecord",
    "Perceptron",
    "Result",
    "SGDClassifier",
    "SGDOneClassSVM",
    "SGDRegressor",
    "Start",
    "TrainingInterrupted",
    "analysis",
    "callbacks",
    "combiners",
    "data",
    "decision",
    "load",
    "losses",
    "models",
    "penalties",
    "reference",
    "save",
    "schedules",
    "strategies",
    "to_onnx",
    "train",
]

if not TYPE_CHECKING:  # a checker that sees it believes every name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            value: Any = version("symsgd")
        elif name in _MODULES:
            value = import_module(f"symsgd.{name}")
        elif name in _HOME:
            value = getattr(import_module(f"symsgd.{_HOME[name]}"), name)
        else:
            raise AttributeError(f"module 'symsgd' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
