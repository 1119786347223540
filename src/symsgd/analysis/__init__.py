"""What a model combiner is made of: the exact M of a block, its singular values, the variance of its projection; and
which features of a data set are frequent. The paper's figures, lemmas and table, for your own data.
"""

from symsgd.analysis.blocks import BlockCombiner, combiner
from symsgd.analysis.frequency import frequent_features, nfnz_ratio
from symsgd.analysis.spectra import (
    ProjectionVariance,
    SingularValues,
    plot_singular_values,
    projection_variance,
    singular_values,
)

__all__ = [
    "BlockCombiner",
    "ProjectionVariance",
    "SingularValues",
    "combiner",
    "frequent_features",
    "nfnz_ratio",
    "plot_singular_values",
    "projection_variance",
    "singular_values",
]
