"""How large the parts of a combiner are: its singular values, and the variance of its projection."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from symsgd import reference
from symsgd._choices import check_count
from symsgd.analysis.blocks import Vector, as_rows, as_vector, combiner

PAPER_BLOCK_SIZES = (64, 128, 256, 512)


@dataclass(frozen=True)
class SingularValues:
    """Of the combiner of one block, in descending order: those of M that are not E = Π(1 − αλ), and those of N = M − D.

    M has `n_states` singular values in all; those not in `M` equal `decay`, which is 1 without L2. Those of N that are
    not in `N` are 0.
    """

    block_size: int
    M: Vector
    N: Vector
    decay: float
    n_states: int


def singular_values(
    X: Any, y: Any, w: npt.ArrayLike, *, block_sizes: Sequence[int] = PAPER_BLOCK_SIZES, **choices: Any
) -> list[SingularValues]:
    """The singular values of M and N of the first 64, 128, … rows of X: the paper's figure of singular values.

    The other arguments are those of :func:`combiner`; step sizes and sample weights may be one a row of X. No matrix of
    features × features is formed, only one of the block's rows × the features they have.
    """
    rows = as_rows(X)
    sizes = [check_count("block_sizes", size) for size in block_sizes]
    if not sizes or max(sizes) > rows.shape[0]:
        raise ValueError(f"block_sizes={tuple(block_sizes)!r} are not accepted; X has {rows.shape[0]} rows")
    n = rows.shape[0]
    per_row = {
        name: np.asarray(value)
        for name, value in choices.items()
        if name in ("step_size", "sample_weight") and np.ndim(value) == 1 and len(value) == n
    }
    results = []
    for size in sizes:
        own = choices | {name: value[:size] for name, value in per_row.items()}
        block = combiner(rows[:size], None if y is None else np.asarray(y)[:size], w, **own)
        M, N = (np.asarray(np.linalg.svd(part, compute_uv=False), np.float64) for part in block.reduced())
        results.append(SingularValues(size, M, N, block.decay, block.n_states))
    return results


@dataclass(frozen=True)
class ProjectionVariance:
    """The variance (trace of the covariance) of D d + N A Aᵀ d, the projected estimate of M d.

    `exact` is (‖Nd‖² + ‖d‖²‖N‖²_F) / k, `lower` and `upper` the paper's bounds ‖d‖² Σσ²(N) / k and
    ‖d‖² (Σσ²(N) + σ²_max(N)) / k. `measured` is the mean of ‖N A Aᵀ d − N d‖² over the draws, `standard_error` its own.
    """

    k: int
    draws: int
    measured: float
    standard_error: float
    exact: float
    lower: float
    upper: float


def projection_variance(
    X: Any,
    y: Any,
    w: npt.ArrayLike,
    d: npt.ArrayLike,
    *,
    k: int = 15,
    draws: int = 200,
    seed: int = 0,
    observed: bool = True,
    **choices: Any,
) -> ProjectionVariance:
    """How far the projected combiner of a block scatters if the start moves by d: by formula, by bounds, by trying.

    d has one number a feature, and one more for the intercept if there is one. ``observed`` says that A has rows for
    the features of the block alone, as in the trainings: d counts on those features only. ``False`` is the paper's
    lemma to the letter. The other arguments are those of :func:`combiner`.
    """
    k, draws = check_count("k", k), check_count("draws", draws)
    block = combiner(X, y, w, **choices)
    change = as_vector(d, block.n_states, "d")
    drawn = np.ones(block.n_states, dtype=np.bool_)
    if observed:
        drawn[: block.rows.shape[1]] = np.asarray(abs(block.rows).sum(axis=0)).ravel() > 0.0
        change[~drawn] = 0.0
    exact_change = block.apply_rest(change)
    squares = np.linalg.svd(block.reduced()[1], compute_uv=False) ** 2
    length = float(change @ change)

    rng = np.random.default_rng(seed)
    errors, projected = np.empty(draws), np.zeros(block.n_states)
    for draw in range(draws):
        A = reference.sparse_projection(rng, int(drawn.sum()), k)
        projected[drawn] = A @ (A.T @ change[drawn])
        errors[draw] = np.sum((block.apply_rest(projected) - exact_change) ** 2)
    return ProjectionVariance(
        k=k,
        draws=draws,
        measured=float(errors.mean()),
        standard_error=float(errors.std(ddof=1) / np.sqrt(draws)) if draws > 1 else float("nan"),
        exact=(float(exact_change @ exact_change) + length * float(squares.sum())) / k,
        lower=length * float(squares.sum()) / k,
        upper=length * float(squares.sum() + squares.max()) / k,
    )


def plot_singular_values(values: Sequence[SingularValues]) -> Any:
    """The paper's figure: the singular values of M, and beside them those of N, one line a block size.

    Returns a matplotlib figure; ``.savefig(path)`` writes it.
    """
    if not values:
        raise ValueError("values is empty; give it what singular_values returns")
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError("plot_singular_values needs matplotlib: pip install matplotlib") from error
    figure = figures.Figure(figsize=(10, 4), layout="constrained")
    of_M, of_N = figure.subplots(1, 2)
    for one in values:
        of_M.plot(np.arange(1, len(one.M) + 1), one.M[::-1], label=f"{one.block_size} rows")
        of_N.plot(np.arange(1, len(one.N) + 1), one.N, label=f"{one.block_size} rows")
    of_M.set(title="M, smallest first", xlabel="number", xscale="log", ylabel="singular value")
    of_N.set(title="N = M − D, largest first", xlabel="number", xscale="log")
    of_N.legend(title="block")
    return figure
