// A place to train a block from a model and to keep what came of it until it is merged.
#pragma once

#include <cmath>
#include <optional>

#include "local_rows.hpp"
#include "symsgd/merge.hpp"

namespace symsgd {

constexpr std::int64_t drift_sample = 32;  // rows of a block that soft curvature looks at

// Σ (x·d + d_b)² over every so many of a block's `rows`, added to `squares` by class; returns how many rows that was.
// `entries(i, f)` calls f(replica's feature, value) for row i.
template <class V, class Entries>
std::int64_t sample_drift(std::int64_t rows, int classes, const Replica<V>& replica, double* squares,
                          const Entries& entries) {
    const std::int64_t every = (rows + drift_sample - 1) / drift_sample;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < rows; i += every, ++count) {
        for (int c = 0; c < classes; ++c) {
            double sum = replica.moved_intercepts[static_cast<std::size_t>(c)];
            entries(i, [&](std::int64_t feature, V value) {
                sum += static_cast<double>(value) *
                       static_cast<double>(replica.moved[static_cast<std::size_t>(feature * classes + c)]);
            });
            squares[c] += sum * sum;
        }
    }
    return count;
}

template <class Rows>
class Seat {
    using V = typename Rows::Value;

public:
    Seat(const Workspace<Rows>& work, ReplicaShape shape)
        : replica(shape.whole ? work.rows.features : std::min<std::int64_t>(work.rows.features, 4096),
                  work.model.classes(), work.spec.rule, work.model.needs(), shape),
          features_(work.rows.features) {
        if (!shape.whole) local_.emplace(work.rows);
    }

    // Copies the block's rows where only what they have is replicated. Needs nothing of the model. `order` goes on to
    // `known`: what comes next is fetched while the block ends.
    void prepare(const Workspace<Rows>& work, const std::int64_t* order, std::int64_t rows, std::int64_t known) {
        order_ = order;
        rows_ = rows;
        known_ = known;
        if constexpr (Rows::sparse) {
            if (!local_) return;
            local_->copy(order, rows, replica.observed);
            if (replica.count() > replica.room()) grow(work);
            if (static_cast<std::int64_t>(turns_.size()) < rows) {
                turns_.resize(static_cast<std::size_t>(rows));
                std::iota(turns_.begin(), turns_.end(), std::int64_t{0});
            }
        }
    }

    // Runs the block from where the replica stands. False if `stopped` said so on the way.
    template <class Stopped>
    bool train(const Workspace<Rows>& work, const Rule& rule, const Stopped& stopped) {
        ModelView<V> model = replica.view();
        for (int c = 0; c < model.classes; ++c) {
            model.lanes[c].loss = 0.0;
            model.lanes[c].likelihood = 1.0;
        }
        const std::int64_t slice = slice_rows(work.rows, model.stride);
        for (std::int64_t at = 0; at < rows_; at += slice) {
            if (stopped()) return false;
            const auto count = static_cast<std::size_t>(std::min(slice, rows_ - at));
            if (!train_local(work, rule, model, at, count)) {
                const Block block =
                    slice_.read(work, order_ + at, order_ + at, count, static_cast<std::size_t>(known_ - at));
                work.kernels.template of_rows<Rows>().learn(work.rows, block, rule, model);
            }
        }
        work.kernels.template of_models<V>().finish_pass(rule, model);
        return true;
    }

    // Σ (x·d)² over a sample of the block's rows, d the movement last measured, and how many rows that was.
    std::int64_t measure_drift(const Workspace<Rows>& work, double* squares) const {
        return sample_drift(rows_, work.model.classes(), replica, squares,
                            [&](std::int64_t i, auto&& f) { for_entries(work.rows, i, f); });
    }

    std::int64_t rows() const { return rows_; }

    Replica<V> replica;

private:
    void grow(const Workspace<Rows>& work) {
        std::vector<std::int64_t> observed = std::move(replica.observed);
        const auto count = static_cast<std::int64_t>(observed.size());
        replica = Replica<V>(std::min(features_, count + count / 2), work.model.classes(), work.spec.rule,
                             work.model.needs(), replica.shape());
        replica.observed = std::move(observed);
    }

    bool train_local(const Workspace<Rows>& work, const Rule& rule, ModelView<V>& model, std::int64_t at,
                     std::size_t count) {
        if constexpr (Rows::sparse) {
            if (local_) {
                const Block block = slice_.read(work, order_ + at, turns_.data() + at, count, 0);
                work.kernels.template of_rows<SparseRows<V, std::int32_t>>().learn(local_->view(), block, rule, model);
                return true;
            }
        }
        return false;
    }

    // Calls f(replica's feature, value) for the entries of the block's row i.
    template <class F>
    void for_entries(const Rows& rows, std::int64_t i, F&& f) const {
        const std::int64_t row = order_[i];
        if constexpr (Rows::sparse) {
            if (local_) {
                const SparseRows<V, std::int32_t> local = local_->view();
                for (auto j = local.start[i]; j < local.start[i + 1]; ++j) f(local.index[j], local.value[j]);
            } else {
                for (auto j = rows.start[row]; j < rows.start[row + 1]; ++j) f(rows.index[j], rows.value[j]);
            }
        } else {
            for (std::int64_t j = 0; j < rows.features; ++j) f(j, rows.value[row * rows.features + j]);
        }
    }

    std::optional<LocalRows<Rows>> local_;
    std::int64_t features_;
    std::vector<std::int64_t> turns_;
    const std::int64_t* order_ = nullptr;
    std::int64_t rows_ = 0;
    std::int64_t known_ = 0;
    Slice slice_;
};

}  // namespace symsgd
