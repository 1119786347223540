"""The oracle: SGD for linear models in plain NumPy, one row at a time, float64, dense rows. Slow and readable.

Every learner is a loss ℓ(p, y) of the prediction p = x·w + b, with g = ∂ℓ/∂p and h = ∂²ℓ/∂p². Step number t on
row (x, y) with weight c (sample weight × class weight) and step size η is

    u = −η c g                                  (g clipped to ±10¹²)
    w ← max(0, 1 − (1 − r) η α) w + u x         (α the penalty's strength, r its share of L1)
    b ← b + κ u                                 (one-class: b + κ (u − η ν); κ the intercept decay)
    w ← truncation of w by the L1 penalty       (see `weights.Truncation`; the Lasso of the paper: `weights.Halves`)

which is the step of scikit-learn 1.9. Two things differ from scikit-learn, on purpose. Averages are the means of the
iterates, L1 truncation included (scikit-learn's are not, with L1 or elastic net). Objectives use the norms of all of w
(scikit-learn's leave out the features that the last row did not have); as in scikit-learn, so that trainings with a
tolerance stop after the same pass, they are the norms as they were before the last truncation.

`sequential` takes those steps one after the other. `rounds` takes them in blocks that all start from the same state,
and merges those by a combiner: see `tangents` for the derivative of a block, `combiners` for what is made of it.
`curvature_round` merges a round by the mean curvature of the loss, and refines it: see `curvature`.
`merge_ended` merges one block into a model that others have moved meanwhile.
"""

from symsgd.reference.adagrad import AdaGradBlock, run_adagrad_block, weighted_mean
from symsgd.reference.arrays import Matrix, Order, Touched, Vector
from symsgd.reference.block import Block, Learner, State, Step, make_learner, moved_state, run_block, start_state
from symsgd.reference.combiners import COMBINERS, Projection, seeded_projections, sparse_projection
from symsgd.reference.curvature import (
    CurvatureRound,
    chain,
    curvature_round,
    kept,
    mean_curvature,
    mean_derivative,
    merge_ended,
    spectrum_derivative,
    steps_of,
)
from symsgd.reference.losses import (
    LARGEST_GRADIENT,
    LOSSES,
    PIECEWISE_LINEAR,
    curvature,
    decision,
    gradient,
    soft_curvature,
    value,
)
from symsgd.reference.orders import (
    CHUNK_ROWS,
    SPLIT_MIX_STEP,
    WINDOW_CHUNKS,
    block_order,
    full_order,
    storage_order,
    window_order,
)
from symsgd.reference.rounds import rounds, split
from symsgd.reference.sequential import SequentialRun, sequential
from symsgd.reference.steps import (
    passive_aggressive_step,
    slope_of_passive_aggressive_step,
    slope_of_step,
    step_size,
)
from symsgd.reference.tangents import Pushed, derivative, derivative_of_iterates, push, uncoupled_derivative

__all__ = [
    "CHUNK_ROWS",
    "COMBINERS",
    "LARGEST_GRADIENT",
    "LOSSES",
    "PIECEWISE_LINEAR",
    "SPLIT_MIX_STEP",
    "WINDOW_CHUNKS",
    "AdaGradBlock",
    "Block",
    "CurvatureRound",
    "Learner",
    "Matrix",
    "Order",
    "Projection",
    "Pushed",
    "SequentialRun",
    "State",
    "Step",
    "Touched",
    "Vector",
    "block_order",
    "chain",
    "curvature",
    "curvature_round",
    "decision",
    "derivative",
    "derivative_of_iterates",
    "full_order",
    "gradient",
    "kept",
    "make_learner",
    "mean_curvature",
    "mean_derivative",
    "merge_ended",
    "moved_state",
    "passive_aggressive_step",
    "push",
    "rounds",
    "run_adagrad_block",
    "run_block",
    "seeded_projections",
    "sequential",
    "slope_of_passive_aggressive_step",
    "slope_of_step",
    "soft_curvature",
    "sparse_projection",
    "spectrum_derivative",
    "split",
    "start_state",
    "step_size",
    "steps_of",
    "storage_order",
    "uncoupled_derivative",
    "value",
    "weighted_mean",
    "window_order",
]
