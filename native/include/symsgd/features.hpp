// Features by how frequent they are, and rows that number them so.
//
// Few features make up most of the entries of sparse rows. With those in front, what threads have to merge often is a
// short stretch of memory, and what rows read lies together. The caller never sees the numbers: a model gives and takes
// weights in the order that the data has (model.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "symsgd/memory.hpp"
#include "symsgd/rows.hpp"

namespace symsgd {

class FeatureOrder {
public:
    // Counts the features of some rows, evenly spaced, about `entries` entries of them.
    template <class V, class I>
    FeatureOrder(const SparseRows<V, I>& rows, std::int64_t entries, int threads);

    const std::int32_t* original() const { return original_.data(); }  // number of the i-th feature in the data
    const std::int32_t* place() const { return place_.data(); }        // where a feature of the data has come to

    // How many of the features, the most frequent ones, are in at least this share of the rows. A feature that none of
    // the sampled rows has is in no share of them.
    std::int64_t in_share(double share) const;

    // How many of them at least so many of the sampled rows have.
    std::int64_t seen(std::int64_t times) const;

private:
    std::int64_t sampled_ = 0;  // rows
    Array<std::int32_t> original_, place_;
    std::vector<std::int64_t> with_at_least_;  // [count]: features that so many sampled rows have
};

// The indices of rows with each feature's place in the order for its number: a copy, as `To` has room for them.
template <class To, class V, class I>
Array<To> renumbered(const SparseRows<V, I>& rows, const FeatureOrder& order, int threads);

}  // namespace symsgd
