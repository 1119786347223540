// Rows by their products with each other (see strategies/sliced.cpp): the loop goes through n rows without looking at
// their features.
//
// What the loop takes for a model of 2n features are the predictions x_j·w of the n rows, then the steps that were made
// along each. A step along row i changes prediction j by its size times x_i·x_j, which is row i of the products. Both
// are multiples of stored weights, so that the loop's scale is theirs too, and a rescaling reaches them.
#pragma once

#include "rows-inl.hpp"

namespace symsgd {
namespace {

template <class V>
struct GramRow {
    const V* value;  // products with all rows of the block
    std::int64_t count;
    std::int64_t place;
};

template <class V>
SYMSGD_INLINE GramRow<V> row_at(const GramRows<V>& rows, std::int64_t r) {
    return {rows.products + r * rows.stride, rows.rows, r};
}

template <class V>
SYMSGD_INLINE std::int64_t feature(const GramRow<V>&, std::int64_t j) {
    return j;
}

template <class V>
SYMSGD_INLINE std::size_t fetch_distance(const GramRows<V>&) {
    return std::size_t{1} << 32;  // there is nothing to fetch
}

template <class V>
SYMSGD_INLINE void prefetch(const GramRows<V>&, std::int64_t, std::int64_t) {}

template <class V>
SYMSGD_INLINE void prefetch_weights(const GramRow<V>&, const V*) {}

template <class V>
SYMSGD_INLINE double square_norm(const GramRow<V>& row) {
    return static_cast<double>(row.value[row.place]);
}

template <class V, class W>
SYMSGD_INLINE V dot(const GramRow<V>& row, const W& w) {
    return w.get(row.place);
}

template <class V, class W>
SYMSGD_INLINE void add(const GramRow<V>& row, V u, const W& w) {
    constexpr int lanes = smallest(8, vector_lanes<V>);
    // what comes before this row has been used; counts are multiples of 8
    for (std::int64_t j = row.place / lanes * lanes; j < row.count; j += lanes)
        w.template set_vector<lanes>(j, w.template get_vector<lanes>(j) + load<V, lanes>(row.value + j) * u);
    raise(w, row.count + row.place, u);
}

template <int panel, int sums = 2, class V, class W>
SYMSGD_INLINE void dot_panel(const GramRow<V>& row, const W& w, std::int64_t stride, std::int64_t at, V* scores) {
    for (int k = 0; k < panel; ++k) scores[k] = w.get(row.place * stride + at + k);
}

template <int panel, int entries = 1, class V, class W>
SYMSGD_INLINE void add_panel(const GramRow<V>& row, const V* u, const W& w, std::int64_t stride, std::int64_t at) {
    add_panel<panel>(DenseRow<V>{row.value, row.count}, u, w, stride, at);
    for (int k = 0; k < panel; ++k) raise(w, (row.count + row.place) * stride + at + k, u[k]);
}

}  // namespace
}  // namespace symsgd
