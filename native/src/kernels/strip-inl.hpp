// What a thread does with its features of sparse rows (see strategies/feature_strips.hpp).
#pragma once

#include "rows-inl.hpp"

namespace symsgd {
namespace {

// out[i × stride + class] = x·w of rows order[0 … n); a feature has `stride` weights.
template <class V>
void score_strip(const SparseRows<V, std::int32_t>& rows, const std::int64_t* order, std::int64_t n, const V* weights,
                 int stride, V* out) {
    const Plain<V> w{const_cast<V*>(weights)};  // which is only read from
    const auto ahead = static_cast<std::int64_t>(2 * fetch_distance(rows));
    const auto fetch = [&](std::int64_t i) {
        if (i + 2 * ahead < n) prefetch(rows, order[i + ahead], order[i + 2 * ahead]);
    };
    if (stride == 1) {
        for (std::int64_t i = 0; i < n; ++i) {
            fetch(i);
            out[i] = dot(row_at(rows, order[i]), w);
        }
        return;
    }
    with_panel(stride, [&](auto panel) {
        for (std::int64_t i = 0; i < n; ++i) {
            fetch(i);
            for (int at = 0; at < stride; at += panel)
                dot_panel<panel>(row_at(rows, order[i]), w, stride, at, out + i * stride + at);
        }
    });
}

// w ← w + Σ steps_i x_i over rows order[0 … n).
template <class V>
void move_strip(const SparseRows<V, std::int32_t>& rows, const std::int64_t* order, std::int64_t n, const V* steps,
                V* weights, int stride) {
    const Plain<V> w{weights};
    if (stride == 1) {
        for (std::int64_t i = 0; i < n; ++i)
            if (steps[i] != 0) add(row_at(rows, order[i]), steps[i], w);
        return;
    }
    with_panel(stride, [&](auto panel) {
        for (std::int64_t i = 0; i < n; ++i)
            for (int at = 0; at < stride; at += panel)
                add_panel<panel>(row_at(rows, order[i]), steps + i * stride + at, w, stride, at);
    });
}

// out[k] = Σ_e value[e] directions[place[e] × columns + k]; columns are a multiple of 16.
template <class V>
void project_entries(const std::int32_t* place, const V* value, std::int64_t count, const V* directions, int columns,
                     V* out) {
    constexpr int lanes = smallest(16, vector_lanes<V>), parts = 16 / lanes;
    for (int at = 0; at < columns; at += 16) {
        Vector<V, lanes> even[parts]{}, odd[parts]{};
        std::int64_t e = 0;
        const auto add_to = [&](Vector<V, lanes>* total, std::int64_t from) {
            const V* const own = directions + static_cast<std::int64_t>(place[from]) * columns + at;
            for (int p = 0; p < parts; ++p) total[p] += load<V, lanes>(own + p * lanes) * value[from];
        };
        for (; e + 2 <= count; e += 2) {
            add_to(even, e);
            add_to(odd, e + 1);
        }
        if (e < count) add_to(even, e);
        for (int p = 0; p < parts; ++p) store<V, lanes>(out + at + p * lanes, even[p] + odd[p]);
    }
}

template <class V>
constexpr StripKernels<V> strip_kernels{&score_strip<V>, &move_strip<V>, &project_entries<V>};

}  // namespace
}  // namespace symsgd
