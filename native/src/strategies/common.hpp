// What strategies share: slices of a block, the clock that polls, the order of a pass written out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "symsgd/crew.hpp"
#include "symsgd/strategy.hpp"
#include "symsgd/team.hpp"

namespace symsgd {

// Places between two looks at the clock: a window, or fewer where rows are so long that a window takes too long.
constexpr std::int64_t most_places = Order::window_rows;
constexpr std::int64_t slice_work = std::int64_t{1} << 24;  // multiply-adds, some ten milliseconds

// Rows of a slice where each feature has `numbers` numbers.
template <class Rows>
std::int64_t slice_rows(const Rows& rows, int numbers) {
    const std::int64_t work = 1 + entries_of(rows) / std::max<std::int64_t>(rows.rows, 1) * numbers;
    return std::clamp<std::int64_t>(slice_work / work, 1, most_places);
}

// Asks `should_stop` every 20 ms. Belongs to the calling thread.
class Poll {
public:
    explicit Poll(const ShouldStop& should_stop) : should_stop_(should_stop) {}

    bool operator()() {
        const auto now = std::chrono::steady_clock::now();
        if (stopped_ || now - asked_ <= std::chrono::milliseconds(20)) return stopped_;
        asked_ = now;
        return stopped_ = should_stop_();
    }

private:
    const ShouldStop& should_stop_;
    std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
    bool stopped_ = false;
};

// Copies `count` numbers that other threads have just written. Their lines come out of other cores' caches, faster if
// they are asked for ahead, and if not all threads ask for the same ones: each begins with another `share`, below 1.
template <class V>
void copy_written(const V* from, std::int64_t count, V* to, double share) {
    constexpr std::size_t line = 64;
    constexpr std::int64_t block = line / sizeof(V), ahead = 32 * block;
    const auto copy = [&](std::int64_t begin, std::int64_t end) {
        std::int64_t i = begin;
        for (; i + block <= end; i += block) {
            __builtin_prefetch(from + i + ahead);
            std::memcpy(to + i, from + i, line);
        }
        std::copy(from + i, from + end, to + i);
    };
    const std::int64_t first = static_cast<std::int64_t>(share * static_cast<double>(count)) / block * block;
    copy(first, count);
    copy(0, first);
}

// Whether a row has no feature. PA-I passes such rows over: they are no steps.
template <class Rows>
bool is_featureless(const Rows& rows, std::int64_t r) {
    const auto zero = [](auto x) { return x == 0; };
    if constexpr (Rows::sparse)
        return std::all_of(rows.value + rows.start[r], rows.value + rows.start[r + 1], zero);
    else
        return std::all_of(rows.value + r * rows.features, rows.value + (r + 1) * rows.features, zero);
}

// The rows of a pass in turn, without those held out.
class WrittenOrder {
public:
    // Without those that are no steps either: so that the number of a row's step is its place.
    template <class Rows>
    void write(const Workspace<Rows>& work, int threads) {
        write_all(work.order, threads);
        if (work.spec.rule.schedule.kind != ScheduleKind::passive_aggressive1) return;
        if (featureless_.empty()) {
            featureless_.resize(static_cast<std::size_t>(work.rows.rows));
            for (std::int64_t r = 0; r < work.rows.rows; ++r)
                featureless_[static_cast<std::size_t>(r)] = is_featureless(work.rows, r);
        }
        count_ = std::remove_if(rows_.get(), rows_.get() + count_,
                                [&](std::int64_t r) { return featureless_[static_cast<std::size_t>(r)]; }) -
                 rows_.get();
    }

    // The same by a whole crew, whose threads are there already.
    template <class Rows>
    void write(Crew::Member& member, const Workspace<Rows>& work) {
        const Order& order = work.order;
        if (order.leaves_out() || work.spec.rule.schedule.kind == ScheduleKind::passive_aggressive1)
            return member.alone([&] { write(work, 1); });
        member.alone([&] { make_room(order); });
        member.phase((order.places() + piece_places - 1) / piece_places,
                     [&](std::int64_t piece) {
                         const std::int64_t begin = piece * piece_places;
                         order.write(begin, std::min(begin + piece_places, order.places()), rows_.get() + begin);
                     },
                     [&] { count_ = order.places(); });
    }

    std::int64_t count() const { return count_; }
    const std::int64_t* at(std::int64_t place) const { return rows_.get() + place; }

    void write_all(const Order& order, int threads) {
        const std::int64_t places = order.places();
        make_room(order);
        if (order.leaves_out()) {
            count_ = static_cast<std::int64_t>(order.write(0, places, rows_.get()));
            return;
        }
        in_pieces(places, piece_places, threads,
                  [&](std::int64_t begin, std::int64_t end) { order.write(begin, end, rows_.get() + begin); });
        count_ = places;
    }

private:
    static constexpr std::int64_t piece_places = 16 * most_places;

    void make_room(const Order& order) {
        if (rows_ == nullptr)
            rows_ = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(order.places()));
    }

    std::unique_ptr<std::int64_t[]> rows_;
    std::int64_t count_ = 0;
    std::vector<bool> featureless_;
};

// Targets and weights of up to a slice of rows, and the block they make.
struct Slice {
    double target[most_places];
    double weight[most_places];

    // `rows` are the rows' numbers in the data, `order` in what the kernel walks over.
    template <class Rows>
    Block read(const Workspace<Rows>& work, const std::int64_t* rows, const std::int64_t* order, std::size_t count,
               std::size_t known) {
        const Targets& targets = work.spec.targets;
        if (work.ahead != nullptr) work.ahead->begin_rows(static_cast<std::int64_t>(count));
        targets.read(rows, count, target, weight);
        return {order,
                count,
                known,
                target,
                weight,
                targets.class_ids.data(),
                targets.positive_weight.data(),
                targets.negative_weight.data()};
    }
};

// Gives every type of rows an instance of a strategy's factory.
#define SYMSGD_FOR_ALL_ROWS(factory, ...)                                                      \
    template std::unique_ptr<Strategy<SparseRows<float, std::int32_t>>> factory(__VA_ARGS__);  \
    template std::unique_ptr<Strategy<SparseRows<float, std::int64_t>>> factory(__VA_ARGS__);  \
    template std::unique_ptr<Strategy<SparseRows<double, std::int32_t>>> factory(__VA_ARGS__); \
    template std::unique_ptr<Strategy<SparseRows<double, std::int64_t>>> factory(__VA_ARGS__); \
    template std::unique_ptr<Strategy<DenseRows<float>>> factory(__VA_ARGS__);                 \
    template std::unique_ptr<Strategy<DenseRows<double>>> factory(__VA_ARGS__);

// And of one that may ask for a copy of the rows.
#define SYMSGD_FOR_COPIED_ROWS(factory, ...)                                                   \
    template std::unique_ptr<Strategy<SparseRows<float, std::uint16_t>>> factory(__VA_ARGS__); \
    template std::unique_ptr<Strategy<SparseRows<double, std::uint16_t>>> factory(__VA_ARGS__);

}  // namespace symsgd
