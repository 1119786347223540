// How far the predictions of two models are apart, as a share of how much predictions differ at all, over a probe of
// the rows: what errors of merges are measured by.
#pragma once

#include "curvature_sample.hpp"

namespace symsgd {

template <class Rows>
class PredictionError {
    using V = typename Rows::Value;

public:
    static constexpr std::int64_t parts = 16;  // of the probe, that are compared side by side

    void begin(const Rows& rows, const WrittenOrder& order) {
        const std::int64_t mean = 1 + entries_of(rows) / std::max<std::int64_t>(1, rows.rows);
        probe_ = spread_rows(order, std::clamp<std::int64_t>(most_entries / mean, fewest_rows, most_rows), 3);
        compared_.resize(static_cast<std::size_t>(parts));
    }

    const std::vector<std::int64_t>& probe() const { return probe_; }

    // A part of the probe: `other` against `model`, by the first `reach` features; all of them count for the spread.
    // lost(row, class, prediction) is the loss, and seen(row, class, change) is called with what predictions change by.
    template <class Lost, class Seen>
    void compare(const Rows& rows, const ModelView<V>& model, const ModelView<V>& other, std::int64_t reach,
                 std::int64_t part, Lost&& lost, Seen&& seen) {
        compare(
            rows, model, reach, part,
            [&](int c) {
                return [&, by = other.lanes[c].scale, own_by = model.lanes[c].scale](std::int64_t at) {
                    return static_cast<double>(other.weights[at]) * by -
                           static_cast<double>(model.weights[at]) * own_by;
                };
            },
            [&](int c) { return other.lanes[c].intercept - model.lanes[c].intercept; }, lost, seen);
    }

    // The same of any change: changes(c)(at) is that of the weight at a place of the model, intercept_change(c) that
    // of the intercept.
    template <class Changes, class InterceptChange>
    void compare(const Rows& rows, const ModelView<V>& model, std::int64_t reach, std::int64_t part, Changes&& changes,
                 InterceptChange&& intercept_change) {
        compare(
            rows, model, reach, part, changes, intercept_change, [](std::int64_t, int, double) { return 0.0; },
            [](std::int64_t, int, double) {});
    }

    template <class Changes, class InterceptChange, class Lost, class Seen>
    void compare(const Rows& rows, const ModelView<V>& model, std::int64_t reach, std::int64_t part, Changes&& changes,
                 InterceptChange&& intercept_change, Lost&& lost, Seen&& seen) {
        std::vector<Sums>& compared = compared_[static_cast<std::size_t>(part)];
        compared.assign(static_cast<std::size_t>(model.classes), {});
        for (int c = 0; c < model.classes; ++c) {
            const auto change = changes(c);
            for (auto i = static_cast<std::size_t>(part); i < probe_.size(); i += static_cast<std::size_t>(parts)) {
                double prediction = 0.0, changed = 0.0;
                for_entries(rows, probe_[i], [&](std::int64_t feature, V x) {
                    const std::int64_t at = feature * model.stride + c;
                    prediction += static_cast<double>(x) * static_cast<double>(model.weights[at]);
                    if (feature < reach) changed += static_cast<double>(x) * change(at);
                });
                const double p = prediction * model.lanes[c].scale + model.lanes[c].intercept,
                             change = changed + intercept_change(c);
                const double before = lost(probe_[i], c, p);
                compared[static_cast<std::size_t>(c)].add(
                    {change * change, p, p * p, before, lost(probe_[i], c, p + change) - before});
                seen(probe_[i], c, change);
            }
        }
    }

    // Once all parts are compared.
    double compared() const {
        double changed = 0.0, spread = 0.0;
        for (std::size_t c = 0; c < compared_.front().size(); ++c) {
            const Sums all = all_of(c);
            changed += all.changed;
            spread += spread_of(all);
        }
        return share(changed, spread);
    }

    // By how much the loss of the probe is another, as a share of it.
    double loss_changed() const {
        double before = 0.0, change = 0.0;
        for (std::size_t c = 0; c < compared_.front().size(); ++c) {
            const Sums all = all_of(c);
            before += all.lost;
            change += all.lost_more;
        }
        return before > 0.0 ? change / before : 0.0;
    }

    // The same of what `predictions(row, class)` gives: a pair, before and now.
    template <class Predictions>
    double of(int classes, Predictions&& predictions) const {
        double changed = 0.0, spread = 0.0;
        for (int c = 0; c < classes; ++c) {
            Sums all;
            for (const std::int64_t row : probe_) {
                const auto [before, now] = predictions(row, c);
                all.add({(now - before) * (now - before), now, now * now});
            }
            changed += all.changed;
            spread += spread_of(all);
        }
        return share(changed, spread);
    }

    template <class State>
    void archive(State& state) {
        state(probe_);
    }

private:
    static constexpr std::int64_t most_rows = 256, fewest_rows = 64, most_entries = 65536;

    struct Sums {
        double changed = 0.0, predictions = 0.0, squares = 0.0;
        double lost = 0.0, lost_more = 0.0;

        void add(const Sums& more) {
            changed += more.changed;
            predictions += more.predictions;
            squares += more.squares;
            lost += more.lost;
            lost_more += more.lost_more;
        }
    };

    Sums all_of(std::size_t c) const {
        Sums all;
        for (const std::vector<Sums>& part : compared_) all.add(part[c]);
        return all;
    }

    // where all predictions are alike, their size is what there is to compare with
    double spread_of(const Sums& all) const {
        return std::max(all.squares - all.predictions * all.predictions / static_cast<double>(probe_.size()),
                        1e-4 * all.squares);
    }
    static double share(double changed, double spread) {
        return changed > 0.0 || !(changed <= 0.0) ? std::sqrt(changed / spread) : 0.0;
    }

    std::vector<std::int64_t> probe_;
    std::vector<std::vector<Sums>> compared_;  // by part and class
};

}  // namespace symsgd
