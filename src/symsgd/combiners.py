"""The combiners: how what a thread has learned from its block becomes part of a model that has moved on meanwhile.

A block starts from w, ends at S, and finds the model moved by d. With M = ∂S/∂w, the derivative of the block's steps in
where they began (the paper's model combiner), sequential SGD would have ended near S + M d. The combiners differ in how
they apply M; see docs/combiners.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from symsgd._choices import Choice, check_count, check_number

LARGEST_K = 4096
LARGEST_RANK = 128
LARGEST_MATRIX = 128  # features up to which a matrix is cheaper than a second walk over the block


@dataclass(frozen=True)
class Combiner(Choice):
    """Base of all combiners."""


@dataclass(frozen=True)
class Exact(Combiner):
    """S + M d with M as it is: for OLS this *is* sequential SGD, to rounding. An oracle, not a fast one.

    Parameters
    ----------
    form : "matrix" keeps M, (features + 1)² numbers a block; "walk" trains the blocks one after the other,
        each with M d beside its weights, for any number of features; "auto" takes the matrix up to 128 features
    keep : keep the matrices of the first pass for the later ones. For ``loss="squared_error"`` they do not depend on
        the weights; it also takes a constant step size and ``shuffle=False``
    soft_curvature : for losses whose gradient jumps (hinge, perceptron, epsilon_insensitive), take the slope of the
        gradient over the distance that predictions are off instead of its derivative, which is 0; ``False`` gives the
        rows of the paper's table
    """

    name: ClassVar[str] = "exact"
    form: Literal["auto", "matrix", "walk"] = "auto"
    keep: bool = False
    soft_curvature: bool = True

    def __post_init__(self) -> None:
        if self.form not in ("auto", "matrix", "walk"):
            raise ValueError(f"form={self.form!r} is not known; accepted are 'auto', 'matrix', 'walk'")
        if self.keep and self.form == "walk":
            raise ValueError("keep=True keeps matrices, which form='walk' does not make; use form='matrix'")


@dataclass(frozen=True)
class Projected(Combiner):
    """The paper's: S + D d + (M A − D A) Aᵀ d, with A a random matrix of ``k`` columns drawn anew for every block.

    The estimate is unbiased; its variance is (‖N d‖² + ‖d‖² ‖N‖²) / k, N = M − D. D is what the penalty alone does to
    each weight, the identity if there is none. k = 7 and 15 fill the vector units: a weight and its k columns lie side
    by side.
    """

    name: ClassVar[str] = "projected"
    k: int = 15
    soft_curvature: bool = True

    def __post_init__(self) -> None:
        check_count("k", self.k, at_most=LARGEST_K)


@dataclass(frozen=True)
class Sum(Combiner):
    """S + d: movements are added up, as if no step depended on any other."""

    name: ClassVar[str] = "sum"


@dataclass(frozen=True)
class Mean(Combiner):
    """The mean of the models of a round."""

    name: ClassVar[str] = "mean"


@dataclass(frozen=True)
class AdaGradMean(Combiner):
    """Blocks step with AdaGrad's rates, ``step_size`` / √G_i for weight i, G_i the sum of its squared gradients; their
    models are averaged weight by weight, each counting by its G_i."""

    name: ClassVar[str] = "adagrad-mean"
    step_size: float = 0.5

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, above=0.0)


@dataclass(frozen=True)
class Curvature(Combiner):
    """Ours: M ≈ exp(−a H) for every block, a the sum of its step sizes and H the mean curvature of the loss, estimated
    from a sample of the rows as its sharpest directions and a diagonal. Nothing rides along in the inner loop.

    Parameters
    ----------
    rank : directions of H that are followed by themselves; "auto" takes three for every block of a round, at least 16
        and at most 48, or four, 32 to 64, where there are up to 1,024 features
    refine : sweeps of refinement in every round, no more and no less; the first of each measures the error of the
        merge. 0 never refines and never measures. "auto" measures: now and then the last block of a round is trained
        again from where the merge says that it should have started. And with ``block_size="auto"`` it refines rounds
        of smooth losses by one sweep where no merge is good enough. As many sweeps as a round has blocks, less one,
        *are* sequential SGD (a block a thread). Without rounds (``Async``) "auto" or 0
    tolerance : of the error that "auto" measures, how far predictions are off as a share of their spread. Larger errors
        make blocks smaller, errors below half of it larger (``block_size="auto"``); at more than twice the tolerance a
        merge of blocks of a new size is undone, of blocks of a given size only above 0.5
    """

    name: ClassVar[str] = "curvature"
    rank: int | Literal["auto"] = "auto"
    refine: int | Literal["auto"] = "auto"
    tolerance: float = 0.01
    soft_curvature: ClassVar[bool] = True  # without it a loss with kinks has no curvature at all

    def __post_init__(self) -> None:
        if self.rank != "auto":
            check_count("rank", self.rank, at_most=LARGEST_RANK, auto=True)
        if self.refine != "auto":
            check_count("refine", self.refine, at_least=0, auto=True)
        check_number("tolerance", self.tolerance, above=0.0)


COMBINERS: dict[str, type[Combiner]] = {c.name: c for c in (Exact, Projected, Curvature, Sum, Mean, AdaGradMean)}
