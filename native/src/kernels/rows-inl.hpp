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
    const std::int64_t start = rows.start[r];
    return {rows.index + start, rows.value + start, rows.start[r + 1] - start};
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

template <int lines>
SYMSGD_INLINE void prefetch_lines(const void* from) {
    for (int k = 0; k < lines; ++k) __builtin_prefetch(static_cast<const char*>(from) + 64 * k);
}

// Fetches entries into the cache. A few lines each are fetched whatever the number, and then 64 entries at a time: a
// loop's mispredicted end costs more than the lines that are too many, which belong to the row stored next.
template <int lines = 2, class V, class I>
SYMSGD_INLINE void prefetch_entries(const I* index, const V* value, std::int64_t count) {
    constexpr std::int64_t first = 64 * lines / (sizeof(I) > sizeof(V) ? sizeof(I) : sizeof(V));
    constexpr std::int64_t slack = 16;  // for rows that begin within a line
    prefetch_lines<lines>(index);
    prefetch_lines<lines>(value);
    for (std::int64_t j = first; j < count + slack; j += 64) {
        prefetch_lines<sizeof(I)>(index + j);
        prefetch_lines<sizeof(V)>(value + j);
    }
}

// Fetches a row into the cache; `later` is a row further on, of which only the place is fetched.
template <class V, class I>
SYMSGD_INLINE void prefetch(const SparseRows<V, I>& rows, std::int64_t r, std::int64_t later) {
    const std::int64_t start = rows.start[r];
    prefetch_entries(rows.index + start, rows.value + start, rows.start[r + 1] - start);
    // where it ends: where it begins has mostly been fetched as the end of the row stored before it
    __builtin_prefetch(rows.start.address(later + 1));
}

// Rows to fetch ahead: enough time for the memory to answer, few enough for the first-level cache to keep them.
SYMSGD_INLINE std::size_t fetch_distance_of(std::int64_t mean) {
    return mean > 200 ? 2 : mean > 100 ? 3 : mean > 50 ? 5 : 8;
}

