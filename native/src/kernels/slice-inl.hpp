// What the strategies that share out features do with theirs of a block of rows (strategies/sliced.cpp,
// directions.cpp).
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

// scores[i × stride + class] = rows[i]·weights over features [begin, end), n rows (a multiple of 4); a feature has
// `stride` weights. The same features of `later`, the n rows that come next, are fetched; null: there are none.
template <class V>
void score_slice(const V* const* rows, const V* const* later, int n, std::int64_t begin, std::int64_t end,
                 const V* weights, int stride, V* scores) {
    constexpr int high = 4, at_once = 2;
    if (stride == 1) {
        const V* const w[1]{weights};
        for (int i = 0; i < n; i += high) {
            if (later == nullptr) {
                multiply_tile<high, 1>(rows + i, w, begin, end, scores + i, 1, later, 0);
                continue;
            }
            multiply_tile<high, 1>(rows + i, w, begin, end, scores + i, 1, later + i, at_once);
            for (int k = at_once; k < high; ++k)
                for (std::int64_t j = begin; j < end; j += 64 / static_cast<std::int64_t>(sizeof(V)))
                    __builtin_prefetch(later[i + k] + j, 0, 2);
        }
        return;
    }
    const Plain<V> w{const_cast<V*>(weights) + begin * stride};  // which is only read from
    with_panel(stride, [&](auto panel) {
        for (int i = 0; i < n; ++i)
            for (int at = 0; at < stride; at += panel)
                dot_panel<panel>(DenseRow<V>{rows[i] + begin, end - begin}, w, stride, at, scores + i * stride + at);
    });
}

// The products of n rows (a multiple of 4) with each other over features [begin, end), n apart, in the upper triangle
// and around it; and their scores. `later` are the rows that come next.
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
    score_slice<V>(rows, nullptr, n, begin, end, weights, stride, scores);
}

// out[i × columns + k] = Σ_j rows[i][j] directions[j × columns + k], `count` numbers of each of n rows (a multiple of
// 4); columns are a multiple of 16. A few numbers of all rows at a time, so that their directions stay in the nearest
// cache.
template <class V>
void project_rows(const V* const* rows, int n, std::int64_t count, const V* directions, int columns, V* out) {
    constexpr int lanes = smallest(16, vector_lanes<V>), high = 4, wide = SYMSGD_VECTOR_BYTES >= 64 ? 2 : 1;
    constexpr std::int64_t few = 128;
    const auto add = [&](std::int64_t begin, int at, auto parts) {
        const std::int64_t end = begin + few < count ? begin + few : count;
        for (int i = 0; i < n; i += high) {
            V* const own = out + i * columns + at;
            Vector<V, lanes> total[high * parts]{};
            if (begin > 0)
                for (int r = 0; r < high; ++r)
                    for (int k = 0; k < parts; ++k)
                        total[r * parts + k] = load<V, lanes>(own + r * columns + k * lanes);
            for (std::int64_t j = begin; j < end; ++j) {
                Vector<V, lanes> v[parts];
                for (int k = 0; k < parts; ++k) v[k] = load<V, lanes>(directions + j * columns + at + k * lanes);
#pragma GCC unroll 4
                for (int r = 0; r < high; ++r)
                    for (int k = 0; k < parts; ++k) total[r * parts + k] += v[k] * rows[i + r][j];
            }
            for (int r = 0; r < high; ++r)
                for (int k = 0; k < parts; ++k) store<V, lanes>(own + r * columns + k * lanes, total[r * parts + k]);
        }
    };
    for (std::int64_t begin = 0; begin < count || begin == 0; begin += few) {
        int at = 0;
        for (; at + wide * lanes <= columns; at += wide * lanes) add(begin, at, std::integral_constant<int, wide>{});
        for (; at < columns; at += lanes) add(begin, at, std::integral_constant<int, 1>{});
    }
}

// |x|² of each of n rows.
template <class V>
void square_rows(const V* const* rows, int n, std::int64_t count, V* out) {
    for (int i = 0; i < n; ++i) out[i] = dot(DenseRow<V>{rows[i], count}, Plain<V>{const_cast<V*>(rows[i])});
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
