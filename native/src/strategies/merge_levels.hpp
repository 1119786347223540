// How often a round's merge takes in a feature: the more seldom it is, the more seldom.
//
// A thread that trains on a copy of the model misses what others do to a weight until the next merge. What it misses of
// a rare feature is little, and sweeping millions of rare features in every round would cost more than training. So,
// with features by falling frequency (features.hpp), every round merges those that its rows have now and then, every
// second round those that two rounds have now and then, and so on: between two merges a feature comes up so often on
// the mean, to twice as often, however rare it is. Whatever is due is a stretch of features from the first on.
//
// How often hardly matters. Distance of predictions from the sequential run's, over that of another seed:
//
//     a feature comes up                    1/4     1 or 2   4 or 8   times between merges
//     imdb, 16 blocks of 256                .376    .375     .371
//     RCV1 twin, 16 blocks of 1,024         .111    .111     .115
//     Criteo twin, 16 blocks of 4,096       .084    .053     .078
//     imdb, 2 blocks of 2,048               .431    .430     .431
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "symsgd/features.hpp"

namespace symsgd {

class MergeLevels {
public:
    // Without an order of the features there is one level. `least` features are merged in every round.
    void begin(std::int64_t features, const FeatureOrder* order, std::int64_t least) {
        features_ = features;
        order_ = order;
        least_ = std::min(least, features);
        ends_.assign(1, features);
    }

    // For rounds of so many rows.
    void follow(std::int64_t rows) {
        ends_.clear();
        double often = static_cast<double>(std::max<std::int64_t>(rows, 1)) / occurrences;
        for (int level = 0; order_ != nullptr && level < levels; ++level, often *= 2.0) {
            const std::int64_t end = std::max(least_, order_->in_share(1.0 / often));
            if (4 * end > 3 * features_) break;  // hardly anything would be left out
            ends_.push_back(end);
        }
        ends_.push_back(features_);
    }

    std::int64_t every_round() const { return ends_.front(); }

    // The features due in the next round: a level is, 2^level rounds after it was last.
    std::int64_t due() const {
        std::size_t level = 0;
        while (level + 1 < ends_.size() && (since_ + 1) % period(level + 1) == 0) ++level;
        return ends_[level];
    }

    // For how many rounds features will have waited in a merge of the first `reach` of them, or of what waits between
    // two rounds. True if it is not as it was for the last merge; features that are left out count as they will be.
    bool plan(std::int64_t reach) { return plan(reach, since_ + 1); }
    bool plan_between() { return plan(features_, since_); }
    void merged(std::int64_t reach) { since_ = reach == features_ ? 0 : since_ + 1; }
    void nothing_waits() { since_ = 0; }

    // Features that come up so often in a round of so many rows, or more; at least those that every round merges first.
    std::int64_t in_round(std::int64_t rows, double occurrences) const {
        if (order_ == nullptr) return features_;
        return std::max(least_, order_->in_share(occurrences / static_cast<double>(std::max<std::int64_t>(rows, 1))));
    }

    // Rounds that features will have waited; calls f(begin, end, rounds) for each level.
    template <class F>
    void for_levels(F&& f) const {
        std::int64_t begin = 0;
        for (std::size_t level = 0; level < ends_.size(); ++level) {
            f(begin, ends_[level], level < rounds_.size() ? rounds_[level] : period(level));
            begin = ends_[level];
        }
    }

    // Features merged in a round, on the mean over many.
    double mean_due() const {
        double sum = 0.0;
        for (std::size_t level = 0; level < ends_.size(); ++level)
            sum += static_cast<double>(ends_[level] - (level > 0 ? ends_[level - 1] : 0)) /
                   static_cast<double>(period(level));
        return sum;
    }

    template <class State>
    void archive(State& state) {
        state(ends_, rounds_, since_);
    }

private:
    static std::int64_t period(std::size_t level) { return std::int64_t{1} << level; }

    bool plan(std::int64_t reach, std::int64_t rounds) {
        std::vector<std::int64_t> planned;
        for (std::size_t level = 0; level < ends_.size(); ++level) {
            const std::int64_t part = ends_[level] <= reach ? rounds % period(level) : 0;
            planned.push_back(part > 0 ? part : period(level));
        }
        std::swap(planned, rounds_);
        return planned != rounds_;
    }

    static constexpr int levels = 6;            // beside the last, which is everything
    static constexpr double occurrences = 2.0;  // of a feature from one merge to the next
    std::int64_t features_ = 0, least_ = 0;
    const FeatureOrder* order_ = nullptr;
    std::vector<std::int64_t> ends_;
    std::vector<std::int64_t> rounds_;  // by level, of the merge that is planned
    std::int64_t since_ = 0;            // rounds since all was merged
};

}  // namespace symsgd
