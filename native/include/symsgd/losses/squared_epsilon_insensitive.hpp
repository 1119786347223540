// ℓ = max(0, |p − y| − ε)².
#pragma once

#include <cmath>

#include "symsgd/losses/number.hpp"

namespace symsgd {

struct SquaredEpsilonInsensitive {
    static constexpr bool bounded_gradient = false;

    double epsilon;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        const R r = p - y;
        const R e = all<R>(epsilon);
        const R above = r > e ? 2 * (r - e) : R{};
        return r < -e ? 2 * (r + e) : above;
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R p, R y) const {
        const R r = p - y;
        const R size = r < R{} ? -r : r;
        return size > all<R>(epsilon) ? all<R>(2) : R{};
    }

    [[gnu::always_inline]] double value(double p, double y) const {
        const double beyond = std::fmax(0.0, std::fabs(p - y) - epsilon);
        return beyond * beyond;
    }
};

}  // namespace symsgd
