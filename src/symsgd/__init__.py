"""Linear models by stochastic gradient descent: scikit-learn's estimators on a fast native loop."""

from importlib.metadata import version as _version

from symsgd import analysis, callbacks, combiners, data, losses, models, penalties, reference, schedules, strategies
from symsgd.callbacks import History, PassRecord
from symsgd.errors import DivergenceError, ModelError, TrainingInterrupted
from symsgd.estimators import Perceptron, SGDClassifier, SGDOneClassSVM, SGDRegressor
from symsgd.judging import EarlyStopping
from symsgd.models import load, save, to_onnx
from symsgd.training import Result, Start, decision, train

__version__ = _version("symsgd")

__all__ = [
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
