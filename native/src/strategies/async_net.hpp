// The net: a few rows by whose loss a merge is judged before it is made, and by whose predictions its error is
// measured.
//
// Predictions are those of a model in two parts, w = v + Q u (mean_block.hpp): x·w = x·v + (Qᵀx)·u, and Qᵀx is computed
// once for each estimate of Q.
#pragma once

#include "curvature_sample.hpp"

namespace symsgd {

// What of a model is in v, for the features that the net's rows have.
template <class V>
struct NetWeights {
    std::vector<V> weights;
    double intercept = 0.0;
};

template <class Rows>
class Net {
    using V = typename Rows::Value;

public:
    void choose(const Workspace<Rows>& work, const WrittenOrder& order) {
        const std::int64_t mean = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        rows_ = spread_rows(order, std::clamp<std::int64_t>(most_entries / mean, 16, 128), 5);
        common_ = rows_.size();
        add_longest(work.rows, spread_rows(order, std::clamp<std::int64_t>(50 * most_entries / mean, 64, 2048), 7));
        features_.clear();
        for (const std::int64_t row : rows_)
            for_entries(work.rows, row, [&](std::int64_t feature, V) { features_.push_back(feature); });
        std::sort(features_.begin(), features_.end());
        features_.erase(std::unique(features_.begin(), features_.end()), features_.end());
        start_.assign(1, 0);
        place_.clear();
        value_.clear();
        for (const std::int64_t row : rows_) {
            for_entries(work.rows, row, [&](std::int64_t feature, V x) {
                const auto found = std::lower_bound(features_.begin(), features_.end(), feature);
                place_.push_back(static_cast<std::size_t>(found - features_.begin()));
                value_.push_back(x);
            });
            start_.push_back(place_.size());
        }
        targets_.clear();
        for (int c = 0; c < work.model.classes(); ++c)
            for (const std::int64_t row : rows_) targets_.push_back(seen_by(work.spec.targets, row, c));
        directions_.resize(static_cast<std::size_t>(work.model.classes()));
    }

    // Takes Qᵀx of every row, for class c. `root` is 1 / √κ, κ being that of the intercept, whose feature is √κ.
    void turn_to(const Spectrum<V>& spectrum, const std::vector<std::int64_t>& of_q, double root, std::size_t c) {
        const auto columns = static_cast<std::size_t>(spectrum.columns());
        std::vector<double>& directions = directions_[c];
        directions.assign(rows_.size() * columns, 0.0);
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            double* to = directions.data() + i * columns;
            const auto add = [&](std::int64_t place, double x) {
                for (std::size_t j = 0; j < columns; ++j) to[j] += x * static_cast<double>(spectrum.q(place)[j]);
            };
            for (std::size_t e = start_[i]; e < start_[i + 1]; ++e) {
                const auto found = std::lower_bound(of_q.begin(), of_q.end(), features_[place_[e]]);
                if (found != of_q.end() && *found == features_[place_[e]])
                    add(found - of_q.begin(), static_cast<double>(value_[e]));
            }
            add(static_cast<std::int64_t>(of_q.size()), 1.0 / root);
        }
    }

    // Appends the predictions of class c. Without `u` all of the model is in v.
    void predict(const NetWeights<V>& v, const std::vector<double>* u, std::size_t c,
                 std::vector<double>& scores) const {
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            double sum = v.intercept;
            for (std::size_t e = start_[i]; e < start_[i + 1]; ++e)
                sum += static_cast<double>(v.weights[place_[e]]) * static_cast<double>(value_[e]);
            if (u != nullptr) {
                const double* directions = directions_[c].data() + i * u->size();
                for (std::size_t j = 0; j < u->size(); ++j) sum += directions[j] * (*u)[j];
            }
            scores.push_back(sum);
        }
    }

    // The mean loss of all classes' predictions.
    double loss(const Rule& rule, const std::vector<double>& scores) const {
        double total = 0.0;
        for (std::size_t i = 0; i < scores.size(); ++i)
            total += targets_[i].weight *
                     visit(rule.loss, [&](const auto& loss) { return loss.value(scores[i], targets_[i].target); });
        return total / static_cast<double>(rows_.size());
    }

    // What changed between two sets of predictions of the rows that are like any others, as a share of the spread of
    // the second.
    double difference(const std::vector<double>& before, const std::vector<double>& after) const {
        double changed = 0.0, spread = 0.0;
        for (std::size_t first = 0; first < after.size(); first += rows_.size()) {
            double sum = 0.0, squares = 0.0;
            for (std::size_t i = first; i < first + common_; ++i) {
                changed += (after[i] - before[i]) * (after[i] - before[i]);
                sum += after[i];
                squares += after[i] * after[i];
            }
            // where all predictions are alike, their size is what there is to compare with
            spread += std::max(squares - sum * sum / static_cast<double>(common_), 1e-4 * squares);
        }
        return changed > 0.0 || !(changed <= 0.0) ? std::sqrt(changed / spread) : 0.0;
    }

    // The mean square of what such rows' predictions of class c differ by.
    double mean_square(const std::vector<double>& before, const std::vector<double>& after, std::size_t c) const {
        double sum = 0.0;
        for (std::size_t i = c * rows_.size(); i < c * rows_.size() + common_; ++i)
            sum += (after[i] - before[i]) * (after[i] - before[i]);
        return sum / static_cast<double>(common_);
    }

    const std::vector<std::int64_t>& features() const { return features_; }  // ascending
    std::size_t entries() const { return place_.size(); }

private:
    static constexpr std::int64_t most_entries = 8192;

    // Where lengths differ much, the longest rows are the first that a wrong merge does harm to.
    void add_longest(const Rows& rows, const std::vector<std::int64_t>& sample) {
        std::vector<std::pair<double, std::int64_t>> lengths;
        for (const std::int64_t row : sample) {
            double square = 0.0;
            for_entries(rows, row,
                        [&](std::int64_t, V x) { square += static_cast<double>(x) * static_cast<double>(x); });
            lengths.emplace_back(-square, row);
        }
        std::sort(lengths.begin(), lengths.end());
        for (std::size_t i = 0; i < std::min(lengths.size(), common_ / 4); ++i) rows_.push_back(lengths[i].second);
    }

    std::vector<std::int64_t> rows_;
    std::size_t common_ = 0;  // of these, the first, spread over the data; then come the longest
    std::vector<std::int64_t> features_;
    std::vector<std::size_t> start_, place_;
    std::vector<V> value_;
    std::vector<Seen> targets_;                    // class by class
    std::vector<std::vector<double>> directions_;  // Qᵀx, by class
};

}  // namespace symsgd
