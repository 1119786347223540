// Support vector regression: ℓ = max(0, |p − y| − ε). h = 0.
#pragma once

#include <cmath>

#include "symsgd/losses/number.hpp"

namespace symsgd {

struct EpsilonInsensitive {
    static constexpr bool bounded_gradient = true;
    static constexpr bool jumps = true;

    double epsilon;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        const R above = p - y > all<R>(epsilon) ? all<R>(1) : R{};
        return y - p > all<R>(epsilon) ? all<R>(-1) : above;
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R, R) const {
        return R{};
    }

    [[gnu::always_inline]] double value(double p, double y) const { return std::fmax(0.0, std::fabs(p - y) - epsilon); }
};

}  // namespace symsgd
