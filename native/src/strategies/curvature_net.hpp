// A net under merges: the loss of a few rows before and after. A merge after which they lose twice as much has done
// harm, whatever was measured of it. Where the loss is next to nothing beside what it was at first, a multiple of it
// says little.
#pragma once

#include "curvature_sample.hpp"

namespace symsgd {

template <class Rows>
class CurvatureNet {
    using V = typename Rows::Value;

public:
    static constexpr std::int64_t most_rows = 128;

    // At least `fewest` rows, and more of short ones: few rows of little loss may lose twice as much by chance.
    void begin(Workspace<Rows>& work, const WrittenOrder& order, std::int64_t fewest = 16) {
        const std::int64_t mean = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        rows_ = spread_rows(order, std::clamp<std::int64_t>(entries / mean, fewest, most_rows), 5);
        accepted_ = first_ = loss(work, 0, 1);
    }

    // The model's loss on rows part, part + parts, … of the net, over the number of all of them.
    double loss(Workspace<Rows>& work, std::int64_t part, std::int64_t parts) const {
        const ModelView<V> model = work.model.view();
        double total = 0.0;
        for (std::int64_t i = part; i < static_cast<std::int64_t>(rows_.size()); i += parts) {
            fetch_ahead(work, rows_, static_cast<std::size_t>(i), static_cast<std::size_t>(parts));
            const std::int64_t row = rows_[static_cast<std::size_t>(i)];
            for (int c = 0; c < model.classes; ++c)
                total += lost(work, row, c, score(work.rows, row, model.weights + c, model.stride));
        }
        return total / static_cast<double>(rows_.size());
    }

    // The same of all rows, whose scores by the stored weights are scores[row × stride + class].
    double loss(Workspace<Rows>& work, const V* scores) const {
        const ModelView<V> model = work.model.view();
        double total = 0.0;
        for (std::size_t i = 0; i < rows_.size(); ++i)
            for (int c = 0; c < model.classes; ++c)
                total += lost(work, rows_[i], c, static_cast<double>(scores[static_cast<int>(i) * model.stride + c]));
        return total / static_cast<double>(rows_.size());
    }

    // A perceptron without weights loses nothing: there what it loses after its first rows is what others are held to.
    bool harmed(double loss) const {
        return first_ > 0.0 ? !(loss <= harm * accepted_ + 0.1 * first_) : !std::isfinite(loss);
    }
    void accept(double loss) {
        accepted_ = loss;
        if (!(first_ > 0.0)) first_ = loss;
    }
    const std::vector<std::int64_t>& rows() const { return rows_; }

    template <class State>
    void archive(State& state) {
        state(rows_, accepted_, first_);
    }

private:
    static double lost(Workspace<Rows>& work, std::int64_t row, int c, double score) {
        const Lane& lane = work.model.lanes()[static_cast<std::size_t>(c)];
        return loss_of(work, row, c, score * lane.scale + lane.intercept);
    }

    static constexpr std::int64_t entries = 8192;  // of its rows, about
    static constexpr double harm = 2.0;

    std::vector<std::int64_t> rows_;
    double accepted_ = 0.0, first_ = 0.0;
};

}  // namespace symsgd
