"""Twins of text: news articles as tf-idf (rcv1), web pages as counts of three letters in a row (webspam).

Documents are mixtures of topics over a common vocabulary. Word w has rank r(w), a random permutation, so that, as in
the real set, a feature's number says nothing about its frequency. With K topics:

    background   φ_0(w) ∝ (r(w) + q)^−s, Zipf–Mandelbrot
    popularity   π_k ∝ 1 / (k + k₀)
    topic k      φ_k(w) ∝ φ_0(w) e^{σ g_kw} / Σ_j π_j e^{σ g_jw},  g_kw ~ N(0, 1)

The sum over topics makes Σ_k π_k φ_k ≈ φ_0: a word has its few topics, yet the same frequency in the whole for every
seed. Then

    a document   z_1, …, z_m ~ π,  θ ~ Dirichlet(c, …, c)
    its length   T ~ log-normal of mean T̄ and log-variance ς², at least T_min
    its words    T draws from β φ_0 + (1 − β) Σ_j θ_j φ_{z_j};  word w came up tf_w times
    its row      x_w ∝ (1 + log tf_w) idf_w,  ‖x‖ = 1,  idf_w = −log(1 − exp(−T̄ φ_0(w)));  counts: x_w ∝ tf_w

where 1 − exp(−T̄ φ_0(w)), with a first guess of T̄, is about the share of documents that contain w. Words repeat, so a
row has fewer than T nonzeros: pilot documents set T̄ so that their mean is the real one. The label follows the topics,
a sparse linear model and noise:

    score        u = Σ_j θ_j a_{z_j} / sd + τ x·v / sd
    label        y = +1 if u + ε/γ > t, else −1;  ε ~ logistic, so P(y = +1) = 1 / (1 + exp(−γ (u − t)))

with a_k = ±1, one of each in every pair of topics of neighbouring popularity; v ~ N(0, 1) on ``planted_words`` words,
drawn by how many documents contain them, and 0 on the rest; the two standard deviations (sd) and t, which sets the
share of positive labels, from the pilot. γ bounds the AUC that any model can reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from symsgd._core import TextPopulation
from symsgd.data.dataset import SparseColumns
from symsgd.data.twins.population import Floats, Population, TwinSpec

N_FREQUENT = 1 << 14  # words that most nonzeros are of; what the core knows and counts of them fits a core's cache


@dataclass(frozen=True, kw_only=True)
class TextSpec(TwinSpec):
    """Documents as rows of unit length; the module's docstring has the model, in the order of these fields.

    ``n_slots`` is how finely the frequencies are kept: the rarest word of a topic comes up once in so many draws.
    """

    mean_nonzeros: float
    n_words: int  # that occur at all
    n_slots: int
    zipf_shift: float  # q
    zipf_exponent: float  # s
    n_topics: int  # K
    topic_sharpness: float  # σ
    popularity_shift: float  # k₀
    topics_per_row: int  # m
    concentration: float  # c
    tokens_guess: float  # T̄ before the pilot
    tokens_spread: float  # ς
    min_tokens: int  # T_min
    background: float  # β
    counts: bool  # x_w ∝ tf_w
    planted_words: int
    planted_strength: float  # τ

    def population(self, rng: Generator, n_threads: int) -> Population:
        return _population(self, rng, n_threads)


class _Corpus(NamedTuple):
    """The words that occur: the ``N_FREQUENT`` most frequent, then the others, both in the order of their features."""

    features: NDArray[np.int32]
    frequencies: NDArray[np.uint32]  # row 0 of the background, row 1 + k of topic k; each row adds up to n_slots
    popularity: Floats
    contained: Floats  # the share of documents that contain each word


def _corpus(spec: TextSpec, rng: Generator) -> _Corpus:
    n_words, n_topics = spec.n_words, spec.n_topics
    feature_of_rank = rng.choice(spec.n_features, n_words, replace=False)
    background = (np.arange(1, n_words + 1) + spec.zipf_shift) ** -spec.zipf_exponent
    background /= background.sum()
    popularity = 1 / (np.arange(1, n_topics + 1) + spec.popularity_shift)
    popularity /= popularity.sum()

    preference = rng.standard_normal((n_topics, n_words), dtype=np.float32)
    total = np.zeros(n_words)
    for topic in range(n_topics):  # no BLAS: its rounding depends on its threads; and no table of doubles, it is wide
        preference[topic] = np.exp(spec.topic_sharpness * preference[topic])
        total += popularity[topic : topic + 1] * preference[topic]
    preference /= total
    frequent, others = np.split(feature_of_rank, [N_FREQUENT])
    rank_of_word = np.concatenate([np.argsort(frequent), len(frequent) + np.argsort(others)])
    counts = np.empty((1 + n_topics, n_words), np.uint32)
    for table in range(1 + n_topics):
        frequency = background * preference[table - 1] if table else background
        counts[table] = _systematic_counts(frequency / frequency.sum(), spec.n_slots, rng)[rank_of_word]
    contained = -np.expm1(-spec.tokens_guess * background)
    features = feature_of_rank[rank_of_word].astype(np.int32)
    return _Corpus(features, counts, popularity, contained[rank_of_word])


def _systematic_counts(probability: Floats, total: int, rng: Generator) -> NDArray[np.int64]:
    """Integers of that total, each its share of it rounded up or down at random, without bias."""
    edges = np.minimum(np.floor(total * np.cumsum(probability) + rng.random()), total)
    edges[-1] = total  # the cumulative sum may end a rounding below or above 1
    return np.diff(edges, prepend=0.0).astype(np.int64)


def _population(spec: TextSpec, rng: Generator, n_threads: int) -> Population:
    corpus = _corpus(spec, rng)
    pairs = np.tile([-1.0, 1.0], ((spec.n_topics + 1) // 2, 1))
    affinity = rng.permuted(pairs, axis=1).ravel()[: spec.n_topics]
    planted = np.zeros(spec.n_words, np.float32)
    weight = corpus.contained / corpus.contained.sum()
    words = rng.choice(spec.n_words, size=spec.planted_words, replace=False, p=weight)
    planted[words] = rng.standard_normal(spec.planted_words)

    native = TextPopulation(
        frequencies=corpus.frequencies,
        popularity=np.cumsum(corpus.popularity),
        affinity=affinity,
        features=corpus.features,
        idf=None if spec.counts else -np.log(corpus.contained).astype(np.float32),
        planted=planted,
        n_frequent=min(N_FREQUENT, spec.n_words),
        topics_per_row=spec.topics_per_row,
        concentration=spec.concentration,
        background=spec.background,
        mean_tokens=spec.tokens_guess,
        tokens_spread=spec.tokens_spread,
        min_tokens=spec.min_tokens,
    )
    for _ in range(2):  # longer documents repeat more words: the second pilot corrects what the first one missed
        pilot = spec.pilot(native, rng, n_threads)
        assert isinstance(pilot.rows, SparseColumns)
        tokens = native.tokens(pilot.key, 0, spec.chunk_rows)
        native.mean_tokens = spec.mean_nonzeros * tokens / len(pilot.rows.indices)
    return Population(
        native,
        hidden=1 / pilot.hidden.std(),
        linear=spec.planted_strength / pilot.linear.std(),
        label_sharpness=spec.label_sharpness,
    ).with_threshold(pilot, spec.positive_share)
