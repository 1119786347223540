"""scikit-learn's SGD estimators, by their own names, on symsgd's core."""

from symsgd.estimators.classifier import Perceptron, SGDClassifier
from symsgd.estimators.one_class import SGDOneClassSVM
from symsgd.estimators.regressor import SGDRegressor

__all__ = ["Perceptron", "SGDClassifier", "SGDOneClassSVM", "SGDRegressor"]
