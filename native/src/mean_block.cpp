#include "symsgd/mean_block.hpp"

#include <algorithm>
#include <cmath>

namespace symsgd {

template <class V>
void MeanBlock<V>::renew(const Spectrum<V>& spectrum, std::int64_t estimate, std::int64_t features,
                         const BlockSteps& steps) {
    steps_ = steps;
    sharp_.assign(static_cast<std::size_t>(spectrum.columns()), 1.0);
    for (int j = 0; j < spectrum.rank(); ++j)
        sharp_[static_cast<std::size_t>(j)] = std::exp(-steps.sum * spectrum.lambda(j));
    if (estimate == estimate_ && std::abs(steps.sum - flat_steps_) <= 0.02 * flat_steps_) return;
    estimate_ = estimate;
    flat_steps_ = steps.sum;
    if (flat_.size() == 0) flat_ = Array<V>(static_cast<std::size_t>(features) + 1);
    for (std::int64_t i = 0; i <= features; ++i) {
        const double rest = spectrum.rest(i);
        flat_[static_cast<std::size_t>(i)] = rest > 0.0 ? static_cast<V>(std::exp(-steps.sum * rest)) : V{1};
    }
}

template <class V>
void to_directions(const Spectrum<V>& spectrum, const CurvatureKernels<V>& kernels, const std::vector<V>& d,
                   std::vector<double>& u) {
    std::vector<V> sums(static_cast<std::size_t>(spectrum.columns()));
    kernels.add_products(spectrum.q(0), static_cast<std::int64_t>(d.size()), spectrum.columns(), d.data(), 1,
                         sums.data());
    u.assign(sums.begin(), sums.end());
}

template <class V>
void from_directions(const Spectrum<V>& spectrum, const CurvatureKernels<V>& kernels, const std::vector<double>& u,
                     std::vector<V>& d) {
    const std::vector<V> column(u.begin(), u.end());
    kernels.multiply_rows(spectrum.q(0), static_cast<std::int64_t>(d.size()), spectrum.columns(), column.data(), 1,
                          d.data());
}

#define SYMSGD_MEAN_BLOCK(V)                                                                                  \
    template class MeanBlock<V>;                                                                              \
    template void to_directions(const Spectrum<V>&, const CurvatureKernels<V>&, const std::vector<V>&,        \
                                std::vector<double>&);                                                        \
    template void from_directions(const Spectrum<V>&, const CurvatureKernels<V>&, const std::vector<double>&, \
                                  std::vector<V>&);

SYMSGD_MEAN_BLOCK(float)
SYMSGD_MEAN_BLOCK(double)
#undef SYMSGD_MEAN_BLOCK

}  // namespace symsgd
