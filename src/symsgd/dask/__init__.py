"""symsgd on a Dask cluster: the same training, on as many machines as there are workers (docs/dask.md)."""

from symsgd.dask.estimators import SGDClassifier, SGDRegressor
from symsgd.dask.training import DistributedResult, train

__all__ = ["DistributedResult", "SGDClassifier", "SGDRegressor", "train"]
