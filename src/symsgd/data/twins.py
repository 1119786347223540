"""Synthetic twins of the paper's data sets: the same shape, sparsity and correlations, without the download.

A twin imitates what decides how an SGD behaves on the real set (the paper's table "Datasets characteristics"): rows,
features, nonzeros a row and their spread, the share of nonzeros on frequent features, correlated features, and a
linear model that is good but not perfect.

**Text (rcv1).** Documents are mixtures of topics over a common vocabulary. Word w has rank r(w), a random permutation,
so that, as in the real set, a feature's number says nothing about its frequency. With K topics:

    background   φ_0(w) ∝ (r(w) + q)^−s, Zipf–Mandelbrot
    popularity   π_k ∝ 1 / (k + k₀)
    topic k      φ_k(w) ∝ φ_0(w) e^{σ g_kw} / Σ_j π_j e^{σ g_jw},  g_kw ~ N(0, 1)

The sum over topics makes Σ_k π_k φ_k ≈ φ_0: a word has its few topics, yet the same frequency in the whole for every
seed. Then

    a document   z_1, …, z_m ~ π,  θ ~ Dirichlet(c, …, c)
    its length   T ~ log-normal of mean T̄ and log-variance ς², at least T_min
    its words    T draws from β φ_0 + (1 − β) Σ_j θ_j φ_{z_j};  word w came up tf_w times
    its row      x_w ∝ (1 + log tf_w) idf_w,  ‖x‖ = 1,  idf_w = −log(1 − exp(−T̄ φ_0(w)))

where 1 − exp(−T̄ φ_0(w)), with a first guess of T̄, is about the share of documents that contain w. Words repeat, so a
row has fewer than T nonzeros: pilot documents set T̄ so that their mean is the real one. The label follows the topics,
a sparse linear model and noise:

    score        u = Σ_j θ_j a_{z_j} / sd + τ x·v / sd
    label        y = +1 if u + ε/γ > t, else −1;  ε ~ logistic, so P(y = +1) = 1 / (1 + exp(−γ (u − t)))

with a_k = ±1, one of each in every pair of topics of neighbouring popularity; v ~ N(0, 1) on ``planted_words`` words,
drawn by how many documents contain them, and 0 on the rest; the two standard deviations (sd) and t, which sets the
share of positive labels, from the pilot. γ bounds the AUC that any model can reach.

Every chunk of rows has its own child of the seed: the draws, several times the size of the rows, stay within a chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from symsgd._choices import check_number

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]
RowSampler = Callable[[int, Generator], tuple[sp.csr_matrix, Labels]]

CHUNK_ROWS = 20_000
PILOT_ROWS = 20_000
TEST_SHARE = 0.2
SLOTS = 1 << 18


@dataclass(frozen=True, eq=False)
class Twin:
    """Training rows and held-out rows of one distribution; X is CSR float32, y is −1 or +1."""

    X: sp.csr_matrix
    y: Labels
    X_test: sp.csr_matrix
    y_test: Labels
    name: str


@dataclass(frozen=True)
class TwinSpec(ABC):
    """What a twin imitates; ``n_rows`` are the training rows at scale 1."""

    n_rows: int
    n_features: int

    @abstractmethod
    def sampler(self, rng: Generator) -> RowSampler:
        """Draw the population; return what draws n rows and their labels from it."""


@dataclass(frozen=True)
class TextSpec(TwinSpec):
    """Documents as tf-idf rows of unit length; the module's docstring has the model, in the order of these fields."""

    mean_nonzeros: float
    positive_share: float
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
    planted_words: int
    planted_strength: float  # τ
    label_sharpness: float  # γ

    def sampler(self, rng: Generator) -> RowSampler:
        return _text_sampler(self, rng)


TWINS: Mapping[str, TwinSpec] = {
    "rcv1": TextSpec(
        n_rows=781_265,
        n_features=47_153,
        mean_nonzeros=74.71,
        positive_share=0.47,
        zipf_shift=124.0,
        zipf_exponent=1.55,
        n_topics=60,
        topic_sharpness=3.2,
        popularity_shift=2.0,
        topics_per_row=3,
        concentration=0.2,
        tokens_guess=104.0,
        tokens_spread=0.77,
        min_tokens=10,
        background=0.15,
        planted_words=500,
        planted_strength=0.5,
        label_sharpness=5.5,
    ),
}


def twin(name: str, scale: float = 1.0, seed: int = 0) -> Twin:
    """The twin of the data set ``name`` with ``scale`` times its rows, and a fifth as many held-out rows on top.

    The same name, scale and seed give the same rows. The population (vocabulary, topics, planted model) depends on
    name and seed only.
    """
    if not isinstance(name, str) or name not in TWINS:
        names = ", ".join(repr(known) for known in sorted(TWINS))
        raise ValueError(f"name={name!r} is not known; accepted are {names}")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed={seed!r} is not accepted; it must be a non-negative integer")
    spec = TWINS[name]
    n_train = max(1, round(spec.n_rows * check_number("scale", scale, above=0.0)))
    n_test = max(1, round(n_train * TEST_SHARE))
    rows = spec.sampler(_child(seed, 0))
    X, y = _in_chunks(rows, n_train, seed, 1)
    X_test, y_test = _in_chunks(rows, n_test, seed, 2)
    return Twin(X, y, X_test, y_test, name)


