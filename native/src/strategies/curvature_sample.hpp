// The sample of rows that the curvature is estimated from (symsgd/spectrum.hpp).
#pragma once

#include <cmath>
#include <limits>

#include "common.hpp"
#include "symsgd/spectrum.hpp"

namespace symsgd {

// Calls f(feature, value) for the entries of a row.
template <class Rows, class F>
void for_entries(const Rows& rows, std::int64_t row, F&& f) {
    if constexpr (Rows::sparse)
        for (auto j = rows.start[row]; j < rows.start[row + 1]; ++j)
            f(static_cast<std::int64_t>(rows.index[j]), rows.value[j]);
    else
        for (std::int64_t j = 0; j < rows.features; ++j) f(j, rows.value[row * rows.features + j]);
}

// x·w, `weights` being those of one class, `stride` apart; of the first `upto` features alone.
template <class Rows, class V>
double score(const Rows& rows, std::int64_t row, const V* weights, int stride,
             std::int64_t upto = std::numeric_limits<std::int64_t>::max()) {
    double sum = 0.0;
    for_entries(rows, row, [&](std::int64_t feature, V x) {
        if (feature >= upto) return;
        sum += static_cast<double>(weights[feature * stride]) * static_cast<double>(x);
    });
    return sum;
}

// `wanted` rows of a pass, evenly spaced; another set for every `turn`.
inline std::vector<std::int64_t> spread_rows(const WrittenOrder& order, std::int64_t wanted, std::int64_t turn) {
    const std::int64_t count = std::min(wanted, order.count());
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t begin = i * order.count() / count, end = (i + 1) * order.count() / count;
        rows.push_back(*order.at(begin + turn * 7919 % (end - begin)));
    }
    return rows;
}

// What a row is to the class of a lane: its target and its weight.
struct Seen {
    double target, weight;
};

inline Seen seen_by(const Targets& targets, std::int64_t row, int c) {
    Seen seen{};
    targets.read(&row, 1, &seen.target, &seen.weight);
    if (targets.class_ids.size() < 2) return seen;
    const auto lane = static_cast<std::size_t>(c);
    const bool positive = seen.target == targets.class_ids[lane];
    return {positive ? 1.0 : -1.0, seen.weight * (positive ? targets.positive_weight : targets.negative_weight)[lane]};
}

// h, or where the gradient jumps its secant over as far as predictions are off (compare soft_response in the kernels).
// `reach` is what a step moves its own prediction by, for a gradient of 1.
inline double curvature_at(const Rule& rule, double p, double y, double reach, double drift) {
    return visit(rule.loss, [&](const auto& loss) {
        if (!rule.soft_curvature) return static_cast<double>(loss.curvature(p, y));
        const double delta = std::max(drift, 0.5 * reach);
        if (!(delta > 0.0)) return 0.0;
        const double slope = (loss.gradient(p + delta, y) - loss.gradient(p - delta, y)) / (2.0 * delta);
        return reach > 0.0 ? std::min(slope, 1.0 / reach) : slope;
    });
}

template <class Rows>
class CurvatureSampler {
    using V = typename Rows::Value;

public:
    // The features that Q has rows of: all of them, or the `most` most frequent. Ascending.
    void choose_features(const Rows& rows, const FeatureOrder* by_frequency, const WrittenOrder& order,
                         std::int64_t most) {
        features_.clear();
        places_ = {};
        known_ = rows.features;
        if (by_frequency != nullptr) known_ = std::min(known_, std::max(most, most_known));
        if (rows.features <= most || by_frequency != nullptr) {
            features_.resize(static_cast<std::size_t>(std::min(rows.features, most)));
            std::iota(features_.begin(), features_.end(), std::int64_t{0});
            return;
        }
        std::vector<std::int32_t> count(static_cast<std::size_t>(rows.features), 0);
        for (const std::int64_t row : spread_rows(order, sample_rows(rows), 0))
            for_entries(rows, row, [&](std::int64_t feature, V) { ++count[static_cast<std::size_t>(feature)]; });
        for (std::int64_t i = 0; i < rows.features; ++i)
            if (count[static_cast<std::size_t>(i)] > 0) features_.push_back(i);
        if (static_cast<std::int64_t>(features_.size()) > most) {
            std::stable_sort(features_.begin(), features_.end(), [&](std::int64_t a, std::int64_t b) {
                return count[static_cast<std::size_t>(a)] > count[static_cast<std::size_t>(b)];
            });
            features_.resize(static_cast<std::size_t>(most));
            std::sort(features_.begin(), features_.end());
        }
        places_ = Array<std::int32_t>(static_cast<std::size_t>(rows.features));
        for (std::size_t i = 0; i < places_.size(); ++i) places_[i] = -1;
        for (std::size_t k = 0; k < features_.size(); ++k)
            places_[static_cast<std::size_t>(features_[k])] = static_cast<std::int32_t>(k);
    }

