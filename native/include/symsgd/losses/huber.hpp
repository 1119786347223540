// Huber: ℓ = ½ r² for |r| ≤ ε and ε |r| − ½ ε² beyond, r = p − y.
#pragma once

#include <cmath>

#include "symsgd/losses/number.hpp"

namespace symsgd {

struct Huber {
    static constexpr bool bounded_gradient = true;

    double epsilon;

    template <class R>
    [[gnu::always_inline]] R gradient(R p, R y) const {
        const R r = p - y;
        const R e = all<R>(epsilon);
        const R low = r < -e ? -e : r;
        return low > e ? e : low;
    }

    template <class R>
    [[gnu::always_inline]] R curvature(R p, R y) const {
        const R r = p - y;
        const R size = r < R{} ? -r : r;
        return size <= all<R>(epsilon) ? all<R>(1) : R{};
    }

    [[gnu::always_inline]] double value(double p, double y) const {
        const double size = std::fabs(p - y);
        return size <= epsilon ? 0.5 * size * size : epsilon * (size - 0.5 * epsilon);
    }
};

}  // namespace symsgd
