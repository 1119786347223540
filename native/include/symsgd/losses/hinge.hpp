// Hinge with a threshold: ℓ = max(0, threshold − yp), active where yp ≤ threshold (scikit-learn's side of the kink).
// Threshold 1 is the linear SVM, 0 the perceptron. h = 0.
#pragma once

#include "symsgd/losses/number.hpp"

namespace symsgd {

struct Hinge {
    static constexpr bool bounded_gradient = true;
    static constexpr bool jumps = true;

    double threshold;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        return y * p <= all<R>(threshold) ? -y : R{};
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R, R) const {
        return R{};
    }

    [[gnu::always_inline]] double value(double p, double y) const {
        const double z = y * p;
        return z <= threshold ? threshold - z : 0.0;
    }
};

}  // namespace symsgd