template <class V, class I>
SYMSGD_INLINE std::size_t fetch_distance(const SparseRows<V, I>& rows) {
    return fetch_distance_of(1 + rows.start[rows.rows] / rows.rows);
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

// Sparse rows are walked this many entries at a time; a shorter one is all rest.
template <class V>
constexpr int short_row = 16 / static_cast<int>(sizeof(V));

// x·w of the rest of a row, from entry j on. Here and below, w is Plain or Relaxed.
template <class V, class I, class W>
SYMSGD_INLINE V dot_rest(const SparseRow<V, I>& row, std::int64_t j, const W& w) {
    V rest = 0;
    if (j < row.count) rest = row.value[j] * w.get(row.index[j]);
    if constexpr (short_row<V> > 2) {
        if (j + 1 < row.count) rest += row.value[j + 1] * w.get(row.index[j + 1]);
        if (j + 2 < row.count) rest += row.value[j + 2] * w.get(row.index[j + 2]);
    }
    return rest;
}

// x·w of one model.
template <class V, class I, class W>
SYMSGD_INLINE V dot(const SparseRow<V, I>& row, const W& w) {
    constexpr int lanes = short_row<V>;
    constexpr auto each = std::make_index_sequence<lanes>();
    const I* index = row.index;
    const V* value = row.value;
    const std::int64_t count = row.count;
    std::int64_t j = 0;
    Vector<V, lanes> even{}, odd{};
    for (; j + 2 * lanes <= count; j += 2 * lanes) {
        even += gather(w, index + j, each) * load<V, lanes>(value + j);
        odd += gather(w, index + j + lanes, each) * load<V, lanes>(value + j + lanes);
    }
    if (j + lanes <= count) {
        even += gather(w, index + j, each) * load<V, lanes>(value + j);
        j += lanes;
    }
    return sum<V, lanes>(even + odd) + dot_rest(row, j, w);
}

template <class V, class W>
SYMSGD_INLINE V dot(const DenseRow<V>& row, const W& w) {
    constexpr int lanes = vector_lanes<V>;
    const V* x = row.value;
    const std::int64_t count = row.count;
    std::int64_t j = 0;
    Vector<V, lanes> a{}, b{}, c{}, d{};
    for (; j + 4 * lanes <= count; j += 4 * lanes) {
        a += load<V, lanes>(x + j) * w.template get_vector<lanes>(j);
        b += load<V, lanes>(x + j + lanes) * w.template get_vector<lanes>(j + lanes);
        c += load<V, lanes>(x + j + 2 * lanes) * w.template get_vector<lanes>(j + 2 * lanes);
        d += load<V, lanes>(x + j + 3 * lanes) * w.template get_vector<lanes>(j + 3 * lanes);
    }
    for (; j + lanes <= count; j += lanes) a += load<V, lanes>(x + j) * w.template get_vector<lanes>(j);
    V rest = 0;
    for (; j < count; ++j) rest += x[j] * w.get(j);
    return sum<V, lanes>((a + b) + (c + d)) + rest;
}

template <class W, class V>
SYMSGD_INLINE void raise(const W& w, std::int64_t i, V by) {
    w.set(i, w.get(i) + by);
}

// w ← w + u x of one model.
template <class V, class I, class W>
SYMSGD_INLINE void add(const SparseRow<V, I>& row, V u, const W& w) {
    constexpr int lanes = 16 / static_cast<int>(sizeof(V));
    const I* index = row.index;
    const V* value = row.value;
    const std::int64_t count = row.count;
    std::int64_t j = 0;
    for (; j + lanes <= count; j += lanes) {
        std::int64_t at[lanes];
        read_indices<lanes>(index + j, at);
        const Vector<V, lanes> step = load<V, lanes>(value + j) * u;
        for (int k = 0; k < lanes; ++k) raise(w, at[k], step[k]);
    }
    if (j < count) raise(w, index[j], value[j] * u);
    if constexpr (lanes > 2) {
        if (j + 1 < count) raise(w, index[j + 1], value[j + 1] * u);
        if (j + 2 < count) raise(w, index[j + 2], value[j + 2] * u);
    }
}

template <class V, class W>
SYMSGD_INLINE void add(const DenseRow<V>& row, V u, const W& w) {
    constexpr int lanes = vector_lanes<V>;
    std::int64_t j = 0;
    for (; j + lanes <= row.count; j += lanes)
        w.template set_vector<lanes>(j, w.template get_vector<lanes>(j) + load<V, lanes>(row.value + j) * u);
    for (; j < row.count; ++j) raise(w, j, row.value[j] * u);
}

// Calls f with 4, 8 or 16: the widest panel that divides `numbers`.
template <class F>
SYMSGD_INLINE auto with_panel(int numbers, F&& f) {
    if (numbers % 16 == 0) return f(std::integral_constant<int, 16>{});
    if (numbers % 8 == 0) return f(std::integral_constant<int, 8>{});
    return f(std::integral_constant<int, 4>{});
}

// terms(0) + … + terms(count − 1), by halves.
template <int count, int first = 0, class Terms>
SYMSGD_INLINE auto add_up(const Terms& terms) {
    if constexpr (count == 1)
        return terms(first);
    else
        return add_up<count / 2, first>(terms) + add_up<count / 2, first + count / 2>(terms);
}

// Several numbers a feature at once: `panel` of them lie side by side at w[feature × stride + at]. `sums` of them are
// independent, so that additions do not wait for one another.
template <int panel, int sums = 2, class Row, class W, class V>
SYMSGD_INLINE void dot_panel(const Row& row, const W& w, std::int64_t stride, std::int64_t at, V* scores) {
    constexpr int lanes = smallest(panel, vector_lanes<V>);
    constexpr int parts = panel / lanes;
    Vector<V, lanes> total[sums][parts]{};
    std::int64_t j = 0;
    for (; j + sums <= row.count; j += sums) {
        for (int s = 0; s < sums; ++s) {
            const std::int64_t first = feature(row, j + s) * stride + at;
            for (int k = 0; k < parts; ++k)
                total[s][k] += w.template get_vector<lanes>(first + k * lanes) * row.value[j + s];
        }
    }
    for (; j < row.count; ++j) {
        const std::int64_t last = feature(row, j) * stride + at;
        for (int k = 0; k < parts; ++k) total[0][k] += w.template get_vector<lanes>(last + k * lanes) * row.value[j];
    }
    for (int k = 0; k < parts; ++k)
        store<V, lanes>(scores + k * lanes, add_up<sums>([&](int s) { return total[s][k]; }));
}

// `entries` are taken in one turn of the loop.
template <int panel, int entries = 1, class Row, class W, class V>
SYMSGD_INLINE void add_panel(const Row& row, const V* u, const W& w, std::int64_t stride, std::int64_t at) {
    constexpr int lanes = smallest(panel, vector_lanes<V>);
    constexpr int parts = panel / lanes;
    Vector<V, lanes> step[parts];
    for (int k = 0; k < parts; ++k) step[k] = load<V, lanes>(u + k * lanes);
    const auto add_entry = [&](std::int64_t first, Vector<V, lanes> x) {
        const W entry{w.weights + first};
        for (int k = 0; k < parts; ++k)
            entry.template set_vector<lanes>(k * lanes, entry.template get_vector<lanes>(k * lanes) + step[k] * x);
    };
    std::int64_t j = 0;
    if constexpr (entries > 1) {
        for (; j + entries <= row.count; j += entries) {
            std::int64_t features[entries];
            // read before anything is stored, which might be the same memory as far as compilers know
            Vector<V, lanes> x[entries];
            for (int e = 0; e < entries; ++e) features[e] = feature(row, j + e);
            for (int e = 0; e < entries; ++e) x[e] = broadcast<V, lanes>(row.value[j + e]);
            for (int e = 0; e < entries; ++e) add_entry(features[e] * stride + at, x[e]);
        }
    }
    for (; j < row.count; ++j) add_entry(feature(row, j) * stride + at, broadcast<V, lanes>(row.value[j]));
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
