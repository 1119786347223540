"""The rows of twins, as the core draws them: the distributions asked for, and the same rows however they are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from symsgd._core import FactorPopulation, OneHotPopulation, TextPopulation

N_ROWS = 20_000
CUTS = ndtri([0.3, 0.5, 0.9, 0.97])  # of a field: missing, then four values
SHARES = np.array([0.2, 0.4, 0.07, 0.03])
VALUES = np.array([2, 0, 3, 1])  # in the order of those shares


def text(frequencies: Any, **options: Any) -> TextPopulation:
    frequencies = np.asarray(frequencies, np.uint32)
    n_topics, n_words = len(frequencies) - 1, frequencies.shape[1]
    settings: dict[str, Any] = {
        "popularity": np.arange(1.0, n_topics + 1) / n_topics,
        "affinity": np.zeros(n_topics),
        "features": np.arange(n_words, dtype=np.int32),
        "idf": None,
        "planted": np.zeros(n_words, np.float32),
        "n_frequent": n_words,
        "topics_per_row": 2,
        "concentration": 0.2,
        "background": 0.5,
        "mean_tokens": 20.0,
        "tokens_spread": 0.5,
        "min_tokens": 3.0,
    }
    return TextPopulation(frequencies=frequencies, **settings | options)


def one_hot(runs: list[tuple[str, int, int]], fields: list[int], **options: Any) -> OneHotPopulation:
    """Fields of four values each; those with the same number share them. Without options they are independent."""
    settings: dict[str, Any] = {
        "loadings": np.zeros((1, len(fields))),
        "noise": np.ones(len(fields)),
        "label": np.ones(1),
    }
    tables = [(CUTS, np.array([-1, *(4 * i + VALUES)], np.int32)) for i in range(max(fields) + 1)]
    return OneHotPopulation(intervals=tables, field_intervals=fields, runs=runs, **settings | options)


def factors(n_features: int, **options: Any) -> FactorPopulation:
    settings: dict[str, Any] = {
        "loadings": np.zeros((1, n_features), np.float32),
        "noise": 1.0,
        "planted": np.arange(n_features, dtype=np.float32),
        "cuts": None,
    }
    return FactorPopulation(**settings | options)


POPULATIONS = {
    "text": text([[30, 20, 10, 4], [0, 1, 0, 63], [64, 0, 0, 0]]),
    "one-hot": one_hot([("categories", 0, 1), ("bag", 1, 4)], [0, 1, 1, 1]),
    "dense": factors(50),
    "sparse": factors(50, cuts=np.zeros(50, np.float32)),
}


def flat(drawn: tuple[Any, Any]) -> list[np.ndarray]:
    rows, scores = drawn
    return [*(rows if isinstance(rows, tuple) else [rows]), *scores]


def dense(drawn: tuple[Any, Any], width: int) -> np.ndarray:
    (starts, indices, values), _ = drawn
    X = np.zeros((len(starts) - 1, width))
    X[np.repeat(np.arange(len(X)), np.diff(starts)), indices] = values
    return X


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_rows_do_not_depend_on_the_threads(name: str, n_threads: int) -> None:
    population = POPULATIONS[name]
    for count in (1, 5, 333):
        alone, together = (flat(population.draw(7, 11, count, threads)) for threads in (1, n_threads))
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", POPULATIONS)
def test_a_row_is_the_same_in_any_span_and_another_for_another_key(name: str) -> None:
    population = POPULATIONS[name]
    whole, piece, other = (flat(population.draw(key, first, 40 - first, 1)) for key, first in ((7, 0), (7, 15), (8, 0)))
    for a, b in zip(whole[-3:], piece[-3:], strict=True):
        np.testing.assert_array_equal(a[15:], b)
    if len(whole) == 4:
        np.testing.assert_array_equal(whole[0][15:], piece[0])
    else:
        for a, b in zip(whole[1:3], piece[1:3], strict=True):
            np.testing.assert_array_equal(a[whole[0][15] :], b)
    assert len(np.unique(whole[-1])) == 40
    assert not np.isin(whole[-1], other[-1]).any()


def test_numbers_are_normal_and_noise_is_logistic() -> None:
    X, (_, linear, noise) = factors(4000).draw(3, 0, 500, 1)
    normal = X * np.sqrt(4000)  # the length of a row is nearly that
    assert stats.kstest(normal.ravel()[: 1 << 20], "norm").pvalue > 1e-3
    assert np.abs(normal).max() > 4.5  # the tail beyond the ziggurat's layers
    assert abs(np.corrcoef(normal[:-1].ravel(), normal[1:].ravel())[0, 1]) < 0.005
    np.testing.assert_allclose(linear, (X * np.arange(4000.0)).sum(axis=1), rtol=1e-4)
    _, (_, _, noise) = factors(1).draw(3, 0, N_ROWS, 1)
    assert stats.kstest(noise, "logistic").pvalue > 1e-3


def test_factors_make_features_correlated() -> None:
    """Twenty-one features, so that the last tile is not whole: s_j = 0.8 z_j' + 0.6 e_j, by the factor that j has."""
    loadings = np.zeros((2, 21), np.float32)
    loadings[0, :10], loadings[1, 10:] = 0.8, -0.8
    cuts = np.linspace(-1, 1, 21, dtype=np.float32)
    population = factors(21, loadings=loadings, noise=0.6, cuts=cuts)
    X = dense(population.draw(1, 0, N_ROWS, 1), 21)
    present = X > 0
    np.testing.assert_allclose(present.mean(axis=0), stats.norm.sf(cuts), atol=0.015)
    expected = stats.multivariate_normal([0, 0], [[1, 0.64], [0.64, 1]])
    both = (present[:, :, None] & present[:, None, :]).mean(axis=0)
    assert both[2, 7] == pytest.approx(expected.cdf(-cuts[[2, 7]]), abs=0.015)
    assert both[12, 20] == pytest.approx(expected.cdf(-cuts[[12, 20]]), abs=0.015)
    assert both[2, 20] == pytest.approx(stats.norm.sf(cuts[2]) * stats.norm.sf(cuts[20]), abs=0.015)


