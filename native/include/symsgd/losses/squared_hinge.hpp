// Squared hinge: ℓ = max(0, 1 − yp)², y = ±1.
#pragma once

#include "symsgd/losses/number.hpp"

namespace symsgd {

struct SquaredHinge {
    static constexpr bool bounded_gradient = false;

    double unused;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        const R room = all<R>(1) - y * p;
        return room > R{} ? -2 * y * room : R{};
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R p, R y) const {
        return all<R>(1) - y * p > R{} ? all<R>(2) : R{};
    }

    [[gnu::always_inline]] double value(double p, double y) const {
        const double room = 1.0 - y * p;
        return room > 0 ? room * room : 0.0;
    }
};

}  // namespace symsgd