def _child(seed: int, *key: int) -> Generator:
    return np.random.Generator(np.random.PCG64(SeedSequence(int(seed), spawn_key=key)))


def _in_chunks(rows: RowSampler, n_rows: int, seed: int, part: int) -> tuple[sp.csr_matrix, Labels]:
    sizes = [min(CHUNK_ROWS, n_rows - start) for start in range(0, n_rows, CHUNK_ROWS)]
    chunks = [rows(size, _child(seed, part, chunk)) for chunk, size in enumerate(sizes)]
    return sp.vstack([X for X, _ in chunks], format="csr"), np.concatenate([y for _, y in chunks])


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
        X = self._tf_idf(n, np.repeat(np.arange(n) * spec.n_features, tokens) + words)
        return _Documents(X, topics, shares, len(words))

    def _tf_idf(self, n: int, keys: NDArray[np.int64]) -> sp.csr_matrix:
        """Unit rows from one key, row · n_features + word, a token."""
        n_features = self.spec.n_features
        keys.sort()
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        frequency = np.diff(first, append=len(keys))
        row, word = np.divmod(keys[first], n_features)
        values = (1 + np.log(frequency, dtype=np.float32)) * self.idf[word]
        norms = np.sqrt(np.bincount(row, weights=values * values, minlength=n))
        values /= norms[row]
        starts = np.searchsorted(row, np.arange(n + 1))
        return sp.csr_matrix((values, word.astype(np.int32), starts.astype(np.int32)), shape=(n, n_features))


def _corpus(spec: TextSpec, rng: Generator) -> tuple[_Corpus, Floats]:
    """The corpus, and the share of documents that contain each word."""
    n_words, n_topics = spec.n_features, spec.n_topics
    word_of_rank = rng.permutation(n_words).astype(np.min_scalar_type(n_words - 1))
    background = (np.arange(1, n_words + 1) + spec.zipf_shift) ** -spec.zipf_exponent
    background /= background.sum()
    popularity = 1 / (np.arange(1, n_topics + 1) + spec.popularity_shift)
    popularity /= popularity.sum()

    preference = np.exp(spec.topic_sharpness * rng.standard_normal((n_topics, n_words), dtype=np.float32))
    preference /= (popularity[:, None] * preference).sum(axis=0)  # no BLAS: its rounding depends on its threads
    frequencies = np.vstack([background, background * preference])
    frequencies /= frequencies.sum(axis=1, keepdims=True)
    slots = np.stack([np.repeat(word_of_rank, _systematic_counts(row, SLOTS, rng)) for row in frequencies])

    contained = np.empty(n_words)
    contained[word_of_rank] = -np.expm1(-spec.tokens_guess * background)
    return _Corpus(spec, slots, popularity, -np.log(contained).astype(np.float32)), contained


def _systematic_counts(probability: Floats, total: int, rng: Generator) -> NDArray[np.int64]:
    """Integers of that total, each its share of it rounded up or down at random, without bias."""
    edges = np.minimum(np.floor(total * np.cumsum(probability) + rng.random()), total)
    edges[-1] = total  # the cumulative sum may end a rounding below or above 1
    return np.diff(edges, prepend=0.0).astype(np.int64)


def _text_sampler(spec: TextSpec, rng: Generator) -> RowSampler:
    corpus, contained = _corpus(spec, rng)
    pairs = np.tile([-1.0, 1.0], ((spec.n_topics + 1) // 2, 1))
    affinity = rng.permuted(pairs, axis=1).ravel()[: spec.n_topics]
    planted = np.zeros(spec.n_features)
    words = rng.choice(spec.n_features, size=spec.planted_words, replace=False, p=contained / contained.sum())
    planted[words] = rng.standard_normal(spec.planted_words)

    mean_tokens = spec.tokens_guess
    for _ in range(2):  # longer documents repeat more words: the second pilot corrects what the first one missed
        pilot = corpus.documents(PILOT_ROWS, mean_tokens, rng)
        mean_tokens = spec.mean_nonzeros * pilot.n_tokens / pilot.X.nnz
    affinity /= (affinity[pilot.topics] * pilot.shares).sum(axis=1).std()
    planted *= spec.planted_strength / (pilot.X @ planted).std()

    def noisy_scores(documents: _Documents, rng: Generator) -> Floats:
        X, topics, shares, _ = documents
        noise = rng.logistic(scale=1 / spec.label_sharpness, size=X.shape[0])
        scores: Floats = (affinity[topics] * shares).sum(axis=1) + X @ planted + noise
        return scores

    threshold = np.quantile(noisy_scores(pilot, rng), 1 - spec.positive_share)

    def rows(n: int, rng: Generator) -> tuple[sp.csr_matrix, Labels]:
        documents = corpus.documents(n, mean_tokens, rng)
        return documents.X, np.where(noisy_scores(documents, rng) > threshold, 1, -1).astype(np.int8)

    return rows
