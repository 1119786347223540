// Losses: ℓ(p, y) of the prediction p, its first derivative g and second derivative h in p.
//
// Each is a small header in losses/ and one line in SYMSGD_LOSSES below. `gradient` and `curvature` are written
// once for numbers and for vectors of numbers (R may be a vector of the compiler's), so they use arithmetic,
// comparisons and ?: alone. A loss may also give, with its gradient, the likelihood whose −log is its value: the
// loop then multiplies instead of taking a logarithm a row. `bounded_gradient` says that g needs no clipping, `jumps`
// that g is not continuous, so that h, being 0, tells nothing of how g changes. `curvature_by_gradient` is h at less
// cost.
#pragma once

#include <cmath>
#include <cstdint>

#include "symsgd/losses/epsilon_insensitive.hpp"
#include "symsgd/losses/hinge.hpp"
#include "symsgd/losses/huber.hpp"
#include "symsgd/losses/log_loss.hpp"
#include "symsgd/losses/modified_huber.hpp"
#include "symsgd/losses/squared_epsilon_insensitive.hpp"
#include "symsgd/losses/squared_error.hpp"
#include "symsgd/losses/squared_hinge.hpp"

namespace symsgd {

// name used by Python, type, value of its parameter where the name fixes it (NAN: the caller's)
#define SYMSGD_LOSSES(X)                            \
    X(log_loss, LogLoss, 0.0)                       \
    X(hinge, Hinge, 1.0)                            \
    X(perceptron, Hinge, 0.0)                       \
    X(squared_hinge, SquaredHinge, 0.0)             \
    X(modified_huber, ModifiedHuber, 0.0)           \
    X(squared_error, SquaredError, 0.0)             \
    X(huber, Huber, NAN)                            \
    X(epsilon_insensitive, EpsilonInsensitive, NAN) \
    X(squared_epsilon_insensitive, SquaredEpsilonInsensitive, NAN)

enum class LossKind : std::uint8_t {
#define SYMSGD_KIND(name, type, fixed) name,
    SYMSGD_LOSSES(SYMSGD_KIND)
#undef SYMSGD_KIND
};

struct Loss {
    LossKind kind = LossKind::log_loss;
    double parameter = 0.0;
};

// Calls f with the loss as its own type. The switch is taken once a row and always the same way.
template <class F>
[[gnu::always_inline]] inline auto visit(const Loss& loss, F&& f) {
    switch (loss.kind) {
#define SYMSGD_CASE(name, type, fixed) \
    case LossKind::name:               \
        return f(type{loss.parameter});
        SYMSGD_LOSSES(SYMSGD_CASE)
#undef SYMSGD_CASE
    }
    __builtin_unreachable();
}

inline bool gradient_jumps(const Loss& loss) {
    return visit(loss, []<class L>(const L&) { return requires { L::jumps; }; });
}

}  // namespace symsgd
