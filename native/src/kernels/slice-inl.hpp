// What the sliced strategy does with its features of a block of rows (see strategies/sliced.cpp).
#pragma once

#include "rows-inl.hpp"

namespace symsgd {
namespace {

// out[i × stride + k] = rows[i]·others[k] over features [begin, end). Loops over the sums are unrolled: otherwise the
// compiler keeps one of them in memory all along. On the way the same features of `few` rows that come later are
// fetched: all at once, they would be more than a core can wait for.
template <int high, int wide, class V>
[[gnu::noinline]] void multiply_tile(const V* const* rows, const V* const* others, std::int64_t begin, std::int64_t end,
                                     V* out, int stride, const V* const* later, int few) {
    constexpr int lanes = vector_lanes<V>;
    constexpr int together = high * wide;
    Vector<V, lanes> total[together]{};
    const V *own[high], *other[wide];
    for (int i = 0; i < high; ++i) own[i] = rows[i] + begin;
    for (int k = 0; k < wide; ++k) other[k] = others[k] + begin;
    const std::int64_t count = end - begin, whole = count / lanes * lanes;
    const V* const first = few > 0 ? later[0] + begin : own[0];
    const V* const second = few > 1 ? later[1] + begin : own[0];
    const V* const third = few > 2 ? later[2] + begin : own[0];
    for (std::int64_t j = 0; j < whole; j += lanes) {
        if (few > 0) __builtin_prefetch(first + j, 0, 2);
        if (few > 1) __builtin_prefetch(second + j, 0, 2);
        if (few > 2) __builtin_prefetch(third + j, 0, 2);
        Vector<V, lanes> x[wide];
        for (int k = 0; k < wide; ++k) x[k] = load<V, lanes>(other[k] + j);
        for (int i = 0; i < high; ++i) {
            const auto y = load<V, lanes>(own[i] + j);
            for (int k = 0; k < wide; ++k) total[i * wide + k] += y * x[k];
        }
    }
    alignas(64) V found[together];
    if constexpr (together % lanes == 0) {
#pragma GCC unroll 4
        for (int g = 0; g < together; g += lanes) store<V, lanes>(found + g, sums<V, lanes>(total + g));
    } else {
#pragma GCC unroll 4
        for (int g = 0; g < together; ++g) found[g] = sum<V, lanes>(total[g]);
    }
    for (int i = 0; i < high; ++i) {
        for (int k = 0; k < wide; ++k) {
            V& sum = found[i * wide + k];
            for (std::int64_t j = whole; j < count; ++j) sum += own[i][j] * other[k][j];
            out[i * stride + k] = sum;
        }
    }
}

// The products of n rows (a multiple of 4) with each other over features [begin, end), n apart, in the upper triangle
// and around it; and with the weights of those features, `stride` a feature: n × stride scores. `later` are the rows
// that come next.
template <class V>
void multiply_slice(const V* const* rows, const V* const* later, int n, std::int64_t begin, std::int64_t end,
                    const V* weights, int stride, V* products, V* scores) {
    constexpr int high = 4, wide = SYMSGD_VECTOR_BYTES >= 64 ? 4 : 2;
    int fetched = 0;
    for (int i = 0; i < n; i += high) {
        for (int k = i; k < n; k += wide) {
            const int few = smallest(3, n - fetched);
            multiply_tile<high, wide>(rows + i, rows + k, begin, end, products + i * n + k, n, later + fetched, few);
            fetched += few;
        }
    }
    if (stride == 1) {
        const V* const w[1]{weights};
        for (int i = 0; i < n; i += high) multiply_tile<high, 1>(rows + i, w, begin, end, scores + i, 1, later, 0);
        return;
    }
    const Plain<V> w{const_cast<V*>(weights) + begin * stride};  // which is only read from
    with_panel(stride, [&](auto panel) {
        for (int i = 0; i < n; ++i)
            for (int at = 0; at < stride; at += panel)
                dot_panel<panel>(DenseRow<V>{rows[i] + begin, end - begin}, w, stride, at, scores + i * stride + at);
    });
}

// out[i] = Σ parts[·][i] for i in [begin, end), both multiples of 16.
template <class V>
void add_parts(const V* const* parts, int count, std::int64_t begin, std::int64_t end, V* out) {
    constexpr int lanes = smallest(16, vector_lanes<V>);
    for (std::int64_t i = begin; i < end; i += lanes) {
        auto total = load<V, lanes>(parts[0] + i);
        for (int p = 1; p < count; ++p) total += load<V, lanes>(parts[p] + i);
        store<V, lanes>(out + i, total);
    }
}

// w ← keep × w + Σ steps_i x_i for features [begin, end); `keep` is one a class and null where all are 1.
template <class V>
void move_slice(const V* const* rows, int n, std::int64_t begin, std::int64_t end, const V* steps, const V* keep,
                V* weights, int stride) {
    constexpr int lanes = vector_lanes<V>, few = 4;
    if (keep != nullptr)
        for (std::int64_t j = begin * stride; j < end * stride; ++j) weights[j] *= keep[j % stride];
    if (stride > 1) {
        const Plain<V> w{weights + begin * stride};
        return with_panel(stride, [&](auto panel) {
            for (int i = 0; i < n; ++i)
                for (int at = 0; at < stride; at += panel)
                    add_panel<panel>(DenseRow<V>{rows[i] + begin, end - begin}, steps + i * stride + at, w, stride, at);
        });
    }
    for (int i = 0; i < n; i += few) {
        const V *a = rows[i], *b = rows[i + 1], *c = rows[i + 2], *d = rows[i + 3];
        const V u = steps[i], v = steps[i + 1], s = steps[i + 2], t = steps[i + 3];
        std::int64_t j = begin;
        for (; j + lanes <= end; j += lanes)
            store<V, lanes>(weights + j,
                            ((load<V, lanes>(weights + j) + load<V, lanes>(a + j) * u) + (load<V, lanes>(b + j) * v)) +
                                (load<V, lanes>(c + j) * s + load<V, lanes>(d + j) * t));
        for (; j < end; ++j) weights[j] += a[j] * u + b[j] * v + c[j] * s + d[j] * t;
    }
}

}  // namespace
}  // namespace symsgd
