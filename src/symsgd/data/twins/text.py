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
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from symsgd.data.twins.population import Floats, Labels, RowSampler, TwinSpec, labels, unit_rows


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

    def sampler(self, rng: Generator) -> RowSampler:
        return _sampler(self, rng)


class _Documents(NamedTuple):
    X: sp.csr_matrix
    topics: NDArray[np.int64]
    shares: Floats
    n_tokens: int


@dataclass(frozen=True)
class _Corpus:
    """The vocabulary and its topics. Row k of ``slots`` lists each word as often as φ_k asks: a draw is one look-up."""

    spec: TextSpec
    slots: NDArray[Any]
    popularity: Floats
    idf: NDArray[np.float32]

    def documents(self, n: int, mean_tokens: float, rng: Generator) -> _Documents:
        spec, n_slots = self.spec, self.slots.shape[1]
        spread = spec.tokens_spread
        lengths = mean_tokens * np.exp(spread * rng.standard_normal(n) - spread**2 / 2)
        tokens = np.maximum(np.rint(lengths).astype(np.int64), spec.min_tokens)
        topics = rng.choice(spec.n_topics, size=(n, spec.topics_per_row), p=self.popularity)
        shares = rng.dirichlet(np.full(spec.topics_per_row, spec.concentration), size=n)

        mixture = np.column_stack([np.full(n, spec.background), (1 - spec.background) * shares])
        counts = rng.multinomial(tokens, mixture)
        tables = np.column_stack([np.zeros(n, np.int64), 1 + topics])
        slots = np.repeat(n_slots * tables.ravel(), counts.ravel())
        slots += rng.integers(0, n_slots, size=len(slots), dtype=np.int32)
        words = self.slots.ravel()[slots]
        X = self._rows(n, np.repeat(np.arange(n) * spec.n_features, tokens) + words)
        return _Documents(X, topics, shares, len(words))

    def _rows(self, n: int, keys: NDArray[np.int64]) -> sp.csr_matrix:
        """Unit rows from one key, row · n_features + word, a token."""
        n_features = self.spec.n_features
        keys.sort()
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        frequency = np.diff(first, append=len(keys))
        starts = np.searchsorted(keys[first], np.arange(n + 1) * n_features)
        lengths = np.diff(starts)
        word = keys[first] - np.repeat(np.arange(n) * n_features, lengths)
        if self.spec.counts:
            values = frequency.astype(np.float32)
        else:
            values = (1 + np.log(frequency, dtype=np.float32)) * self.idf[word]
        values = unit_rows(values, lengths)
        return sp.csr_matrix((values, word.astype(np.int32), starts.astype(np.int32)), shape=(n, n_features))


def _corpus(spec: TextSpec, rng: Generator) -> tuple[_Corpus, Floats]:
    """The corpus, and the share of documents that contain each word."""
    n_words, n_topics = spec.n_words, spec.n_topics
    word_of_rank = rng.permutation(spec.n_features)[:n_words].astype(np.min_scalar_type(spec.n_features - 1))
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
    slots = np.empty((1 + n_topics, spec.n_slots), word_of_rank.dtype)
    for table in range(1 + n_topics):
        frequency = background * preference[table - 1] if table else background
        slots[table] = np.repeat(word_of_rank, _systematic_counts(frequency / frequency.sum(), spec.n_slots, rng))

    contained, idf = np.zeros(spec.n_features), np.zeros(spec.n_features, np.float32)
    contained[word_of_rank] = -np.expm1(-spec.tokens_guess * background)
    idf[word_of_rank] = -np.log(contained[word_of_rank])
    return _Corpus(spec, slots, popularity, idf), contained


def _systematic_counts(probability: Floats, total: int, rng: Generator) -> NDArray[np.int64]:
    """Integers of that total, each its share of it rounded up or down at random, without bias."""
    edges = np.minimum(np.floor(total * np.cumsum(probability) + rng.random()), total)
    edges[-1] = total  # the cumulative sum may end a rounding below or above 1
    return np.diff(edges, prepend=0.0).astype(np.int64)


def _sampler(spec: TextSpec, rng: Generator) -> RowSampler:
    corpus, contained = _corpus(spec, rng)
    pairs = np.tile([-1.0, 1.0], ((spec.n_topics + 1) // 2, 1))
    affinity = rng.permuted(pairs, axis=1).ravel()[: spec.n_topics]
    planted = np.zeros(spec.n_features)
    occurring = np.flatnonzero(contained)
    weight = contained[occurring] / contained[occurring].sum()
    words = rng.choice(occurring, size=spec.planted_words, replace=False, p=weight)
    planted[words] = rng.standard_normal(spec.planted_words)

    mean_tokens = spec.tokens_guess
    for _ in range(2):  # longer documents repeat more words: the second pilot corrects what the first one missed
        pilot = corpus.documents(spec.chunk_rows, mean_tokens, rng)
        mean_tokens = spec.mean_nonzeros * pilot.n_tokens / pilot.X.nnz
    affinity /= (affinity[pilot.topics] * pilot.shares).sum(axis=1).std()
    planted *= spec.planted_strength / (pilot.X @ planted).std()

    def noisy_scores(documents: _Documents, rng: Generator) -> Floats:
        X, topics, shares, _ = documents
        return spec.with_noise((affinity[topics] * shares).sum(axis=1) + X @ planted, rng)

    threshold = spec.threshold(noisy_scores(pilot, rng))

    def rows(n: int, rng: Generator) -> tuple[sp.csr_matrix, Labels]:
        documents = corpus.documents(n, mean_tokens, rng)
        return documents.X, labels(noisy_scores(documents, rng), threshold)

    return rows
