"""scikit-learn: its SGD on one core, and the solvers of its logistic regression. A budget is a number of iterations."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from symsgd.bench.systems.base import Model, Task
from symsgd.bench.systems.peer import Peer

CONSTANT_STEP = 2.0  # of rows of length 1: the longest that still settles
MOST_FEATURES = 4096  # of the solver that forms the Hessian


class _Estimator(Peer):
    """An estimator of scikit-learn; ``make`` gives one that ends after ``budget`` iterations and no sooner."""

    module: ClassVar[str] = "sklearn"
    package: ClassVar[str] = "scikit-learn"

    def set_up(self, task: Task) -> None:
        super().set_up(task)
        self.make(1)  # imports

    @abstractmethod
    def make(self, budget: int) -> Any:
        """An estimator, not yet fitted."""

    def run(self, budget: int) -> None:
        self.estimator = self.make(budget)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged, which is for us to judge
            self.estimator.fit(self.X, self.y)

    def model(self) -> Model:
        return Model(np.ravel(self.estimator.coef_))


class _SGD(_Estimator):
    options: ClassVar[dict[str, Any]] = {}

    def make(self, budget: int) -> Any:
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(
            loss="log_loss", alpha=self.task.alpha, fit_intercept=False, max_iter=budget, tol=None,
            random_state=self.task.seed, **self.options,
        )  # fmt: skip


class SGD(_SGD):
    """SGDClassifier with the schedule that it has by default, made for this alpha."""

    name: ClassVar[str] = "scikit-learn SGD"
    options: ClassVar[dict[str, Any]] = {"learning_rate": "optimal"}


class SGDConstant(_SGD):
    """SGDClassifier with a constant step: the faster one where there are many passes."""

    name: ClassVar[str] = "scikit-learn SGD constant"
    options: ClassVar[dict[str, Any]] = {"learning_rate": "constant", "eta0": CONSTANT_STEP}


class SGDAveraged(_SGD):
    """The same, averaged over all steps: what the constant step lacks where it does not settle."""

    name: ClassVar[str] = "scikit-learn SGD averaged"
    options: ClassVar[dict[str, Any]] = {"learning_rate": "constant", "eta0": CONSTANT_STEP, "average": True}


class _LogisticRegression(_Estimator):
    solver: ClassVar[str]
    tol: ClassVar[float] = 0.0

    def make(self, budget: int) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(
            C=self.cost, solver=self.solver, fit_intercept=False, max_iter=budget, tol=self.tol,
            random_state=self.task.seed,
        )  # fmt: skip


class Saga(_LogisticRegression):
    """LogisticRegression by SAGA."""

    name: ClassVar[str] = "scikit-learn saga"
    solver: ClassVar[str] = "saga"


class Lbfgs(_LogisticRegression):
    """LogisticRegression by L-BFGS, its default."""

    name: ClassVar[str] = "scikit-learn lbfgs"
    solver: ClassVar[str] = "lbfgs"


class NewtonCg(_LogisticRegression):
    """LogisticRegression by Newton's method with conjugate gradients."""

    name: ClassVar[str] = "scikit-learn newton-cg"
    solver: ClassVar[str] = "newton-cg"
    tol: ClassVar[float] = 1e-12  # at 0 it searches lines without end


class NewtonCholesky(_LogisticRegression):
    """LogisticRegression by Newton's method with a factorised Hessian."""

    name: ClassVar[str] = "scikit-learn newton-cholesky"
    solver: ClassVar[str] = "newton-cholesky"

    def reason_against(self, task: Task) -> str:
        if task.data.n_features > MOST_FEATURES:
            return f"it forms a matrix of features × features: compared up to {MOST_FEATURES} features"
        return super().reason_against(task)
