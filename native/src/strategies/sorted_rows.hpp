// A copy of sparse rows for Async-SymSGD, the entries of each row sorted into frequent features, by their place among
// them, and rare ones. Sorting a row anew in every pass took a quarter of the time where it was measured; the copy is
// made once, and costs as much memory as the indices and values it copies.
//
// Both kinds are filled up to a multiple of four with entries of value 0, so that loops over them end where the machine
// expects it. They name the first frequent feature,
// which belongs to the thread, and the row's own last rare one.
#pragma once

#include <limits>
#include <stdexcept>
#include <vector>

#include "common.hpp"

namespace symsgd {

constexpr std::int32_t rare = -1;

// The frequent features, and for each feature its place among them or `rare`.
struct Frequent {
    std::vector<std::int64_t> features;
    Array<std::int32_t> place;
};

template <class V, class I>
Frequent find_frequent(const SparseRows<V, I>& rows, const WrittenOrder& order, const StrategySpec& strategy) {
    const std::int64_t sample = std::min(strategy.sample, order.count());
    Array<std::int32_t> last(static_cast<std::size_t>(rows.features));  // 1 + the sampled row that had it last
    std::vector<std::int32_t> count(static_cast<std::size_t>(rows.features), 0);
    for (std::int64_t s = 0; s < sample; ++s) {
        const std::int64_t row = *order.at(s * order.count() / sample);  // evenly over a pass, so any order will do
        for (I j = rows.start[row]; j < rows.start[row + 1]; ++j) {
            const auto feature = static_cast<std::size_t>(rows.index[j]);
            if (last[feature] != s + 1) ++count[feature];
            last[feature] = static_cast<std::int32_t>(s + 1);
        }
    }
    Frequent frequent;
    frequent.place = std::move(last);
    for (std::int64_t i = 0; i < rows.features; ++i) {
        const auto at = static_cast<std::size_t>(i);
        frequent.place[at] = rare;
        if (count[at] == 0 || static_cast<double>(count[at]) < strategy.frequent * static_cast<double>(sample))
            continue;
        frequent.place[at] = static_cast<std::int32_t>(frequent.features.size());
        frequent.features.push_back(i);
    }
    return frequent;
}

template <class V, class I>
class SortedRows {
public:
    void copy(const SparseRows<V, I>& rows, const Frequent& frequent, int threads) {
        rows_ = rows.rows;
        features_ = rows.features;
        commons_ = static_cast<std::int64_t>(frequent.features.size());
        common_start_ = Array<std::int32_t>(static_cast<std::size_t>(rows_) + 1);
        rare_start_ = Array<I>(static_cast<std::size_t>(rows_) + 1);
        const auto place_of = [&](I j) { return frequent.place[static_cast<std::size_t>(rows.index[j])]; };
        in_pieces(rows_, 4096, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                std::int32_t commons = 0;
                for (I j = rows.start[r]; j < rows.start[r + 1]; ++j) commons += place_of(j) != rare;
                const I rares = rows.start[r + 1] - rows.start[r] - commons;
                common_start_[static_cast<std::size_t>(r) + 1] = (commons + 3) / 4 * 4;
                rare_start_[static_cast<std::size_t>(r) + 1] = (rares + 3) / 4 * 4;
            }
        });
        std::int64_t commons = 0, rares = 0;
        for (std::int64_t r = 0; r < rows_; ++r) {
            commons += common_start_[static_cast<std::size_t>(r) + 1];
            rares += static_cast<std::int64_t>(rare_start_[static_cast<std::size_t>(r) + 1]);
            if (commons > std::numeric_limits<std::int32_t>::max() || rares > std::numeric_limits<I>::max())
                throw std::invalid_argument("async-symsgd sorts at most 2**31 entries of each kind; X has more");
            common_start_[static_cast<std::size_t>(r) + 1] = static_cast<std::int32_t>(commons);
            rare_start_[static_cast<std::size_t>(r) + 1] = static_cast<I>(rares);
        }
        common_index_ = Array<std::int32_t>(static_cast<std::size_t>(commons));
        common_value_ = Array<V>(static_cast<std::size_t>(commons));
        rare_index_ = Array<I>(static_cast<std::size_t>(rares));
        rare_value_ = Array<V>(static_cast<std::size_t>(rares));
        in_pieces(rows_, 4096, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                auto common = static_cast<std::size_t>(common_start_[static_cast<std::size_t>(r)]);
                auto other = static_cast<std::size_t>(rare_start_[static_cast<std::size_t>(r)]);
                for (I j = rows.start[r]; j < rows.start[r + 1]; ++j) {
                    if (const std::int32_t place = place_of(j); place != rare) {
                        common_index_[common] = place;
                        common_value_[common++] = rows.value[j];
                    } else {
                        rare_index_[other] = rows.index[j];
                        rare_value_[other++] = rows.value[j];
                    }
                }
                // what fills up frequent ones is 0 from the start
                for (; other < static_cast<std::size_t>(rare_start_[static_cast<std::size_t>(r) + 1]); ++other)
                    rare_index_[other] = rare_index_[other - 1];
            }
        });
    }

    SplitRows<V, I> view() const {
        return {{common_start_.data(), common_index_.data(), common_value_.data(), rows_, commons_},
                {rare_start_.data(), rare_index_.data(), rare_value_.data(), rows_, features_}};
    }

private:
    std::int64_t rows_ = 0, features_ = 0, commons_ = 0;
    Array<std::int32_t> common_start_, common_index_;
    Array<I> rare_start_, rare_index_;
    Array<V> common_value_, rare_value_;
};

}  // namespace symsgd
