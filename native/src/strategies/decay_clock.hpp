// L2 where threads share the weights.
//
// The stored weights are v = w / scale(t), and scale(t) = Π_{s < t} max(0, 1 − step_s × l2) depends on a row's place in
// the order alone. So every thread can know it beforehand: the decay is what it is in a sequential run, and nobody has
// to write a scale that everybody reads. What one thread adds at step s and another reads at step t has decayed from s
// to t, whenever that happens. A pass is cut where the scale would leave the range of the numbers.
#pragma once

#include <stdexcept>
#include <vector>

#include "common.hpp"

namespace symsgd {

class DecayClock {
public:
    // For `count` rows from step t on, in blocks of `block_rows`; lanes hold the step sizes.
    template <class V>
    void wind(const Rule& rule, const ModelView<V>& model, double t, std::int64_t count, std::int64_t block_rows,
              int threads) {
        classes_ = model.classes;
        const std::int64_t blocks = (count + block_rows - 1) / block_rows;
        scales_.assign(static_cast<std::size_t>((blocks + 1) * classes_), 1.0);
        cuts_.clear();
        if (rule.penalty.l2 != 0.0) {
            in_pieces(blocks, 64, threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t b = begin; b < end; ++b) {
                    const std::int64_t first = b * block_rows, rows = std::min(block_rows, count - first);
                    for (int c = 0; c < classes_; ++c)
                        scales_[at(b + 1, c)] =
                            product_of_decays(rule.schedule, model.lanes[c].step_size, rule.penalty.l2,
                                              t + static_cast<double>(first), rows);
                }
            });
            for (std::int64_t b = 0; b < blocks; ++b) {
                bool small = false;
                for (int c = 0; c < classes_; ++c) {
                    if (scales_[at(b + 1, c)] < smallest)
                        throw std::invalid_argument(
                            "step size × l2 is so large that weights vanish within a block, which threads that share "
                            "them cannot follow; a smaller step size or alpha, a smaller block, or a strategy in "
                            "rounds can");
                    scales_[at(b + 1, c)] *= begins(b) ? 1.0 : scales_[at(b, c)];
                    small |= scales_[at(b + 1, c)] < smallest;
                }
                if (small) cuts_.push_back(b + 1);
            }
        }
        if (cuts_.empty() || cuts_.back() != blocks) cuts_.push_back(blocks);
    }

    // The scale of class c when block b begins, counted from the last cut, and when it ends.
    double before(std::int64_t b, int c) const { return begins(b) ? 1.0 : scales_[at(b, c)]; }
    double after(std::int64_t b, int c) const { return scales_[at(b + 1, c)]; }

    // Where the pass is cut: the ends of stretches of blocks.
    const std::vector<std::int64_t>& cuts() const { return cuts_; }

private:
    static constexpr double smallest = 1e-12;

    bool begins(std::int64_t b) const { return b == 0 || std::binary_search(cuts_.begin(), cuts_.end(), b); }
    std::size_t at(std::int64_t b, int c) const { return static_cast<std::size_t>(b * classes_ + c); }

    int classes_ = 1;
    std::vector<double> scales_;
    std::vector<std::int64_t> cuts_;
};

// Makes the weights of a model true ones: every scale becomes 1.
template <class V>
void fold_scales(ModelView<V> model, int threads) {
    in_pieces(model.features, 1 << 14, threads, [&](std::int64_t begin, std::int64_t end) {
        for (int c = 0; c < model.classes; ++c) {
            const V scale = static_cast<V>(model.lanes[c].scale);
            if (scale == V{1}) continue;
            for (std::int64_t i = begin; i < end; ++i) model.weights[i * model.stride + c] *= scale;
        }
    });
    for (int c = 0; c < model.classes; ++c) model.lanes[c].scale = model.lanes[c].inverse = 1.0;
}

}  // namespace symsgd
