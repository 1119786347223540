// The head of a model: the weights that are merged together, as one vector a class (mean_block.hpp). These are the
// features that Q has rows of, the intercept, and the features of a few rows, the *net*, by whose loss a merge is
// judged before anybody sees it. On data of up to some thousand features the head is all there is.
#pragma once

#include "curvature_sample.hpp"

namespace symsgd {

template <class V>
struct HeadWeights {
    std::vector<V> weights;  // true ones; what is at the intercept's place is not used
    double intercept = 0.0;
};

template <class V>
using HeadModel = std::vector<HeadWeights<V>>;  // by class

template <class Rows>
class Head {
    using V = typename Rows::Value;

public:
    void choose(const Workspace<Rows>& work, const CurvatureSampler<Rows>& sampler, const WrittenOrder& order) {
        features_ = sampler.features();
        places_ = static_cast<std::int64_t>(features_.size());
        features_.push_back(work.rows.features);
        const std::int64_t mean = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        net_ = spread_rows(order, std::clamp<std::int64_t>(net_entries / mean, 16, 128), 5);
        common_ = net_.size();
        add_longest(work.rows, spread_rows(order, std::clamp<std::int64_t>(50 * net_entries / mean, 64, 2048), 7));
        start_.assign(1, 0);
        place_.clear();
        value_.clear();
        std::vector<std::pair<std::int64_t, std::int32_t>> others;  // features that only the net has, and their places
        for (const std::int64_t row : net_) {
            for_entries(work.rows, row, [&](std::int64_t feature, V x) {
                if (x == V{}) return;
                place_.push_back(place_of(feature, others));
                value_.push_back(x);
            });
            start_.push_back(place_.size());
        }
        targets_.clear();
        for (int c = 0; c < work.model.classes(); ++c)
            for (const std::int64_t row : net_) targets_.push_back(seen_by(work.spec.targets, row, c));
    }

    std::size_t size() const { return features_.size(); }
    std::int64_t places() const { return places_; }
    const std::vector<std::int64_t>& features() const { return features_; }
    std::size_t net_rows() const { return net_.size(); }
    std::size_t common_rows() const { return common_; }  // of the net's, the first, which are like any others
    std::size_t entries() const { return place_.size(); }

    void read(const ModelView<V>& model, HeadModel<V>& to) const {
        to.resize(static_cast<std::size_t>(model.classes));
        for (int c = 0; c < model.classes; ++c) {
            HeadWeights<V>& head = to[static_cast<std::size_t>(c)];
            head.weights.resize(size());
            head.intercept = model.lanes[c].intercept;
            const V scale = static_cast<V>(model.lanes[c].scale);
            for (std::size_t k = 0; k < size(); ++k)
                if (!is_intercept(k)) head.weights[k] = model.weights[features_[k] * model.stride + c] * scale;
        }
    }

    // Into a model whose scale is 1.
    void write(const HeadModel<V>& from, ModelView<V> model) const {
        for (int c = 0; c < model.classes; ++c) {
            const HeadWeights<V>& head = from[static_cast<std::size_t>(c)];
            model.lanes[c].intercept = head.intercept;
            for (std::size_t k = 0; k < size(); ++k)
                if (!is_intercept(k)) model.weights[features_[k] * model.stride + c] = head.weights[k];
        }
    }

    // The net's predictions, class by class.
    void predict(const HeadModel<V>& model, std::vector<double>& scores) const {
        scores.clear();
        for (const HeadWeights<V>& head : model) {
            for (std::size_t i = 0; i < net_.size(); ++i) {
                double sum = head.intercept;
                for (std::size_t j = start_[i]; j < start_[i + 1]; ++j)
                    sum += static_cast<double>(head.weights[static_cast<std::size_t>(place_[j])]) *
                           static_cast<double>(value_[j]);
                scores.push_back(sum);
            }
        }
    }

    double loss(const Rule& rule, const std::vector<double>& scores) const {
        double total = 0.0;
        for (std::size_t i = 0; i < scores.size(); ++i)
            total += targets_[i].weight *
                     visit(rule.loss, [&](const auto& loss) { return loss.value(scores[i], targets_[i].target); });
        return total / static_cast<double>(net_.size());
    }

private:
    static constexpr std::int64_t net_entries = 8192;

    bool is_intercept(std::size_t k) const { return static_cast<std::int64_t>(k) == places_; }

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
        for (std::size_t i = 0; i < std::min(lengths.size(), common_ / 4); ++i) net_.push_back(lengths[i].second);
    }

    std::int32_t place_of(std::int64_t feature, std::vector<std::pair<std::int64_t, std::int32_t>>& others) {
        const auto end = features_.begin() + places_;
        const auto found = std::lower_bound(features_.begin(), end, feature);
        if (found != end && *found == feature) return static_cast<std::int32_t>(found - features_.begin());
        const auto other = std::lower_bound(others.begin(), others.end(), std::pair{feature, std::int32_t{0}});
        if (other != others.end() && other->first == feature) return other->second;
        const auto place = static_cast<std::int32_t>(features_.size());
        others.insert(other, {feature, place});
        features_.push_back(feature);
        return place;
    }

    std::vector<std::int64_t> features_;  // those of Q, then the number of features for the intercept, then the others
    std::int64_t places_ = 0;
    std::vector<std::int64_t> net_;
    std::size_t common_ = 0;
    std::vector<std::size_t> start_;
    std::vector<std::int32_t> place_;
    std::vector<V> value_;
    std::vector<Seen> targets_;  // of the net, class by class
};

}  // namespace symsgd
