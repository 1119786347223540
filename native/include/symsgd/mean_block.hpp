// What a block does to a change d of where it began, if it is like the mean of all blocks:
//
//     M d = keep exp(−aH) d ≈ keep (Q e^{−aΛ} Qᵀ d + e^{−ac} ∘ (d − QQᵀ d))
//
// a = Σ step sizes of the block, keep = Π(1 − step × l2); H ≈ QΛQᵀ + the rest c of its diagonal (spectrum.hpp). Changes
// are split into pairs, d = Q u + v: then M multiplies every number of u and v by one of its own, and so changes can be
// merged number by number. (e^{−ac} ∘ v may have a part in Q; it is left in v, as in rounds.) L2 does not act on the
// intercept: its v is not multiplied by keep.
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
    // For a block with these steps, by the estimate of this number. What was computed last of v serves on while a stays
    // within a fiftieth of what it was.
    void renew(const Spectrum<V>& spectrum, std::int64_t estimate, std::int64_t features, const BlockSteps& steps);

    double keep() const { return steps_.keep; }
    double sharp(std::size_t j) const { return sharp_[j]; }  // e^{−aΛ}, of u_j
    const V* flat() const { return flat_.data(); }           // e^{−ac}, of v of each feature and of the intercept

private:
    std::int64_t estimate_ = -1;
    BlockSteps steps_;
    double flat_steps_ = -1.0;
    std::vector<double> sharp_;
    Array<V> flat_;
};

// Qᵀ d, and Q u, for the features that Q has rows of and the intercept (counted as b / √κ).
template <class V>
void to_directions(const Spectrum<V>& spectrum, const CurvatureKernels<V>& kernels, const std::vector<V>& d,
                   std::vector<double>& u);
template <class V>
void from_directions(const Spectrum<V>& spectrum, const CurvatureKernels<V>& kernels, const std::vector<double>& u,
                     std::vector<V>& d);

}  // namespace symsgd
