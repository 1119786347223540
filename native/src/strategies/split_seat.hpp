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
    // `sorted` has all rows, or none: then a block's are copied when it is prepared.
    SplitSeat(const Workspace<Rows>& work, const Frequent& frequent, const SplitRows<V, I>* sorted, ReplicaShape shape)
        : replica(frequent.count(), work.model.classes(), work.spec.rule, {}, shape),
          frequent_(frequent),
          copies_(sorted == nullptr) {
        if (sorted != nullptr) sorted_ = *sorted;
    }

    void prepare(const Workspace<Rows>& work, const std::int64_t* order, std::int64_t rows, std::int64_t known) {
        order_ = order;
        rows_ = rows;
        known_ = known;
        places_ = order;
        if (!copies_) return;
        block_.copy(work.rows, order, rows, frequent_, stride(work), 1);
        sorted_ = block_.view();
        known_ = rows;
        while (static_cast<std::int64_t>(turns_.size()) < rows)
            turns_.push_back(static_cast<std::int64_t>(turns_.size()));
        places_ = turns_.data();
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
                slice_.read(work, order_ + at, places_ + at, count, static_cast<std::size_t>(known_ - at));
            work.kernels.template of_rows<Rows>().learn_split(sorted_, block, rule, model);
        }
        work.kernels.template of_models<V>().finish_pass(rule, model);
        return true;
    }

    std::int64_t measure_drift(const Workspace<Rows>& work, double* squares) const {
        const auto numbers = static_cast<I>(stride(work));
        return sample_drift(rows_, work.model.classes(), replica, squares, [&](std::int64_t i, auto&& f) {
            const I* bounds = sorted_.start + 2 * places_[i];
            for (I j = bounds[0]; j < bounds[1]; ++j) f(sorted_.index[j] / numbers, sorted_.value[j]);
        });
    }

    std::int64_t rows() const { return rows_; }

    Replica<V> replica;

private:
    int stride(const Workspace<Rows>& work) const { return stride_for(work.model.classes(), replica.needs()); }

    const Frequent& frequent_;
    bool copies_;
    SortedRows<V, I> block_;
    SplitRows<V, I> sorted_{};
    std::vector<std::int64_t> turns_;       // 0, 1, 2, …
    const std::int64_t* order_ = nullptr;   // the block's rows in the data,
    const std::int64_t* places_ = nullptr;  // and among those that are sorted
    std::int64_t rows_ = 0;
    std::int64_t known_ = 0;
    Slice slice_;
};

}  // namespace symsgd
