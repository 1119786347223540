// Least squares: ℓ = ½ (p − y)².
#pragma once

#include "symsgd/losses/number.hpp"

namespace symsgd {

struct SquaredError {
    static constexpr bool bounded_gradient = false;

    double unused;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        return p - y;
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R, R) const {
        return all<R>(1);
    }

    [[gnu::always_inline]] double value(double p, double y) const { return 0.5 * (p - y) * (p - y); }
};

}  // namespace symsgd