def test_words_come_up_as_often_as_their_frequencies_ask() -> None:
    """Frequencies of one, two and three digits; documents of one topic, whose words no other has."""
    background, topic = np.zeros(40, np.uint32), np.zeros(40, np.uint32)
    background[[0, 3, 7, 8, 20]] = [1, 17, 300, 2000, 65536 - 2318]
    topic[[1, 39]] = [65536 - 4097, 4097]
    population = text([background, topic], background=0.25, topics_per_row=1, mean_tokens=50.0, tokens_spread=0.0)
    (starts, indices, values), _ = population.draw(2, 0, N_ROWS, 1)
    assert population.tokens(2, 0, N_ROWS) == 50 * N_ROWS
    totals = np.repeat(np.add.reduceat(values, starts[:-1]), np.diff(starts))
    counts = 50 * values / totals  # values are counts over the row's length, and a row has 50 words
    np.testing.assert_allclose(counts, counts.round(), rtol=1e-4)
    found = np.bincount(indices, counts.round(), minlength=40)
    frequencies = (background + 3 * topic) / (4 * 65536)
    assert (found[frequencies == 0] == 0).all()
    occurring = frequencies > 0
    assert stats.chisquare(found[occurring], 50 * N_ROWS * frequencies[occurring]).pvalue > 1e-3


def test_topics_come_by_popularity_and_share_a_document_by_a_dirichlet() -> None:
    population = text(
        np.full((3, 4), 16), popularity=np.array([0.7, 1.0]), affinity=np.array([0.0, 1.0]), topics_per_row=3
    )
    _, (hidden, _, _) = population.draw(5, 0, N_ROWS, 1)
    rng = np.random.default_rng(0)
    shares, topics = rng.dirichlet([0.2] * 3, N_ROWS), rng.random((N_ROWS, 3)) > 0.7
    assert stats.ks_2samp(hidden.round(9), (shares * topics).sum(axis=1).round(9)).pvalue > 1e-3


def test_lengths_of_documents_are_log_normal_with_a_least() -> None:
    population = text(np.full((2, 4000), 1), mean_tokens=100.0, min_tokens=40.0, topics_per_row=1)
    lengths = np.array([population.tokens(9, first, 1) for first in range(4000)])
    assert lengths.min() == 40
    drawn = 100 * np.exp(0.5 * ndtri((np.arange(4000) + 0.5) / 4000) - 0.125)
    assert stats.ks_2samp(lengths, np.maximum(drawn.round(), 40)).pvalue > 1e-3


