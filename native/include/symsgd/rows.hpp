// Rows: views of the caller's data, in place. Nothing here owns or copies.
//
// The Python layer has checked what is assumed from here on: arrays are contiguous, values are finite, every
// index lies in [0, features), starts do not decrease. Indices may be unsorted and may repeat within a row.
#pragma once

#include <cstdint>
#include <type_traits>

namespace symsgd {

template <class V, class I>
struct SparseRows {
    using Value = V;
    using Index = I;
    static constexpr bool sparse = true;
    const I* start;  // rows + 1 entries
    const I* index;
    const V* value;
    std::int64_t rows;
    std::int64_t features;
};

template <class V>
struct DenseRows {
    using Value = V;
    static constexpr bool sparse = false;
    const V* value;  // C order, `features` apart
    std::int64_t rows;
    std::int64_t features;
};

// A copy of sparse rows whose entries have been sorted: in each row first the `common` features, filled up with entries
// of value 0 (see sorted_rows.hpp), then the rare ones as they were. The index of a common feature is its place among
// the frequent ones × the stride of the replicas, so that the loop has nothing to multiply.
// They lie one after the other because a row is fetched from memory as a whole.
template <class V, class I>
struct SplitRows {
    using Value = V;
    const I* start;  // 2 rows + 1 entries: where a row begins, where its rare features begin, …
    const I* index;
    const V* value;
    std::int64_t rows;
    std::int64_t features;
    std::int64_t commons;  // with those that fill up
};

// F<every type of rows there is>.
template <template <class...> class F>
using ForAllRows = F<SparseRows<float, std::int32_t>, SparseRows<float, std::int64_t>, SparseRows<double, std::int32_t>,
                     SparseRows<double, std::int64_t>, DenseRows<float>, DenseRows<double>>;

// What one row looks like to the kernels.
template <class V, class I>
struct SparseRow {
    const I* index;
    const V* value;
    std::int64_t count;
};

template <class V>
struct DenseRow {
    const V* value;
    std::int64_t count;
};

}  // namespace symsgd
