// Modified Huber (Zhang 2004): ℓ = max(0, 1 − yp)² for yp ≥ −1 and −4yp below, y = ±1.
#pragma once

#include "symsgd/losses/number.hpp"

namespace symsgd {

struct ModifiedHuber {
    static constexpr bool bounded_gradient = true;

    double unused;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        const R z = y * p;
        const R inside = z >= all<R>(1) ? R{} : -2 * y * (all<R>(1) - z);
        return z >= all<R>(-1) ? inside : -4 * y;
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R p, R y) const {
        const R z = y * p;
        const R inside = z >= all<R>(1) ? R{} : all<R>(2);
        return z >= all<R>(-1) ? inside : R{};
    }

    [[gnu::always_inline]] double value(double p, double y) const {
        const double z = y * p;
        return z >= 1 ? 0.0 : z >= -1 ? (1 - z) * (1 - z) : -4 * z;
    }
};

}  // namespace symsgd