def test_frequent_words_and_others_are_merged_in_the_order_of_their_features() -> None:
    """Words 0 to 4 are frequent: features 2, 5, 6, 11, 30. The others are 0, 3, 12, 40, 41."""
    features = np.array([2, 5, 6, 11, 30, 0, 3, 12, 40, 41], np.int32)
    idf = np.linspace(0.5, 2, 10).astype(np.float32)
    planted = np.linspace(-1, 1, 10).astype(np.float32)
    population = text(np.full((2, 10), 7), features=features, idf=idf, planted=planted, n_frequent=5, topics_per_row=1)
    drawn = population.draw(4, 0, 500, 1)
    (starts, indices, _), (_, linear, _) = drawn
    rows = np.repeat(np.arange(500), np.diff(starts))
    assert (np.diff(rows * 64 + indices) > 0).all()
    assert set(indices) == set(features)
    X = dense(drawn, 42)
    np.testing.assert_allclose((X**2).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(X[:, features] @ planted, linear, atol=1e-6)
    damped = X[:, features] / idf
    twice = damped.max(axis=1) / np.where(damped > 0, damped, np.inf).min(axis=1)
    assert np.isclose(twice, 1 + np.log(2), rtol=1e-5).any()  # one word twice, another once


def test_fields_have_their_values_as_often_as_asked_and_follow_the_factors() -> None:
    population = one_hot([("categories", 0, 2)], [0, 1], loadings=np.array([[0.8, -0.8]]), noise=np.array([0.6, 0.6]))
    drawn = population.draw(6, 0, N_ROWS, 1)
    X = dense(drawn, 8)
    for field in (0, 1):
        np.testing.assert_allclose((X[:, 4 * field + VALUES] > 0).mean(axis=0), SHARES, atol=0.015)
    _, (hidden, _, _) = drawn
    assert stats.kstest(hidden, "norm").pvalue > 1e-3
    missing = ~X.reshape(-1, 2, 4).any(axis=2)
    position = stats.multivariate_normal([0, 0], [[1, -0.64], [-0.64, 1]])
    assert missing.all(axis=1).mean() == pytest.approx(position.cdf([CUTS[0], CUTS[0]]), abs=0.015)


def test_flags_numbers_and_bags() -> None:
    """A flag, then a number, of one feature each and one position; a bag of tokens, each once, in order."""
    tables = [(CUTS[:1], np.array([-1, feature], np.int32)) for feature in (0, 1)]
    tables.append((CUTS, np.array([-1, *(2 + VALUES)], np.int32)))
    population = OneHotPopulation(
        intervals=tables,
        field_intervals=[0, 1, 2, 2, 2],
        runs=[("flags", 0, 1), ("numbers", 1, 2), ("bag", 2, 5)],
        loadings=np.ones((1, 5)) * [[1, 1, 0, 0, 0]],
        noise=np.array([0.0, 0.0, 1, 1, 1]),
        label=np.ones(1),
    )
    planted = np.array([1.0, -2, 3, -4, 5, -6])
    population.plant(planted)
    drawn = population.draw(8, 0, N_ROWS, 1)
    (starts, indices, _), (hidden, linear, _) = drawn
    X = dense(drawn, 6)
    assert (np.diff(np.repeat(np.arange(N_ROWS), np.diff(starts)) * 6 + indices) > 0).all()
    np.testing.assert_array_equal(X[:, 0] > 0, hidden > CUTS[0])
    above = np.maximum(hidden - CUTS[0], 0)
    filled = X[:, 0] > 0
    np.testing.assert_allclose(
        (X[:, 1] / np.where(filled, X[:, 0], 1))[filled], (above / (1 + above))[filled], rtol=1e-5
    )
    once = 1 - (1 - SHARES) ** 3  # of three tokens at least one
    np.testing.assert_allclose((X[:, 2 + VALUES] > 0).mean(axis=0), once, atol=0.015)
    full = np.diff(starts) > 0
    np.testing.assert_allclose((X @ planted)[full], linear[full], atol=1e-5)


def test_an_interval_is_found_in_tables_of_any_size() -> None:
    """A field without noise says where its factor is: NumPy's search finds the same interval."""
    rng = np.random.default_rng(0)
    for n_values in (1, 2, 3, 100, 5000):
        cuts = np.sort(rng.standard_normal(n_values) * rng.choice([0.01, 1, 3], n_values))
        population = OneHotPopulation(
            intervals=[(cuts, np.arange(n_values + 1, dtype=np.int32))],
            field_intervals=[0],
            runs=[("categories", 0, 1)],
            loadings=np.ones((1, 1)),
            noise=np.zeros(1),
            label=np.ones(1),
        )
        (_, indices, _), (hidden, _, _) = population.draw(n_values, 0, 5000, 1)
        np.testing.assert_array_equal(indices, np.searchsorted(cuts, hidden))
