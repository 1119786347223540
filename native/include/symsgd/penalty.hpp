// Penalties. `l2` and `l1` are the strengths that reach the weights: alpha (1 − l1_ratio) and alpha l1_ratio.
#pragma once

#include <cstdint>

namespace symsgd {

enum class PenaltyKind : std::uint8_t {
    none,
    decay,     // L2: w ← max(0, 1 − step × l2) w before each step
    truncate,  // L1 and elastic net: cumulative truncation of the features of each row, after the step
    halves     // the paper's Lasso: w = w₊ − w₋, both kept ≥ 0
};

struct Penalty {
    PenaltyKind kind = PenaltyKind::none;
    double l2 = 0.0;
    double l1 = 0.0;
};

}  // namespace symsgd
