// Async-SymSGD's place to train a block (compare seat.hpp): the frequent features are a replica's, the rest is shared.
#pragma once

#include "seat.hpp"
#include "sorted_rows.hpp"

namespace symsgd {

template <class Rows>
class SplitSeat;

template <class V, class I>
class SplitSeat<SparseRows<V, I>> {
    using Rows = SparseRows<V, I>;

public:
    SplitSeat(const Workspace<Rows>& work, const SplitRows<V, I>& sorted, ReplicaShape shape)
        : replica(sorted.commons, work.model.classes(), work.spec.rule, {}, shape), sorted_(sorted) {}

    void prepare(const Workspace<Rows>&, const std::int64_t* order, std::int64_t rows, std::int64_t known) {
        order_ = order;
        rows_ = rows;
        known_ = known;
    }

    // `shared` has the rare weights; clock(c) is their scale when the block begins.
    template <class Clock, class Stopped>
    bool train(const Workspace<Rows>& work, const Rule& rule, ModelView<V> shared, const Clock& clock,
               const Stopped& stopped) {
        ModelView<V> model = replica.view();
        model.rare = shared.weights;
        model.rare_stride = shared.stride;
        for (int c = 0; c < model.classes; ++c) {
            Lane& lane = model.lanes[c];
            lane.loss = 0.0;
            lane.likelihood = 1.0;
            lane.rare = clock(c);  // the replica's own scale begins as 1
            lane.rare_inverse = 1.0 / lane.rare;
        }
        const std::int64_t slice = slice_rows(work.rows, model.stride);
        for (std::int64_t at = 0; at < rows_; at += slice) {
            if (stopped()) return false;
            const auto count = static_cast<std::size_t>(std::min(slice, rows_ - at));
            const Block block =
                slice_.read(work.spec.targets, order_ + at, order_ + at, count, static_cast<std::size_t>(known_ - at));
            work.kernels.template of_rows<Rows>().learn_split(sorted_, block, rule, model);
        }
        work.kernels.template of_models<V>().finish_pass(rule, model);
        return true;
    }

    std::int64_t measure_drift(const Workspace<Rows>& work, double* squares) const {
        const auto stride = static_cast<I>(stride_for(work.model.classes(), replica.needs()));
        return sample_drift(rows_, work.model.classes(), replica, squares, [&](std::int64_t i, auto&& f) {
            const I* bounds = sorted_.start + 2 * order_[i];
            for (I j = bounds[0]; j < bounds[1]; ++j) f(sorted_.index[j] / stride, sorted_.value[j]);
        });
    }

    std::int64_t rows() const { return rows_; }

    Replica<V> replica;

private:
    SplitRows<V, I> sorted_;
    const std::int64_t* order_ = nullptr;
    std::int64_t rows_ = 0;
    std::int64_t known_ = 0;
    Slice slice_;
};

}  // namespace symsgd