    // √(weight × h / rows) x̃ of sampled rows, for class c, whose next step has this size. Called by a whole crew.
    void take(Crew::Member& member, Workspace<Rows>& work, const WrittenOrder& order, std::int64_t turn, int c,
              double step, CurvatureSample<V>& sample) {
        member.alone([&] {
            rows_ = spread_rows(order, sample_rows(work.rows), turn);
            roots_.assign(rows_.size(), 0.0);
            parts_.resize(static_cast<std::size_t>(pieces));
        });
        const Rule& rule = work.spec.rule;
        const double kappa = rule.fit_intercept ? rule.intercept_decay : 0.0;
        const std::int64_t count = static_cast<std::int64_t>(rows_.size()), piece = (count + pieces - 1) / pieces;
        member.phase(
            pieces,
            [&](std::int64_t task) {
                const ModelView<V> model = work.model.view();
                const Lane& lane = model.lanes[c];
                for (std::int64_t i = task * piece; i < std::min(count, (task + 1) * piece); ++i) {
                    const std::int64_t row = rows_[static_cast<std::size_t>(i)];
                    const Seen seen = seen_by(work.spec.targets, row, c);
                    double square = kappa;
                    for_entries(work.rows, row,
                                [&](std::int64_t, V x) { square += static_cast<double>(x) * static_cast<double>(x); });
                    const double p =
                        score(work.rows, row, model.weights + c, model.stride) * lane.scale + lane.intercept;
                    const double h = curvature_at(rule, p, seen.target, step * seen.weight * square, lane.drift);
                    const double mean = h * seen.weight / static_cast<double>(count);
                    if (mean > 0.0 && std::isfinite(mean)) roots_[static_cast<std::size_t>(i)] = std::sqrt(mean);
                }
                write_part(work.rows, kappa, static_cast<std::size_t>(std::min(count, task * piece)),
                           static_cast<std::size_t>(std::min(count, (task + 1) * piece)),
                           parts_[static_cast<std::size_t>(task)]);
            },
            [&] { join(sample); });
    }

    const std::vector<std::int64_t>& features() const { return features_; }
    std::int64_t known() const { return known_; }  // features whose curvature is asked for: the rest are too rare

    template <class State>
    void archive(State& state) {
        state(features_, known_, places_);
    }

private:
    static constexpr std::int64_t most_known = 65536, pieces = 16;
    static constexpr std::int64_t sample_entries = 100000;  // about as many in a sample

    static std::int64_t sample_rows(const Rows& rows) {
        const std::int64_t mean = 1 + entries_of(rows) / std::max<std::int64_t>(1, rows.rows);
        return std::clamp<std::int64_t>(sample_entries / mean, 256, 4096);
    }

    std::int64_t place(std::int64_t feature) const {
        if (places_.size() != 0) return places_[static_cast<std::size_t>(feature)];
        return feature < static_cast<std::int64_t>(features_.size()) ? feature : -1;
    }

    // The entries of rows [begin, end) of the sample.
    struct Part {
        std::vector<std::int64_t> start;
        std::vector<std::int32_t> place, feature;
        std::vector<V> value, square;
    };

    void write_part(const Rows& rows, double kappa, std::size_t begin, std::size_t end, Part& part) const {
        part.start.clear();
        part.place.clear();
        part.feature.clear();
        part.value.clear();
        part.square.clear();
        for (std::size_t i = begin; i < end; ++i) {
            const double root = roots_[i];
            if (root == 0.0) continue;
            const auto keep = [&](std::int64_t feature, std::int64_t place, double value) {
                part.feature.push_back(static_cast<std::int32_t>(feature));
                part.square.push_back(static_cast<V>(value * value));
                if (place < 0 || value == 0.0) return;
                part.place.push_back(static_cast<std::int32_t>(place));
                part.value.push_back(static_cast<V>(value));
            };
            for_entries(rows, rows_[i], [&](std::int64_t feature, V x) {
                if (feature < known_) keep(feature, place(feature), root * static_cast<double>(x));
            });
            keep(known_, static_cast<std::int64_t>(features_.size()), root * std::sqrt(kappa));
            part.start.push_back(static_cast<std::int64_t>(part.place.size()));
        }
    }

    // Part after part, so that sums are the same whoever has written them.
    void join(CurvatureSample<V>& sample) const {
        sample.start.assign(1, 0);
        sample.place.clear();
        sample.value.clear();
        sample.diagonal.assign(static_cast<std::size_t>(known_) + 1, 0.0);
        for (const Part& part : parts_) {
            const auto before = static_cast<std::int64_t>(sample.place.size());
            for (const std::int64_t start : part.start) sample.start.push_back(before + start);
            sample.place.insert(sample.place.end(), part.place.begin(), part.place.end());
            sample.value.insert(sample.value.end(), part.value.begin(), part.value.end());
            for (std::size_t e = 0; e < part.feature.size(); ++e)
                sample.diagonal[static_cast<std::size_t>(part.feature[e])] += static_cast<double>(part.square[e]);
        }
    }

    std::vector<std::int64_t> features_;
    std::int64_t known_ = 0;
    Array<std::int32_t> places_;  // of each feature among them, or −1; empty if they are the first ones
    std::vector<std::int64_t> rows_;
    std::vector<double> roots_;
    std::vector<Part> parts_;
};

}  // namespace symsgd
