// What the loop does with one row: x·w, w + u x, |x|², and the same for several classes at once.
//
// On sparse rows the loads and stores of the weights are all the work there is; what can be done about them is to load
// values as vectors, to gather with plain loads (hardware gathers were no faster where measured) and to keep the sums
// independent of one another. Repeated indices are right because every update reads what the last one stored.
#pragma once

#include <type_traits>

#include "symsgd/rows.hpp"
#include "vector-inl.hpp"

namespace symsgd {
namespace {

template <class V, class I>
SYMSGD_INLINE SparseRow<V, I> row_at(const SparseRows<V, I>& rows, std::int64_t r) {
    const I start = rows.start[r];
    return {rows.index + start, rows.value + start, static_cast<std::int64_t>(rows.start[r + 1] - start)};
}

template <class V>
SYMSGD_INLINE DenseRow<V> row_at(const DenseRows<V>& rows, std::int64_t r) {
    return {rows.value + r * rows.features, rows.features};
}

template <class V, class I>
SYMSGD_INLINE std::int64_t feature(const SparseRow<V, I>& row, std::int64_t j) {
    return static_cast<std::int64_t>(row.index[j]);
}

template <class V>
SYMSGD_INLINE std::int64_t feature(const DenseRow<V>&, std::int64_t j) {
    return j;
}

// Fetches a row into the cache; `later` is a row further on, of which only the place is fetched. Two lines each are
// fetched whatever the length: for short rows a loop's mispredicted end would cost more than it saves.
template <class V, class I>
SYMSGD_INLINE void prefetch(const SparseRows<V, I>& rows, std::int64_t r, std::int64_t later) {
    const I start = rows.start[r];
    const std::int64_t count = static_cast<std::int64_t>(rows.start[r + 1] - start);
    const char* index = reinterpret_cast<const char*>(rows.index + start);
    const char* value = reinterpret_cast<const char*>(rows.value + start);
    __builtin_prefetch(index);
    __builtin_prefetch(index + 64);
    __builtin_prefetch(value);
    __builtin_prefetch(value + 64);
    const std::int64_t index_bytes = count * static_cast<std::int64_t>(sizeof(I)) + 64;
    const std::int64_t value_bytes = count * static_cast<std::int64_t>(sizeof(V)) + 64;
    for (std::int64_t b = 128; b < index_bytes; b += 64) __builtin_prefetch(index + b);
    for (std::int64_t b = 128; b < value_bytes; b += 64) __builtin_prefetch(value + b);
    __builtin_prefetch(rows.start + later);
}

// Rows to fetch ahead: enough time for the memory to answer, few enough for the first-level cache to keep them.
template <class V, class I>
SYMSGD_INLINE std::size_t fetch_distance(const SparseRows<V, I>& rows) {
    const std::int64_t mean = 1 + static_cast<std::int64_t>(rows.start[rows.rows]) / rows.rows;
    return mean > 200 ? 2 : mean > 100 ? 3 : mean > 50 ? 5 : 8;
}

template <class V>
SYMSGD_INLINE std::size_t fetch_distance(const DenseRows<V>& rows) {
    return rows.features > 200 ? 1 : 4;
}

// Fetches the weights of a row.
template <class V, class I>
SYMSGD_INLINE void prefetch_weights(const SparseRow<V, I>& row, const V* w) {
    for (std::int64_t j = 0; j < row.count; ++j) __builtin_prefetch(w + row.index[j]);
}

template <class V>
SYMSGD_INLINE void prefetch_weights(const DenseRow<V>&, const V*) {}

template <class V>
SYMSGD_INLINE void prefetch(const DenseRows<V>& rows, std::int64_t r, std::int64_t) {
    const char* value = reinterpret_cast<const char*>(rows.value + r * rows.features);
    const std::int64_t bytes = rows.features * static_cast<std::int64_t>(sizeof(V));
    for (std::int64_t b = 0; b < bytes && b < 4096; b += 64) __builtin_prefetch(value + b);
}

// x·w of one model.
template <class V, class I>
SYMSGD_INLINE V dot(const SparseRow<V, I>& row, const V* w) {
    constexpr int wide = smallest(vector_lanes<V>, 32 / static_cast<int>(sizeof(V)));
    constexpr int narrow = 16 / static_cast<int>(sizeof(V));
    const I* index = row.index;
    const V* value = row.value;
    const std::int64_t count = row.count;
    std::int64_t j = 0;
    Vector<V, wide> sums{};
    for (; j + wide <= count; j += wide)
        sums += gather(w, index + j, std::make_index_sequence<wide>()) * load<V, wide>(value + j);
    V total = sum<V, wide>(sums);
    if constexpr (narrow < wide) {
        if (j + narrow <= count) {
            total +=
                sum<V, narrow>(gather(w, index + j, std::make_index_sequence<narrow>()) * load<V, narrow>(value + j));
            j += narrow;
        }
    }
    V rest = 0;
    if (j < count) rest = value[j] * w[index[j]];
    if constexpr (narrow > 2) {
        if (j + 1 < count) rest += value[j + 1] * w[index[j + 1]];
        if (j + 2 < count) rest += value[j + 2] * w[index[j + 2]];
    }
    return total + rest;
}

template <class V>
SYMSGD_INLINE V dot(const DenseRow<V>& row, const V* w) {
    constexpr int lanes = vector_lanes<V>;
    const V* x = row.value;
    const std::int64_t count = row.count;
    std::int64_t j = 0;
    Vector<V, lanes> a{}, b{}, c{}, d{};
    for (; j + 4 * lanes <= count; j += 4 * lanes) {
        a += load<V, lanes>(x + j) * load<V, lanes>(w + j);
        b += load<V, lanes>(x + j + lanes) * load<V, lanes>(w + j + lanes);
        c += load<V, lanes>(x + j + 2 * lanes) * load<V, lanes>(w + j + 2 * lanes);
        d += load<V, lanes>(x + j + 3 * lanes) * load<V, lanes>(w + j + 3 * lanes);
    }
    for (; j + lanes <= count; j += lanes) a += load<V, lanes>(x + j) * load<V, lanes>(w + j);
    V rest = 0;
    for (; j < count; ++j) rest += x[j] * w[j];
    return sum<V, lanes>((a + b) + (c + d)) + rest;
}

// w ← w + u x of one model.
template <class V, class I>
SYMSGD_INLINE void add(const SparseRow<V, I>& row, V u, V* w) {
    constexpr int narrow = 16 / static_cast<int>(sizeof(V));
    const I* index = row.index;
    const V* value = row.value;
    const std::int64_t count = row.count;
    std::int64_t j = 0;
    for (; j + narrow <= count; j += narrow) {
        V step[narrow];
        store<V, narrow>(step, load<V, narrow>(value + j) * u);
        for (int k = 0; k < narrow; ++k) w[index[j + k]] += step[k];
    }
    if (j < count) w[index[j]] += value[j] * u;
    if constexpr (narrow > 2) {
        if (j + 1 < count) w[index[j + 1]] += value[j + 1] * u;
        if (j + 2 < count) w[index[j + 2]] += value[j + 2] * u;
    }
}

template <class V>
SYMSGD_INLINE void add(const DenseRow<V>& row, V u, V* w) {
    constexpr int lanes = vector_lanes<V>;
    std::int64_t j = 0;
    for (; j + lanes <= row.count; j += lanes)
        store<V, lanes>(w + j, load<V, lanes>(w + j) + load<V, lanes>(row.value + j) * u);
    for (; j < row.count; ++j) w[j] += row.value[j] * u;
}

// Several classes at once: `panel` of their weights lie side by side at w[feature × stride].
template <int panel, class Row, class V>
SYMSGD_INLINE void dot_panel(const Row& row, const V* w, std::int64_t stride, V* scores) {
    constexpr int lanes = smallest(panel, vector_lanes<V>);
    constexpr int parts = panel / lanes;
    Vector<V, lanes> even[parts]{}, odd[parts]{};  // two sums each, so that additions do not wait for one another
    std::int64_t j = 0;
    for (; j + 2 <= row.count; j += 2) {
        const V* first = w + feature(row, j) * stride;
        const V* second = w + feature(row, j + 1) * stride;
        for (int k = 0; k < parts; ++k) {
            even[k] += load<V, lanes>(first + k * lanes) * row.value[j];
            odd[k] += load<V, lanes>(second + k * lanes) * row.value[j + 1];
        }
    }
    if (j < row.count) {
        const V* last = w + feature(row, j) * stride;
        for (int k = 0; k < parts; ++k) even[k] += load<V, lanes>(last + k * lanes) * row.value[j];
    }
    for (int k = 0; k < parts; ++k) store<V, lanes>(scores + k * lanes, even[k] + odd[k]);
}

template <int panel, class Row, class V>
SYMSGD_INLINE void add_panel(const Row& row, const V* u, V* w, std::int64_t stride) {
    constexpr int lanes = smallest(panel, vector_lanes<V>);
    constexpr int parts = panel / lanes;
    Vector<V, lanes> step[parts];
    for (int k = 0; k < parts; ++k) step[k] = load<V, lanes>(u + k * lanes);
    for (std::int64_t j = 0; j < row.count; ++j) {
        V* weight = w + feature(row, j) * stride;
        for (int k = 0; k < parts; ++k)
            store<V, lanes>(weight + k * lanes, load<V, lanes>(weight + k * lanes) + step[k] * row.value[j]);
    }
}

template <class Row>
SYMSGD_INLINE double square_norm(const Row& row) {
    using V = std::remove_cvref_t<decltype(*row.value)>;
    constexpr int lanes = vector_lanes<V>;
    Vector<V, lanes> a{}, b{};
    std::int64_t j = 0;
    for (; j + 2 * lanes <= row.count; j += 2 * lanes) {
        const auto first = load<V, lanes>(row.value + j);
        const auto second = load<V, lanes>(row.value + j + lanes);
        a += first * first;
        b += second * second;
    }
    double total = sum<V, lanes>(a + b);
    for (; j < row.count; ++j) total += static_cast<double>(row.value[j]) * row.value[j];
    return total;
}

}  // namespace
}  // namespace symsgd
