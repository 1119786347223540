// The rows of a block, copied out of a sparse matrix with their features renumbered: only the features that the block
// has count, in the order in which they first come. A replica is then as small as the block needs it, whatever the
// width of the data, and the merge sweeps what was touched and nothing else.
#pragma once

#include <limits>
#include <numeric>
#include <vector>

#include "common.hpp"

namespace symsgd {

template <class Rows>
class LocalRows {
    using V = typename Rows::Value;

public:
    static constexpr std::int64_t fetch_ahead = 8;  // rows

    explicit LocalRows(const Rows& rows) : rows_(rows), number_(static_cast<std::size_t>(rows.features)) {}

    // Copies rows order[0 … count) and writes their features to `observed`.
    void copy(const std::int64_t* order, std::int64_t count, std::vector<std::int64_t>& observed) {
        observed.clear();
        // an entry of number_ is valid if it is at least first_: what earlier blocks wrote is smaller
        if (next_ > std::numeric_limits<std::uint32_t>::max() / 2) {
            std::fill_n(number_.data(), number_.size(), 0U);
            next_ = 1;
        }
        first_ = next_;
        start_.resize(static_cast<std::size_t>(count) + 1);
        start_[0] = 0;
        std::int64_t entries = 0;
        for (std::int64_t i = 0; i < count; ++i) entries += rows_.start[order[i] + 1] - rows_.start[order[i]];
        if (entries > std::numeric_limits<std::int32_t>::max())
            throw std::invalid_argument("a block has more than 2**31 entries; a smaller block_size has fewer");
        if (index_.size() < static_cast<std::size_t>(entries)) {
            index_.resize(static_cast<std::size_t>(entries));
            value_.resize(static_cast<std::size_t>(entries));
        }
        std::int32_t* index = index_.data();
        V* value = value_.data();
        for (std::int64_t i = 0; i < count; ++i) {
            if (i + fetch_ahead < count) {
                const auto later = rows_.start[order[i + fetch_ahead]];
                __builtin_prefetch(rows_.index + later);
                __builtin_prefetch(rows_.value + later);
            }
            const auto begin = rows_.start[order[i]], end = rows_.start[order[i] + 1];
            for (auto j = begin; j < end; ++j) {
                const std::int64_t feature = rows_.index[j];
                std::uint32_t number = number_[static_cast<std::size_t>(feature)];
                if (number < first_) [[unlikely]] {
                    number = number_[static_cast<std::size_t>(feature)] = next_++;
                    observed.push_back(feature);
                }
                *index++ = static_cast<std::int32_t>(number - first_);
                *value++ = rows_.value[j];
            }
            start_[static_cast<std::size_t>(i) + 1] = static_cast<std::int32_t>(index - index_.data());
        }
        count_ = count;
        features_ = static_cast<std::int64_t>(observed.size());
    }

    SparseRows<V, std::int32_t> view() const {
        return {start_.data(), index_.data(), value_.data(), count_, features_};
    }

private:
    Rows rows_;
    Array<std::uint32_t> number_;
    std::uint32_t first_ = 1;
    std::uint32_t next_ = 1;
    std::vector<std::int32_t> start_;
    std::vector<std::int32_t> index_;
    std::vector<V> value_;
    std::int64_t count_ = 0;
    std::int64_t features_ = 0;
};

template <class V>
class LocalRows<DenseRows<V>> {  // dense rows have every feature: there is nothing to renumber
public:
    explicit LocalRows(const DenseRows<V>&) {}
};

}  // namespace symsgd
