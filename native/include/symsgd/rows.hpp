// Rows: views of the caller's data, in place. Nothing here owns or copies.
//
// The Python layer has checked what is assumed from here on: arrays are contiguous, values are finite, every
// index lies in [0, features), starts do not decrease. Indices may be unsorted and may repeat within a row.
#pragma once

#include <cstdint>
#include <type_traits>

namespace symsgd {

// Where the entries of each row begin, and where the last row's end: 32- or 64-bit numbers, whatever the indices are.
// More than 2³¹ entries of fewer features are common, and which of the two it is is the same for every row.
class RowStarts {
public:
    RowStarts(const std::int32_t* first) : first_(first), wide_(false) {}
    RowStarts(const std::int64_t* first) : first_(first), wide_(true) {}

    std::int64_t operator[](std::int64_t row) const {
        return wide_ ? static_cast<const std::int64_t*>(first_)[row] : static_cast<const std::int32_t*>(first_)[row];
    }

    std::int64_t width() const { return wide_ ? 8 : 4; }  // bytes of a number
    const void* address(std::int64_t row) const { return static_cast<const char*>(first_) + row * width(); }

private:
    const void* first_;
    bool wide_;
};

template <class V, class I>
struct SparseRows {
    using Value = V;
    using Index = I;
    static constexpr bool sparse = true;
    RowStarts start;  // rows + 1 of them
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

// Rows of a block by their products with each other (see kernels/gram-inl.hpp).
template <class V>
struct GramRows {
    using Value = V;
    static constexpr bool sparse = false;
    const V* products;  // rows × rows, `stride` apart
    std::int64_t rows;  // a multiple of 8
    std::int64_t stride;
    std::int64_t features;  // 2 rows: predictions and steps
};

// F<every type of rows there is>.
template <template <class...> class F>
using ForAllRows = F<SparseRows<float, std::int32_t>, SparseRows<float, std::int64_t>, SparseRows<double, std::int32_t>,
                     SparseRows<double, std::int64_t>, DenseRows<float>, DenseRows<double>>;

// Rows whose indices a training has copied, in half the bytes (features.hpp).
template <template <class...> class F>
using ForCopiedRows = F<SparseRows<float, std::uint16_t>, SparseRows<double, std::uint16_t>>;

template <class Rows>
constexpr bool are_copied = false;
template <class V>
constexpr bool are_copied<SparseRows<V, std::uint16_t>> = true;

// Numbers stored.
template <class Rows>
std::int64_t entries_of(const Rows& rows) {
    if constexpr (Rows::sparse)
        return rows.start[rows.rows];
    else
        return rows.rows * rows.features;
}

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
