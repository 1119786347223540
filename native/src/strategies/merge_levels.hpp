// How often a round's merge takes in a feature: the more seldom it is, the more seldom.
//
// A thread that trains on a copy of the model misses what others do to a weight until the next merge. What it misses of
// a rare feature is little, and sweeping millions of rare features in every round would cost more than training. So,
// with features by falling frequency (features.hpp), every round merges those that its rows have now and then, every
// second round those that two rounds have now and then, and so on: between two merges a feature comes up so often on
// the mean, to twice as often, however rare it is. Whatever is due is a stretch of features from the first on.
//
// How often depends on the blocks of a round. What they do to a feature that waits is added up, and rare features have
// next to no curvature, each for itself; but many of them together have, and then as many movements as there are blocks
// are too many. Distance of predictions from the sequential run's, over that of another seed (imdb):
//
//     a feature comes up   1/4     1       4     times between merges
//     16 blocks of 256     .74     13      40
//     2 blocks of 2,048    .431    .430    .431
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "symsgd/features.hpp"

namespace symsgd {

class MergeLevels {
public:
    // Without an order of the features there is one level. `least` features are merged in every round, of up to
    // `blocks` blocks.
    void begin(std::int64_t features, const FeatureOrder* order, std::int64_t least, std::int64_t blocks) {
        occurrences_ = std::clamp(8.0 / static_cast<double>(blocks * blocks), 0.25, 2.0);
        features_ = features;
        order_ = order;
        least_ = std::min(least, features);
        ends_.assign(1, features);
    }

    // For rounds of so many rows.
    void follow(std::int64_t rows) {
        ends_.clear();
        double often = static_cast<double>(std::max<std::int64_t>(rows, 1)) / occurrences_;
        for (int level = 0; order_ != nullptr && level < levels; ++level, often *= 2.0) {
            const std::int64_t end = std::max(least_, order_->in_share(1.0 / often));
            if (4 * end > 3 * features_) break;  // hardly anything would be left out
            ends_.push_back(end);
        }
        ends_.push_back(features_);
    }

    std::int64_t every_round() const { return ends_.front(); }

    // The features due in a round of this number, from 1 on: a level is, 2^level rounds after it was last.
    std::int64_t due(std::int64_t round) const {
        std::size_t level = 0;
        while (level + 1 < ends_.size() && round % (std::int64_t{2} << level) == 0) ++level;
        return ends_[level];
    }

    // Features that come up so often in a round of so many rows, or more; at least those that every round merges first.
    std::int64_t in_round(std::int64_t rows, double occurrences) const {
        if (order_ == nullptr) return features_;
        return std::max(least_, order_->in_share(occurrences / static_cast<double>(std::max<std::int64_t>(rows, 1))));
    }

    // Rounds from one merge of a feature to the next; calls f(begin, end, rounds) for each level.
    template <class F>
    void for_levels(F&& f) const {
        std::int64_t begin = 0;
        for (std::size_t level = 0; level < ends_.size(); ++level) {
            f(begin, ends_[level], std::int64_t{1} << level);
            begin = ends_[level];
        }
    }

    // Features merged in a round, on the mean over many.
    double mean_due() const {
        double sum = 0.0;
        for_levels([&](std::int64_t begin, std::int64_t end, std::int64_t rounds) {
            sum += static_cast<double>(end - begin) / static_cast<double>(rounds);
        });
        return sum;
    }

    template <class State>
    void archive(State& state) {
        state(ends_);
    }

private:
    static constexpr int levels = 6;  // beside the last, which is everything

    double occurrences_ = 0.25;  // of a feature from one merge to the next
    std::int64_t features_ = 0, least_ = 0;
    const FeatureOrder* order_ = nullptr;
    std::vector<std::int64_t> ends_;
};

}  // namespace symsgd
