// Features shared out among threads: slices of dense rows, as they lie in memory.
#pragma once

#include "direction_rows.hpp"

namespace symsgd {

template <class Rows>
class FeatureSlices {
    using V = typename Rows::Value;

public:
    // A slice for each thread whose rows are long enough. The first one is shorter: its thread has other
    // work to do.
    void cut(Workspace<Rows>& work) {
        const ModelView<V> view = work.model.view();
        features_ = view.features;
        stride_ = view.stride;
        weights_ = view.weights;
        lines_ = (features_ + per_line - 1) / per_line;
        count_ = static_cast<int>(std::min<std::int64_t>(work.spec.strategy.threads, lines_ / least_lines));
        const auto weights = static_cast<std::size_t>(features_ * stride_);
        if (count_ > 1 && saved_.size() != weights) saved_ = Array<V>(weights);
    }

    int count() const { return count_; }

    std::int64_t begin(int slice) const {
        if (slice == 0) return 0;
        const std::int64_t line = std::max<std::int64_t>(0, slice * (lines_ + spared) / count_ - spared);
        return std::min(features_, line * per_line);
    }

    // What directions see of the rows, all of which lie as they are used.
    void prepare(Crew::Member& member, Workspace<Rows>& work, DirectionRows<Rows>& directions) {
        if (!directions.seen()) directions.see_all(member, work);
    }

    // The weights are the model's own.
    void load(Workspace<Rows>&, int) {}
    void store(Workspace<Rows>&, int) {}

    void save(Workspace<Rows>&, int slice) {
        std::copy(weights_ + begin(slice) * stride_, weights_ + begin(slice + 1) * stride_,
                  saved_.data() + begin(slice) * stride_);
    }
    void restore(Workspace<Rows>&, int slice) {
        std::copy(saved_.data() + begin(slice) * stride_, saved_.data() + begin(slice + 1) * stride_,
                  weights_ + begin(slice) * stride_);
    }

    // Rows whose features of a slice take up so many bytes.
    std::int64_t rows_of(std::int64_t bytes) const { return bytes / ((lines_ + spared) / count_ * line_bytes); }

    // out[i × stride + class] = x·w over the slice, of `rows` rows and of what fills them up to a multiple of 16.
    void score(Workspace<Rows>& work, int slice, const std::int64_t* order, std::int64_t rows, V* out) const {
        const GramKernels<V>& kernels = work.kernels.template of_gram<V>();
        const V *now[at_once], *later[at_once];
        find(work, order, rows, 0, now);
        for (std::int64_t i = 0; i < rows; i += at_once) {
            find(work, order, rows, i + at_once, later);
            kernels.score(now, later, at_once, begin(slice), begin(slice + 1), weights_, stride_, out + i * stride_);
            std::copy_n(later, at_once, now);
        }
    }

    // w ← keep × w + Σ steps_i x_i, of the slice; steps of what fills rows up are 0. `keep` is one a class; null: 1.
    void move(Workspace<Rows>& work, int slice, const std::int64_t* order, std::int64_t rows, const V* steps,
              const V* keep) const {
        const GramKernels<V>& kernels = work.kernels.template of_gram<V>();
        const V* now[at_once];
        for (std::int64_t i = 0; i < rows; i += at_once) {
            find(work, order, rows, i, now);
            kernels.move(now, at_once, begin(slice), begin(slice + 1), steps + i * stride_, i == 0 ? keep : nullptr,
                         weights_, stride_);
        }
    }

private:
    static constexpr std::int64_t line_bytes = 64, per_line = line_bytes / static_cast<std::int64_t>(sizeof(V));
    static constexpr std::int64_t least_lines = 4;
    static constexpr std::int64_t spared = 128 / per_line;  // of the first slice, for the chain
    static constexpr int at_once = 16;

    // Where rows [begin, begin + 16) of the order lie; the last row stands for those behind it.
    static void find(Workspace<Rows>& work, const std::int64_t* order, std::int64_t rows, std::int64_t begin,
                     const V** out) {
        for (std::int64_t i = 0; i < at_once; ++i)
            out[i] = work.rows.value + order[std::min(begin + i, rows - 1)] * work.rows.features;
    }

    std::int64_t features_ = 0, lines_ = 0;
    int stride_ = 1, count_ = 0;
    V* weights_ = nullptr;
    Array<V> saved_;
};

}  // namespace symsgd
