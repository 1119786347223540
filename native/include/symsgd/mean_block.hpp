// What a block does to a change d of where it began, if it is like the mean of all blocks:
//
//     M d = K exp(−aH) d = K (Q e^{−aΛ} Qᵀ d + e^{−ac} ∘ (d − QQᵀ d)),     K = diag(keep, …, keep, 1)
//
// a = Σ step sizes of the block, keep = Π(1 − step × l2), which does not act on the intercept; H ≈ QΛQᵀ + the rest c of
// its diagonal (spectrum.hpp). Changes are given for the *head*: the features that Q has rows of, then the intercept
// (counted as b / √κ), then any others. For a feature outside of the head M is a number, keep × factor.
#pragma once

#include "symsgd/spectrum.hpp"

namespace symsgd {

// a and keep of a block.
struct BlockSteps {
    double sum = 0.0, keep = 1.0;
};

template <class V>
class MeanBlock {
public:
    // `places` features of the head have rows in Q; place `places` is the intercept, and its feature the number of
    // features. What was computed last serves on while a stays within a fiftieth of what it was. Returns whether
    // factors have changed.
    bool renew(const Spectrum<V>& spectrum, std::int64_t estimate, const std::vector<std::int64_t>& head,
               std::int64_t places, const BlockSteps& steps);

    // d becomes M d.
    void apply(const Spectrum<V>& spectrum, const CurvatureKernels<V>& kernels, std::vector<V>& d);

    // e^{−ac} of a feature outside of the head, and keep.
    V factor(const Spectrum<V>& spectrum, std::int64_t feature) const;
    V keep() const { return static_cast<V>(steps_.keep); }

private:
    std::int64_t places_ = 0, estimate_ = -1;
    BlockSteps steps_;
    double factor_steps_ = -1.0;
    std::vector<V> factors_;              // of the head
    std::vector<V> sharp_, u_, product_;  // e^{−aΛ}; Qᵀ d and e^{−aΛ} Qᵀ d; Q times both
};

}  // namespace symsgd
