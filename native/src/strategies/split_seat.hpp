// Async-SymSGD's place to train a block (compare seat.hpp): the frequent features are a replica's, the rest is shared.
#pragma once

#include "seat.hpp"

namespace symsgd {

constexpr std::int32_t rare = -1;

// For each feature its place among the frequent ones, or `rare`.
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

// A block's rows, their entries sorted into frequent ones, by their place, and rare ones.
template <class V, class I>
class SortedRows {
public:
    void copy(const SparseRows<V, I>& rows, const Frequent& frequent, const std::int64_t* order, std::int64_t count) {
        std::int64_t entries = 0;
        for (std::int64_t i = 0; i < count; ++i) entries += rows.start[order[i] + 1] - rows.start[order[i]];
        const auto room = static_cast<std::size_t>(entries) + 1;  // an entry is written before it is known to count
        if (common_index_.size() < room) {
            common_index_.resize(room);
            common_value_.resize(room);
            rare_index_.resize(room);
            rare_value_.resize(room);
        }
        common_start_.resize(static_cast<std::size_t>(count) + 1);
        rare_start_.resize(static_cast<std::size_t>(count) + 1);
        std::size_t commons = 0, rares = 0;
        const std::int32_t* places = frequent.place.data();
        for (std::int64_t i = 0; i < count; ++i) {
            if (i + 8 < count) {
                const I later = rows.start[order[i + 8]];
                __builtin_prefetch(rows.index + later);
                __builtin_prefetch(rows.index + later + 16);
                __builtin_prefetch(rows.value + later);
                __builtin_prefetch(rows.value + later + 16);
            }
            const I end = rows.start[order[i] + 1];
            for (I j = rows.start[order[i]]; j < end; ++j) {  // without a branch: nothing predicts which it is
                const I feature = rows.index[j];
                const V value = rows.value[j];
                const std::int32_t place = places[feature];
                common_index_[commons] = place;
                common_value_[commons] = value;
                rare_index_[rares] = feature;
                rare_value_[rares] = value;
                const bool is_common = place >= 0;
                commons += is_common;
                rares += !is_common;
            }
            common_start_[static_cast<std::size_t>(i) + 1] = static_cast<std::int32_t>(commons);
            rare_start_[static_cast<std::size_t>(i) + 1] = static_cast<I>(rares);
        }
        count_ = count;
    }

    SplitRows<V, I> view(std::int64_t common, std::int64_t features) const {
        return {{common_start_.data(), common_index_.data(), common_value_.data(), count_, common},
                {rare_start_.data(), rare_index_.data(), rare_value_.data(), count_, features}};
    }

private:
    std::int64_t count_ = 0;
    std::vector<std::int32_t> common_start_, common_index_;
    std::vector<V> common_value_;
    std::vector<I> rare_start_, rare_index_;
    std::vector<V> rare_value_;
};

template <class Rows>
class SplitSeat;

template <class V, class I>
class SplitSeat<SparseRows<V, I>> {
    using Rows = SparseRows<V, I>;

public:
    SplitSeat(const Workspace<Rows>& work, const Frequent& frequent, ReplicaShape shape)
        : replica(static_cast<std::int64_t>(frequent.features.size()), work.model.classes(), work.spec.rule, {}, shape),
          frequent_(frequent) {}

    void prepare(const Workspace<Rows>& work, const std::int64_t* order, std::int64_t rows) {
        order_ = order;
        rows_ = rows;
        sorted_.copy(work.rows, frequent_, order, rows);
        if (static_cast<std::int64_t>(turns_.size()) < rows) {
            turns_.resize(static_cast<std::size_t>(rows));
            std::iota(turns_.begin(), turns_.end(), std::int64_t{0});
        }
    }

    // `shared` has the rare weights; clock(c) is their scale when the block begins.
    template <class Clock, class Stopped>
    bool train(const Workspace<Rows>& work, const Rule& rule, ModelView<V> shared, const Clock& clock,
               const Stopped& stopped) {
        ModelView<V> model = replica.view();
        model.rare = shared.weights;
        model.rare_stride = shared.stride;
        for (int c = 0; c < model.classes; ++c) {
            Lane& lane = model.lanes[c];
            lane.loss = 0.0;
            lane.likelihood = 1.0;
            lane.rare_scale = clock(c);
            lane.rare_inverse = 1.0 / lane.rare_scale;
        }
        const std::int64_t slice = slice_rows(work.rows, model.stride);
        const SplitRows<V, I> rows = sorted_.view(model.features, work.rows.features);
        for (std::int64_t at = 0; at < rows_; at += slice) {
            if (stopped()) return false;
            const auto count = static_cast<std::size_t>(std::min(slice, rows_ - at));
            const Block block = slice_.read(work.spec.targets, order_ + at, turns_.data() + at, count, 0);
            work.kernels.template of_rows<Rows>().learn_split(rows, block, rule, model);
        }
        work.kernels.template of_models<V>().finish_pass(rule, model);
        return true;
    }

    std::int64_t measure_drift(const Workspace<Rows>& work, double* squares) const {
        const SparseRows<V, std::int32_t> rows = sorted_.view(replica.count(), work.rows.features).common;
        return sample_drift(rows_, work.model.classes(), replica, squares, [&](std::int64_t i, auto&& f) {
            for (auto j = rows.start[i]; j < rows.start[i + 1]; ++j) f(rows.index[j], rows.value[j]);
        });
    }

    std::int64_t rows() const { return rows_; }

    Replica<V> replica;

private:
    const Frequent& frequent_;
    SortedRows<V, I> sorted_;
    std::vector<std::int64_t> turns_;
    const std::int64_t* order_ = nullptr;
    std::int64_t rows_ = 0;
    Slice slice_;
};

}  // namespace symsgd
