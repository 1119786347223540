// Logistic regression: ℓ = log(1 + e^{−yp}), g = −y σ(−yp), h = σ(p) σ(−p), with y = ±1.
#pragma once

#include <cmath>

#include "symsgd/losses/exponential.hpp"

namespace symsgd {

struct LogLoss {
    static constexpr bool bounded_gradient = true;

    double unused;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        R likelihood;
        return gradient(p, y, likelihood);
    }

    // With σ(yp), whose −log is the value, from the same exponential and the same division.
    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y, R& likelihood) const {
        const R e = exponential(y * p);
        const R g = -y / (all<R>(1) + e);
        likelihood = e * -(y * g);
        return g;
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R p, R) const {
        const R e = exponential(p);
        const R f = all<R>(1) + e;
        return e / f / f;  // f² may be out of range
    }

    // The same from the gradient, which has the exponential already: σ(−yp) (1 − σ(−yp)).
    template <class R>
    [[gnu::always_inline]] R curvature_by_gradient(R g, R y) const {
        const R sigma = -(y * g);
        return sigma - sigma * sigma;
    }

    // The exponential is held within the range of R; where yp is less, the value is −yp to the last bit.
    static constexpr double likelihood_holds_above = -80.0;

    [[gnu::always_inline]] double value(double p, double y) const {
        const double z = y * p;
        return z > 0 ? std::log1p(std::exp(-z)) : std::log1p(std::exp(z)) - z;
    }
};

}  // namespace symsgd
