// What the curvature combiner computes: narrow matrix products and the chain of a round (see strategies/curvature.cpp).
#pragma once

#include "symsgd/learn.hpp"
#include "vector-inl.hpp"

namespace symsgd {
namespace {

// out[i × columns + k] = a_i · b_k. Rows of a and b have `inner` numbers, a multiple of 8.
template <class V>
void multiply_rows(const V* a, std::int64_t rows, int inner, const V* b, int columns, V* out) {
    constexpr int lanes = smallest(8, vector_lanes<V>);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (int k = 0; k < columns; ++k) {
            Vector<V, lanes> total{};
            for (int j = 0; j < inner; j += lanes)
                total += load<V, lanes>(a + i * inner + j) * load<V, lanes>(b + k * inner + j);
            out[i * columns + k] = sum<V, lanes>(total);
        }
    }
}

// out[k × inner + j] += Σ_i b[i × columns + k] a[i × inner + j].
template <class V>
void add_products(const V* a, std::int64_t rows, int inner, const V* b, int columns, V* out) {
    constexpr int lanes = smallest(8, vector_lanes<V>), few = 4;
    for (int j = 0; j < inner; j += lanes) {
        int k = 0;
        for (; k + few <= columns; k += few) {
            Vector<V, lanes> total[few];
            for (int e = 0; e < few; ++e) total[e] = load<V, lanes>(out + (k + e) * inner + j);
            for (std::int64_t i = 0; i < rows; ++i) {
                const auto x = load<V, lanes>(a + i * inner + j);
                for (int e = 0; e < few; ++e) total[e] += x * b[i * columns + k + e];
            }
            for (int e = 0; e < few; ++e) store<V, lanes>(out + (k + e) * inner + j, total[e]);
        }
        for (; k < columns; ++k) {
            auto total = load<V, lanes>(out + k * inner + j);
            for (std::int64_t i = 0; i < rows; ++i) total += load<V, lanes>(a + i * inner + j) * b[i * columns + k];
            store<V, lanes>(out + k * inner + j, total);
        }
    }
}

// `strip` columns of t = A q, or `back`: of q += Aᵀ t, A being sparse. Rows of q and t have `inner` numbers.
template <class V, int strip>
void multiply_strip(const SampleView<V>& sample, int inner, bool back, V* q, V* t) {
    constexpr int lanes = smallest(8, vector_lanes<V>), parts = strip / lanes;
    for (std::int64_t r = 0; r < sample.rows; ++r) {
        Vector<V, lanes> own[parts]{};
        for (int k = 0; back && k < parts; ++k) own[k] = load<V, lanes>(t + r * inner + k * lanes);
        for (std::int64_t e = sample.start[r]; e < sample.start[r + 1]; ++e) {
            V* to = q + sample.place[e] * static_cast<std::int64_t>(inner);
            for (int k = 0; k < parts; ++k) {
                if (back)
                    store<V, lanes>(to + k * lanes, load<V, lanes>(to + k * lanes) + own[k] * sample.value[e]);
                else
                    own[k] += load<V, lanes>(to + k * lanes) * sample.value[e];
            }
        }
        for (int k = 0; !back && k < parts; ++k) store<V, lanes>(t + r * inner + k * lanes, own[k]);
    }
}

// All columns of the same: `inner` is a multiple of 8. The sample is read once for every 32 columns.
template <class V>
void multiply_sample(const SampleView<V>& sample, int inner, bool back, V* q, V* t) {
    int k = 0;
    for (; k + 32 <= inner; k += 32) multiply_strip<V, 32>(sample, inner, back, q + k, t + k);
    for (; k + 16 <= inner; k += 16) multiply_strip<V, 16>(sample, inner, back, q + k, t + k);
    for (; k < inner; k += 8) multiply_strip<V, 8>(sample, inner, back, q + k, t + k);
}

// The chain of single weights in a round of `count` blocks, v ← keep_p × factor × v + (scale_p × end_p − before_p × w),
// block by block, where before_p × w is where block p would have ended without its rows; out = v at the end.
template <class V>
void chain_weights(const V* const* ends, const V* scales, const V* keeps, const V* befores, int count, const V* w,
                   const V* factors, std::int64_t begin, std::int64_t end, V* out) {
    constexpr int lanes = vector_lanes<V>;
    std::int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
        const auto from = load<V, lanes>(w + i), factor = load<V, lanes>(factors + i);
        Vector<V, lanes> v{};
        for (int p = 0; p < count; ++p)
            v = v * (factor * keeps[p]) + (load<V, lanes>(ends[p] + i) * scales[p] - from * befores[p]);
        store<V, lanes>(out + (i - begin), v);
    }
    for (; i < end; ++i) {
        V v{};
        for (int p = 0; p < count; ++p) v = v * (factors[i] * keeps[p]) + (ends[p][i] * scales[p] - w[i] * befores[p]);
        out[i - begin] = v;
    }
}

template <class V>
constexpr CurvatureKernels<V> curvature_kernels{&multiply_rows<V>, &add_products<V>, &multiply_sample<V>,
                                                &chain_weights<V>};

}  // namespace
}  // namespace symsgd
