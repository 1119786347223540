#include "symsgd/mean_block.hpp"

#include <algorithm>
#include <cmath>

namespace symsgd {

template <class V>
V MeanBlock<V>::factor(const Spectrum<V>& spectrum, std::int64_t feature) const {
    const double rest = spectrum.rest(feature);
    return rest > 0.0 ? static_cast<V>(std::exp(-factor_steps_ * rest)) : V{1};
}

template <class V>
bool MeanBlock<V>::renew(const Spectrum<V>& spectrum, std::int64_t estimate, const std::vector<std::int64_t>& head,
                         std::int64_t places, const BlockSteps& steps) {
    places_ = places;
    steps_ = steps;
    const auto n = static_cast<std::size_t>(spectrum.columns());
    sharp_.assign(n, V{1});
    for (int j = 0; j < spectrum.rank(); ++j)
        sharp_[static_cast<std::size_t>(j)] = static_cast<V>(std::exp(-steps.sum * spectrum.lambda(j)));
    if (estimate == estimate_ && std::abs(steps.sum - factor_steps_) <= 0.02 * factor_steps_) return false;
    estimate_ = estimate;
    factor_steps_ = steps.sum;
    factors_.resize(head.size());
    for (std::size_t k = 0; k < head.size(); ++k) factors_[k] = factor(spectrum, head[k]);
    return true;
}

template <class V>
void MeanBlock<V>::apply(const Spectrum<V>& spectrum, const CurvatureKernels<V>& kernels, std::vector<V>& d) {
    const int n = spectrum.columns();
    u_.assign(2 * static_cast<std::size_t>(n), V{});
    product_.resize(2 * static_cast<std::size_t>(places_ + 1));
    kernels.add_products(spectrum.q(0), places_ + 1, n, d.data(), 1, u_.data());
    for (std::size_t j = 0; j < sharp_.size(); ++j) u_[sharp_.size() + j] = sharp_[j] * u_[j];
    kernels.multiply_rows(spectrum.q(0), places_ + 1, n, u_.data(), 2, product_.data());
    const V keep = this->keep();
    const auto places = static_cast<std::size_t>(places_);
    for (std::size_t k = 0; k <= places; ++k)
        d[k] = (factors_[k] * (d[k] - product_[2 * k]) + product_[2 * k + 1]) * (k < places ? keep : V{1});
    for (std::size_t k = places + 1; k < d.size(); ++k) d[k] *= keep * factors_[k];
}

template class MeanBlock<float>;
template class MeanBlock<double>;

}  // namespace symsgd
