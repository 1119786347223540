"""The lemmas on the projection: E[AAᵀ] = I, the variance of N A Aᵀ d and the paper's bounds on it.

tr Cov = (‖Nd‖² + ‖d‖²‖N‖²_F + (ρ − 3) Σ_i ‖N e_i‖² d_i²) / k, ρ the fourth moment of an entry of √k A. The sparse
entries (±√3 with probability 1/6 each) have ρ = 3, as normal ones do: the paper's formula. ±1 has ρ = 1, and less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracle_cases import rows, targets
from symsgd import losses, penalties, reference, schedules

F, N_ROWS, DRAWS = 10, 6, 10_000


def draws(kind: str, f: int, k: int, seed: int = 0) -> Any:
    """DRAWS matrices A, shape (DRAWS, f, k)."""
    rng = np.random.default_rng(seed)
    if kind == "sparse":
        return reference.sparse_projection(rng, DRAWS * f, k).reshape(DRAWS, f, k)
    entries = rng.choice([-1.0, 1.0], (DRAWS, f, k)) if kind == "sign" else rng.standard_normal((DRAWS, f, k))
    return entries / np.sqrt(k)


def rest_of_block(penalty: Any = None) -> Any:
    """N = M − D of a logistic block."""
    X, loss = rows(N_ROWS, F), losses.LogLoss()
    learner = reference.make_learner(
        X, targets(X, loss), loss=loss, penalty=penalty or penalties.NoPenalty(), schedule=schedules.Constant(0.5)
    )
    block = reference.run_block(learner, reference.start_state(learner), range(N_ROWS), trace=True)
    return reference.derivative(block) - reference.uncoupled_derivative(block)


def estimates(N: Any, d: Any, A: Any) -> Any:
    """N A Aᵀ d of every draw."""
    return np.einsum("dfk,dk->df", A, np.einsum("dfk,f->dk", A, d)) @ N.T


def test_moments_of_the_entries() -> None:
    k = 7
    entries = np.sqrt(k) * reference.sparse_projection(np.random.default_rng(0), 100_000, k)
    assert set(np.round(np.unique(entries), 12)) == {-round(np.sqrt(3), 12), 0.0, round(np.sqrt(3), 12)}
    for power, moment, error in [(1, 0.0, 1.0), (2, 1.0, np.sqrt(2)), (4, 3.0, np.sqrt(18))]:
        assert abs(np.mean(entries**power) - moment) < 4 * error / np.sqrt(entries.size)
    assert np.mean(entries == 0.0) == pytest.approx(2 / 3, abs=0.005)


@pytest.mark.parametrize("k", [1, 7, 15])
def test_a_times_its_transpose_is_the_identity_on_average(k: int) -> None:
    A = draws("sparse", F, k)
    products = np.einsum("dik,djk->dij", A, A)
    # an entry off the diagonal has variance 1 / k, one on it (ρ − 1) / k
    spread = np.sqrt((1.0 + np.eye(F)) / k / DRAWS)
    assert (np.abs(products.mean(axis=0) - np.eye(F)) < 4.5 * spread).all()


def test_the_printed_entries_are_not_unbiased() -> None:
    """±1/3 as entries of A, as the paper has it, gives (k / 27) I."""
    k = 7
    A = np.random.default_rng(0).choice([1 / 3, -1 / 3, 0.0], (DRAWS, F, k), p=[1 / 6, 1 / 6, 2 / 3])
    mean = np.einsum("dik,djk->ij", A, A) / DRAWS
    assert mean == pytest.approx(k / 27 * np.eye(F), abs=0.01)


@pytest.mark.parametrize("penalty", [penalties.NoPenalty(), penalties.L2(0.2)], ids=["none", "l2"])
@pytest.mark.parametrize("k", [1, 7, 15])
@pytest.mark.parametrize(("kind", "fourth"), [("sparse", 3.0), ("normal", 3.0), ("sign", 1.0)])
def test_variance(kind: str, fourth: float, k: int, penalty: Any) -> None:
    N = rest_of_block(penalty)
    d = np.random.default_rng(5).standard_normal(F + 1)
    errors = estimates(N, d, draws(kind, F + 1, k)) - N @ d
    squares = np.sum(errors**2, axis=1)
    measured, standard_error = squares.mean(), squares.std() / np.sqrt(DRAWS)

    lemma = (np.sum((N @ d) ** 2) + np.sum(d**2) * np.sum(N**2)) / k
    excess = (fourth - 3.0) * np.sum(np.sum(N**2, axis=0) * d**2) / k
    assert abs(measured - (lemma + excess)) < 4 * standard_error
    assert (np.abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(DRAWS) + 1e-12).all()
    if fourth == 3.0:
        sigma = np.linalg.svd(N, compute_uv=False)
        lower, upper = np.sum(d**2) * np.sum(sigma**2) / k, np.sum(d**2) * (np.sum(sigma**2) + sigma[0] ** 2) / k
        assert lower <= lemma <= upper
        assert lower - 4 * standard_error < measured < upper + 4 * standard_error
        assert standard_error < 0.05 * lemma
    else:
        assert measured < lemma - 4 * standard_error


def test_covariance_matrix() -> None:
    """Cov = (Nd (Nd)ᵀ + ‖d‖² N Nᵀ) / k, entry by entry."""
    k, N = 7, rest_of_block()
    d = np.random.default_rng(5).standard_normal(F + 1)
    errors = estimates(N, d, draws("sparse", F + 1, k)) - N @ d
    products = np.einsum("di,dj->dij", errors, errors)
    expected = (np.outer(N @ d, N @ d) + d @ d * N @ N.T) / k
    spread = products.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(products.mean(axis=0) - expected) < 5 * spread + 1e-12).all()


def test_taking_the_identity_off_is_what_makes_it_small() -> None:
    N = rest_of_block()
    M, d, k = N + np.eye(F + 1), np.random.default_rng(5).standard_normal(F + 1), 15
    of_m, of_n = ((np.sum((B @ d) ** 2) + d @ d * np.sum(B**2)) / k for B in (M, N))
    assert of_n < 0.5 * of_m


def test_features_that_the_block_has_not_add_no_variance() -> None:
    """With A = 0 in their rows the estimate is still unbiased, and ‖d‖² counts on the features that it has alone."""
    k, N = 7, rest_of_block()
    N = np.pad(N, ((0, 5), (0, 5)))  # five features more
    d = np.random.default_rng(5).standard_normal(len(N))
    A = draws("sparse", len(N), k)
    A[:, F + 1 :] = 0.0
    errors = estimates(N, d, A) - N @ d
    squares = np.sum(errors**2, axis=1)
    seen = d[: F + 1]
    expected = (np.sum((N @ d) ** 2) + seen @ seen * np.sum(N**2)) / k
    assert abs(squares.mean() - expected) < 4 * squares.std() / np.sqrt(DRAWS)
    assert (np.abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(DRAWS) + 1e-12).all()
