// How sharp features are for a merge: what checks say of the factors that it has used.
//
// Outside of Q the curvature is known feature by feature: c, what a feature's own rows do to its weight. What a block
// does to what the blocks before it have learned is not that. Where features come together (columns that were one-hot,
// words of a phrase), rows do as much to a weight by the others; and what is learned along flat directions of many
// features together is forgotten less than each of them alone would forget. So c is multiplied by a number, one for the
// features that Q has places for and one for the rest, and every check says what it should have been: with r for what
// a row's prediction by the merged model is off by, and g for what it would change by with the logarithm of a number,
// those numbers are the least squares of r − g θ over the rows, of the last checks together.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "curvature_sample.hpp"

namespace symsgd {

template <class V>
class Calibration {
public:
    static constexpr std::size_t kinds = 2;  // of features: with a place in Q, the intercept among them, and without
    static std::size_t kind(bool placed) { return placed ? 0 : 1; }

    void begin(std::int64_t features, int classes) {
        features_ = features;
        of_class_.assign(static_cast<std::size_t>(classes), {});
        slopes_ = {};
        known_ = 0;
    }

    double of(int c, bool placed) const { return std::exp(of_class_[static_cast<std::size_t>(c)].log[kind(placed)]); }

    // Before the merge of a round that is checked: what the weights of the first `known` features will have.
    void make_room(std::int64_t known) {
        known_ = known;
        if (slopes_.size() == 0)
            slopes_ = Array<V>(static_cast<std::size_t>(features_) * of_class_.size(), Pages::as_they_come);
    }
    std::int64_t known() const { return known_; }

    // By how much the merged weight grows with θ of the feature's kind.
    V& slope(std::int64_t feature, int c) {
        return slopes_[static_cast<std::size_t>(feature) * of_class_.size() + static_cast<std::size_t>(c)];
    }
    void set_intercept(int c, double slope) { of_class_[static_cast<std::size_t>(c)].intercept = slope; }

    void begin_check(std::int64_t parts) {
        parts_.assign(static_cast<std::size_t>(parts), std::vector<Sums>(of_class_.size()));
    }
    // One thread for each part. A row of class c whose prediction should have been another by `off`.
    template <class Rows, class Placed>
    void see(const Rows& rows, std::int64_t row, int c, std::int64_t part, double off, Placed&& placed) {
        std::array<double, kinds> g{of_class_[static_cast<std::size_t>(c)].intercept, 0.0};
        for_entries(rows, row, [&](std::int64_t feature, V x) {
            if (feature < known_)
                g[kind(placed(feature))] += static_cast<double>(x) * static_cast<double>(slope(feature, c));
        });
        Sums& sums = parts_[static_cast<std::size_t>(part)][static_cast<std::size_t>(c)];
        sums.off += off * off;
        for (std::size_t k = 0; k < kinds; ++k) {
            sums.with[k] += g[k] * off;
            for (std::size_t l = 0; l < kinds; ++l) sums.of[k][l] += g[k] * g[l];
        }
    }

    // All parts have been seen.
    void learn() {
        for (std::size_t c = 0; c < of_class_.size(); ++c) {
            Sums all;
            for (const std::vector<Sums>& part : parts_) all.add(part[c]);
            OfClass next = of_class_[c];
            next.learn(all);
            if (next.is_finite()) of_class_[c] = next;  // rows that diverge have nothing to say
        }
    }

    template <class State>
    void archive(State& state) {
        state(of_class_);
    }

private:
    using Numbers = std::array<double, kinds>;

    struct Sums {
        double off = 0.0;
        Numbers with{};
        std::array<Numbers, kinds> of{};

        void add(const Sums& more) {
            off += more.off;
            for (std::size_t k = 0; k < kinds; ++k) {
                with[k] += more.with[k];
                for (std::size_t l = 0; l < kinds; ++l) of[k][l] += more.of[k][l];
            }
        }
    };

    struct OfClass {
        Numbers log{};                    // θ
        std::array<Numbers, kinds> of{};  // Σ g gᵀ of the last checks, each over its Σ r²
        Numbers with{};                   // Σ g (r + g θ)
        double intercept = 0.0;

        void learn(const Sums& check) {
            const double by = told / check.off;
            for (std::size_t k = 0; k < kinds; ++k) {
                double at = check.with[k];
                for (std::size_t l = 0; l < kinds; ++l) at += check.of[k][l] * log[l];
                with[k] = remembered * with[k] + by * at;
                for (std::size_t l = 0; l < kinds; ++l) of[k][l] = remembered * of[k][l] + by * check.of[k][l];
            }
            const double a = of[0][0] + 1.0, b = of[0][1], d = of[1][1] + 1.0, det = a * d - b * b;
            const Numbers best{(d * with[0] - b * with[1]) / det, (a * with[1] - b * with[0]) / det};
            for (std::size_t k = 0; k < kinds; ++k)
                log[k] = std::clamp(std::clamp(best[k], log[k] - step, log[k] + step), -most, most);
        }

        bool is_finite() const {
            return std::isfinite(log[0] + log[1] + with[0] + with[1] + of[0][0] + of[0][1] + of[1][1]);
        }
    };

    static constexpr double told = 8.0;          // rows that a check is worth: errors of rows are few directions'
    static constexpr double remembered = 0.875;  // from one check to the next
    static constexpr double step = 0.7, most = 2.1;

    std::int64_t features_ = 0, known_ = 0;
    std::vector<OfClass> of_class_;
    std::vector<std::vector<Sums>> parts_;  // by part and class
    Array<V> slopes_;
};

}  // namespace symsgd
