// What the curvature combiner computes: narrow matrix products and the chain of a round (see strategies/curvature.cpp).
#pragma once

#include "follow-inl.hpp"

namespace symsgd {
namespace {

// The same for `strip` columns side by side, with b by its columns: turned[j × columns + k].
template <class V, int strip>
SYMSGD_INLINE void multiply_columns(const V* a, std::int64_t rows, int inner, const V* turned, int columns, V* out) {
    constexpr int lanes = smallest(strip, smallest(16, vector_lanes<V>)), parts = strip / lanes;
    for (std::int64_t i = 0; i < rows; ++i) {
        Vector<V, lanes> total[parts]{};
        for (int j = 0; j < inner; ++j)
#pragma GCC unroll 8
            for (int k = 0; k < parts; ++k)
                total[k] += load<V, lanes>(turned + j * columns + k * lanes) * a[i * inner + j];
        for (int k = 0; k < parts; ++k) store<V, lanes>(out + i * columns + k * lanes, total[k]);
    }
}

// out[i × columns + k] = a_i · b_k. Rows of a and b have `inner` numbers, a multiple of 8.
template <class V>
void multiply_rows(const V* a, std::int64_t rows, int inner, const V* b, int columns, V* out) {
    constexpr int lanes = smallest(8, vector_lanes<V>), most = 4096;
    if (columns % 8 == 0 && inner * columns <= most && rows > 8) {
        alignas(64) V turned[most];
        for (int k = 0; k < columns; ++k)
            for (int j = 0; j < inner; ++j) turned[j * columns + k] = b[k * inner + j];
        int k = 0;
        for (; k + 32 <= columns; k += 32) multiply_columns<V, 32>(a, rows, inner, turned + k, columns, out + k);
        for (; k + 16 <= columns; k += 16) multiply_columns<V, 16>(a, rows, inner, turned + k, columns, out + k);
        for (; k < columns; k += 8) multiply_columns<V, 8>(a, rows, inner, turned + k, columns, out + k);
        return;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
        for (int k = 0; k < columns; ++k) {
            Vector<V, lanes> total{};
            for (int j = 0; j < inner; j += lanes)
                total += load<V, lanes>(a + i * inner + j) * load<V, lanes>(b + k * inner + j);
            out[i * columns + k] = sum<V, lanes>(total);
        }
    }
}

// out[j] += Σ_i b[i] a[i × inner + j] for `strip` columns, in sums that do not wait for each other.
template <class V, int strip>
SYMSGD_INLINE void add_product(const V* a, std::int64_t rows, int inner, const V* b, V* out) {
    constexpr int lanes = smallest(strip, smallest(16, vector_lanes<V>)), parts = strip / lanes;
    constexpr int sums = parts >= 4 ? 1 : 4 / parts;
    Vector<V, lanes> total[sums][parts]{};
    std::int64_t i = 0;
    for (; i + sums <= rows; i += sums)
#pragma GCC unroll 4
        for (int s = 0; s < sums; ++s)
#pragma GCC unroll 8
            for (int k = 0; k < parts; ++k) total[s][k] += load<V, lanes>(a + (i + s) * inner + k * lanes) * b[i + s];
    for (; i < rows; ++i)
        for (int k = 0; k < parts; ++k) total[0][k] += load<V, lanes>(a + i * inner + k * lanes) * b[i];
    for (int k = 0; k < parts; ++k) {
        auto all = load<V, lanes>(out + k * lanes);
        for (int s = 0; s < sums; ++s) all += total[s][k];
        store<V, lanes>(out + k * lanes, all);
    }
}

// out[k × inner + j] += Σ_i b[i × columns + k] a[i × inner + j].
template <class V>
void add_products(const V* a, std::int64_t rows, int inner, const V* b, int columns, V* out) {
    constexpr int lanes = smallest(8, vector_lanes<V>), few = 4;
    if (columns == 1) {
        int j = 0;
        for (; j + 32 <= inner; j += 32) add_product<V, 32>(a + j, rows, inner, b, out + j);
        for (; j + 16 <= inner; j += 16) add_product<V, 16>(a + j, rows, inner, b, out + j);
        for (; j < inner; j += 8) add_product<V, 8>(a + j, rows, inner, b, out + j);
        return;
    }
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
// block by block, where before_p × w is where block p would have ended without its rows; out = v at the end. Returns
// the sum of the products of what blocks have moved by with v before them.
template <class V>
double chain_weights(const V* const* ends, const V* scales, const V* keeps, const V* befores, int count, const V* w,
                     const V* factors, std::int64_t begin, std::int64_t end, V* out) {
    constexpr int lanes = vector_lanes<V>;
    std::int64_t i = begin;
    Vector<V, lanes> crossed{};
    for (; i + lanes <= end; i += lanes) {
        const auto from = load<V, lanes>(w + i), factor = load<V, lanes>(factors + i);
        Vector<V, lanes> v{};
        for (int p = 0; p < count; ++p) {
            const auto moved = load<V, lanes>(ends[p] + i) * scales[p] - from * befores[p];
            crossed += moved * v;
            v = v * (factor * keeps[p]) + moved;
        }
        store<V, lanes>(out + (i - begin), v);
    }
    V rest{};
    for (; i < end; ++i) {
        V v{};
        for (int p = 0; p < count; ++p) {
            const V moved = ends[p][i] * scales[p] - w[i] * befores[p];
            rest += moved * v;
            v = v * (factors[i] * keeps[p]) + moved;
        }
        out[i - begin] = v;
    }
    return static_cast<double>(sum<V, lanes>(crossed) + rest);
}

// What directions add to that chain, for `places` features, up to a multiple of 16. Feature i has q[j × room + i] of
// direction j, and block p has moved by product_p = Σ_j q_j b[p × inner + j] of what its single weight has moved by,
// which is followed by the directions instead: out = product_column − (the chain of products).
template <class V>
void chain_directions(const V* q, std::int64_t room, int inner, std::int64_t places, const V* b, int count, int column,
                      const V* keeps, const V* factors, V* out) {
    constexpr int lanes = 16, few = 4;
    using R = Vector<V, lanes>;
    for (std::int64_t i = 0; i < places; i += lanes) {
        const R factor = load<V, lanes>(factors + i);
        R followed{};
        const auto multiply = [&](int from, int number, R* total) {
            for (int j = 0; j < inner; ++j) {
                const R own = load<V, lanes>(q + j * room + i);
#pragma GCC unroll 4
                for (int e = 0; e < few; ++e)
                    if (e < number) total[e] += own * b[(from + e) * inner + j];
            }
        };
        int p = 0;
        for (; p + few <= count; p += few) {
            R total[few]{};
            multiply(p, few, total);
            for (int e = 0; e < few; ++e) followed = followed * (factor * keeps[p + e]) + total[e];
        }
        for (; p < count; ++p) {
            R total[few]{};
            multiply(p, 1, total);
            followed = followed * (factor * keeps[p]) + total[0];
        }
        R end[few]{};
        multiply(column, 1, end);
        store<V, lanes>(out + i, end[0] - followed);
    }
}

// before ← w, w ← kept × w + by × moved. Lines of w are other threads', too: a store waits until they have given them
// up, one after the other, unless they were asked for before.
template <class V>
void take_movement(V* w, V* before, const V* moved, std::int64_t count, V kept, V by) {
    constexpr int lanes = smallest(16, vector_lanes<V>);
    constexpr std::int64_t ahead = 24 * 64 / sizeof(V);
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        __builtin_prefetch(w + i + ahead, 1);
        __builtin_prefetch(before + i + ahead, 1);
        const auto old = load<V, lanes>(w + i);
        store<V, lanes>(before + i, old);
        store<V, lanes>(w + i, old * kept + load<V, lanes>(moved + i) * by);
    }
    for (; i < count; ++i) {
        before[i] = w[i];
        w[i] = w[i] * kept + moved[i] * by;
    }
}

// What Σ w² and Σ |w| have changed by. Sums of a few thousand are exact enough in V.
template <class V>
void norms_changed(const V* now, const V* before, std::int64_t count, double* squares, double* sizes) {
    constexpr int lanes = vector_lanes<V>;
    constexpr std::int64_t together = 64 * lanes;
    using R = Vector<V, lanes>;
    const auto magnitude = [](auto x) { return x < 0 ? -x : x; };
    std::int64_t i = 0;
    while (i + lanes <= count) {
        R square{}, size{};
        for (const std::int64_t end = smallest(count, i + together); i + lanes <= end; i += lanes) {
            const R to = load<V, lanes>(now + i), from = load<V, lanes>(before + i);
            square += (to - from) * (to + from);
            size += magnitude(to) - magnitude(from);
        }
        for (int k = 0; k < lanes; ++k) {
            *squares += static_cast<double>(square[k]);
            *sizes += static_cast<double>(size[k]);
        }
    }
    for (; i < count; ++i) {
        const double to = static_cast<double>(now[i]), from = static_cast<double>(before[i]);
        *squares += (to - from) * (to + from);
        *sizes += magnitude(to) - magnitude(from);
    }
}

template <class V>
constexpr CurvatureKernels<V> curvature_kernels{&multiply_rows<V>,  &add_products<V>,     &multiply_sample<V>,
                                                &chain_weights<V>,  &chain_directions<V>, &take_movement<V>,
                                                &multiply_along<V>, &follow<V>,           &norms_changed<V>};

}  // namespace
}  // namespace symsgd
