// Rows whose frequent features have tangents and whose rare ones do not (Async-SymSGD).
#pragma once

#include "rows-inl.hpp"

namespace symsgd {
namespace {

template <class V, class I>
struct SplitRow {
    SparseRow<V, I> common;
    SparseRow<V, I> rare;
};

template <class V, class I>
SYMSGD_INLINE SplitRow<V, I> row_at(const SplitRows<V, I>& rows, std::int64_t r) {
    const I* bounds = rows.start + 2 * r;
    const I start = bounds[0], middle = bounds[1], end = bounds[2];
    return {{rows.index + start, rows.value + start, static_cast<std::int64_t>(middle - start)},
            {rows.index + middle, rows.value + middle, static_cast<std::int64_t>(end - middle)}};
}

template <class V, class I>
SYMSGD_INLINE double square_norm(const SplitRow<V, I>& row) {
    return square_norm(row.common) + square_norm(row.rare);
}

template <class V, class I>
SYMSGD_INLINE std::size_t fetch_distance(const SplitRows<V, I>& rows) {
    return fetch_distance_of(1 + static_cast<std::int64_t>(rows.start[2 * rows.rows]) / rows.rows);
}

template <class V, class I>
SYMSGD_INLINE void prefetch(const SplitRows<V, I>& rows, std::int64_t r, std::int64_t later) {
    const I start = rows.start[2 * r];
    const auto count = static_cast<std::int64_t>(rows.start[2 * r + 2] - start);
    prefetch_entries<3>(rows.index + start, rows.value + start, count);
    __builtin_prefetch(rows.start + 2 * later + 2);  // where it ends: see prefetch of sparse rows
}

template <class V, class I>
SYMSGD_INLINE void prefetch_weights(const SplitRow<V, I>& row, const V* rare) {
    prefetch_weights(row.rare, rare);
}

}  // namespace
}  // namespace symsgd
