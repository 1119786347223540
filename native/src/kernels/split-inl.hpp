// Rows whose frequent features have tangents and whose rare ones do not (Async-SymSGD).
#pragma once

#include "rows-inl.hpp"

namespace symsgd {
namespace {

template <class V, class I>
struct SplitRow {
    SparseRow<V, std::int32_t> common;
    SparseRow<V, I> rare;
};

template <class V, class I>
SYMSGD_INLINE SplitRow<V, I> row_at(const SplitRows<V, I>& rows, std::int64_t r) {
    return {row_at(rows.common, r), row_at(rows.rare, r)};
}

template <class V, class I>
SYMSGD_INLINE double square_norm(const SplitRow<V, I>& row) {
    return square_norm(row.common) + square_norm(row.rare);
}

template <class V, class I>
SYMSGD_INLINE std::size_t fetch_distance(const SplitRows<V, I>& rows) {
    return fetch_distance(rows.rare);
}

template <class V, class I>
SYMSGD_INLINE void prefetch(const SplitRows<V, I>& rows, std::int64_t r, std::int64_t later) {
    prefetch(rows.common, r, later);
    prefetch(rows.rare, r, later);
}

template <class V, class I>
SYMSGD_INLINE void prefetch_weights(const SplitRow<V, I>& row, const V* rare) {
    prefetch_weights(row.rare, rare);
}

}  // namespace
}  // namespace symsgd
