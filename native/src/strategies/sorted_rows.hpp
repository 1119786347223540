// A copy of sparse rows for Async-SymSGD, the entries of each row sorted into frequent features, by where the numbers
// of theirs begin in a replica, and rare ones. Sorting a row anew in every pass took a quarter of the time where it was
// measured; the copy is made once, and costs as much memory as the indices and values it copies. Of rows in a mapped
// file, which may be larger than the memory, each block is copied when it comes.
//
// Frequent ones are filled up to a multiple of four with entries of value 0, so that the loop over them ends where the
// machine expects it. Such entries name features of their own behind the frequent ones: a feature named twice would
// make its second update wait for the first one's store.
#pragma once

#include <limits>
#include <stdexcept>
#include <vector>

#include "common.hpp"

namespace symsgd {

constexpr std::int32_t rare = -1;
constexpr std::int64_t group_of_commons = 4;  // they are filled up to a multiple of it

// The frequent features, and for each feature its place among them or `rare`.
struct Frequent {
    std::vector<std::int64_t> features;
    Array<std::int32_t> place;

    // with those that rows are filled up with
    std::int64_t count() const { return static_cast<std::int64_t>(features.size()) + group_of_commons - 1; }
};

template <class V, class I>
Frequent find_frequent(const SparseRows<V, I>& rows, const WrittenOrder& order, const StrategySpec& strategy) {
    const std::int64_t sample = std::min(strategy.sample, order.count());
    Array<std::int32_t> last(static_cast<std::size_t>(rows.features));  // 1 + the sampled row that had it last
    std::vector<std::int32_t> count(static_cast<std::size_t>(rows.features), 0);
    for (std::int64_t s = 0; s < sample; ++s) {
        const std::int64_t row = *order.at(s * order.count() / sample);  // evenly over a pass, so any order will do
        for (std::int64_t j = rows.start[row]; j < rows.start[row + 1]; ++j) {
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
    static constexpr std::int64_t fetch_ahead = 8;  // rows

public:
    // Copies all rows, or order[0 … count) of them. A feature has `numbers` numbers in a replica.
    void copy(const SparseRows<V, I>& rows, const Frequent& frequent, int numbers, int threads) {
        copy(rows, nullptr, rows.rows, frequent, numbers, threads);
    }

    void copy(const SparseRows<V, I>& rows, const std::int64_t* order, std::int64_t count, const Frequent& frequent,
              int numbers, int threads) {
        const auto row = [&](std::int64_t i) { return order == nullptr ? i : order[i]; };
        rows_ = count;
        features_ = rows.features;
        commons_ = frequent.count();
        const auto can_count = [](std::int64_t count) {
            if (count > std::numeric_limits<I>::max())
                throw std::invalid_argument(
                    "async-symsgd sorts a copy of X whose entries, filled up to fours, or whose frequent features' "
                    "numbers its index type cannot count; give X indices of 64 bits");
        };
        can_count(commons_ * numbers);
        const auto stride = static_cast<I>(numbers);
        make_room(start_, 2 * static_cast<std::size_t>(rows_) + 1);
        start_[0] = 0;
        const auto place_of = [&](std::int64_t j) { return frequent.place[static_cast<std::size_t>(rows.index[j])]; };
        in_pieces(rows_, 4096, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                if (order != nullptr && r + fetch_ahead < end) {
                    const std::int64_t later = rows.start[order[r + fetch_ahead]];
                    for (std::int64_t line = 0; line < 3; ++line) {
                        __builtin_prefetch(rows.index + later + line * 64 / static_cast<std::int64_t>(sizeof(I)));
                        __builtin_prefetch(rows.value + later + line * 64 / static_cast<std::int64_t>(sizeof(V)));
                    }
                }
                I commons = 0;
                const std::int64_t first = rows.start[row(r)], last = rows.start[row(r) + 1];
                for (std::int64_t j = first; j < last; ++j) commons += place_of(j) != rare;
                const I rares = static_cast<I>(last - first) - commons;
                start_[2 * static_cast<std::size_t>(r) + 1] =
                    static_cast<I>((commons + group_of_commons - 1) / group_of_commons * group_of_commons);
                start_[2 * static_cast<std::size_t>(r) + 2] = rares;
            }
        });
        std::int64_t entries = 0;
        for (std::size_t bound = 1; bound <= 2 * static_cast<std::size_t>(rows_); ++bound) {
            entries += static_cast<std::int64_t>(start_[bound]);
            can_count(entries);
            start_[bound] = static_cast<I>(entries);
        }
        make_room(index_, static_cast<std::size_t>(entries));
        make_room(value_, static_cast<std::size_t>(entries));
        in_pieces(rows_, 4096, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                const I* bounds = start_.data() + 2 * r;
                auto common = static_cast<std::size_t>(bounds[0]), other = static_cast<std::size_t>(bounds[1]);
                for (std::int64_t j = rows.start[row(r)]; j < rows.start[row(r) + 1]; ++j) {
                    const std::int32_t place = place_of(j);
                    const std::size_t at = place != rare ? common++ : other++;
                    index_[at] = place != rare ? static_cast<I>(place) * stride : rows.index[j];
                    value_[at] = rows.value[j];
                }
                for (auto fill = static_cast<I>(frequent.features.size()); common < static_cast<std::size_t>(bounds[1]);
                     ++fill, ++common) {
                    index_[common] = fill * stride;
                    value_[common] = V{};
                }
            }
        });
    }

    SplitRows<V, I> view() const { return {start_.data(), index_.data(), value_.data(), rows_, features_, commons_}; }

private:
    template <class T>
    static void make_room(Array<T>& array, std::size_t size) {
        if (array.size() < size) array = Array<T>(size, Uninitialised{});
    }

    std::int64_t rows_ = 0, features_ = 0, commons_ = 0;
    Array<I> start_, index_;
    Array<V> value_;
};

}  // namespace symsgd
