// How much sharper features are together than each for itself.
//
// Outside of Q the curvature is known feature by feature: c, what a feature's own rows do to its weight. Where features
// come together (columns that were one-hot, words of a phrase), rows do as much to it by the weights of the others. Of
// a movement v outside of Q the curvature takes vᵀHv = E[h (x·v)²], its diagonal Σ c v². Their ratio, for what one
// block has moved by more than another, is what c is multiplied by: one ratio for the features that Q has places for,
// and one for the rest. (2.0 to 2.7 and 1.7 to 1.9 on nycflights13_ctr39, 1.0 to 1.5 and 1.0 to 1.3 on imdb and the
// twins of RCV1, Criteo and URL.)
#pragma once

#include <array>

#include "curvature_sample.hpp"

namespace symsgd {

template <class Rows>
class Crowding {
    using V = typename Rows::Value;

public:
    void begin(std::int64_t features, int classes) {
        features_ = features;
        ratios_.assign(static_cast<std::size_t>(classes), {});
        apart_ = {};
    }

    // Of features that have a place in Q, and the intercept, or that have none.
    double of(int c, bool placed) const {
        return std::clamp(ratios_[static_cast<std::size_t>(c)][placed ? 0 : 1], 1.0, most);
    }

    // Called by every member of a crew. Of the first `reach` features change(i) is v, rest(i) is c, and placed(i) says
    // whether Q has a place for it; `intercept` is what the intercept moves predictions by, and `of_intercept` its part
    // of Σ c v². `rows` are none that v was learned from.
    template <class Change, class Rest, class Placed>
    void measure(Crew::Member& member, Workspace<Rows>& work, const std::vector<std::int64_t>& rows, std::int64_t reach,
                 int c, Change&& change, Rest&& rest, Placed&& placed, double intercept, double of_intercept) {
        member.alone([&] {
            if (apart_.size() == 0) apart_ = Array<V>(static_cast<std::size_t>(features_), Pages::as_they_come);
        });
        member.phase(parts, [&](std::int64_t part) {
            Two sums{};
            for (std::int64_t i = part * reach / parts; i < (part + 1) * reach / parts; ++i) {
                const double v = change(i);
                apart_[static_cast<std::size_t>(i)] = static_cast<V>(v);
                sums[placed(i) ? 0 : 1] += rest(i) * v * v;
            }
            diagonal_[part] = sums;
        });
        member.phase(
            parts,
            [&](std::int64_t part) {
                const auto count = static_cast<std::int64_t>(rows.size());
                seen_[part] = {};
                for (std::int64_t i = part * count / parts; i < (part + 1) * count / parts; ++i)
                    see(work, rows[static_cast<std::size_t>(i)], reach, c, placed, intercept, seen_[part]);
            },
            [&] {
                for (std::size_t kind = 0; kind < 2; ++kind) {
                    double by_rows = 0.0, by_features = kind == 0 ? of_intercept : 0.0;
                    for (std::int64_t part = 0; part < parts; ++part) {
                        by_rows += seen_[part][kind];
                        by_features += diagonal_[part][kind];
                    }
                    take(by_rows / static_cast<double>(rows.size()) / by_features,
                         ratios_[static_cast<std::size_t>(c)][kind]);
                }
            });
    }

    template <class State>
    void archive(State& state) {
        state(ratios_);
    }

private:
    using Two = std::array<double, 2>;  // of features with a place, and of those without

    // Adds weight × h (x·v)² of a row.
    template <class Placed>
    void see(Workspace<Rows>& work, std::int64_t row, std::int64_t reach, int c, const Placed& placed, double intercept,
             Two& to) const {
        const ModelView<V> model = work.model.view();
        const Lane& lane = model.lanes[c];
        const Seen seen = seen_by(work.spec.targets, row, c);
        const double p = score(work.rows, row, model.weights + c, model.stride) * lane.scale + lane.intercept;
        const double h = seen.weight * curvature_at(work.spec.rule, p, seen.target, 0.0, 0.0);
        Two moved{intercept, 0.0};
        for_entries(work.rows, row, [&](std::int64_t feature, V x) {
            if (feature < reach)
                moved[placed(feature) ? 0 : 1] +=
                    static_cast<double>(x) * static_cast<double>(apart_[static_cast<std::size_t>(feature)]);
        });
        for (std::size_t kind = 0; kind < 2; ++kind) to[kind] += h * moved[kind] * moved[kind];
    }

    // Few rows know it to a tenth or two: what was measured before counts as much as now.
    static void take(double ratio, double& own) {
        if (std::isfinite(ratio) && ratio > 0.0) own = own > 0.0 ? std::sqrt(own * ratio) : ratio;
    }

    static constexpr std::int64_t parts = 16;
    static constexpr double most = 8.0;

    std::int64_t features_ = 0;
    std::vector<Two> ratios_;  // by class; 0 before they are known
    Array<V> apart_;           // v
    Two diagonal_[parts]{}, seen_[parts]{};
};

}  // namespace symsgd
