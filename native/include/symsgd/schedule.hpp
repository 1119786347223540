// Step sizes. t counts steps from 1.
#pragma once

#include <cstdint>

namespace symsgd {

enum class ScheduleKind : std::uint8_t {
    constant,             // what the class's lane holds; "adaptive" is this, with the caller lowering it
    optimal,              // 1 / (alpha (t0 + t − 1))
    invscaling,           // step_size / t^power
    passive_aggressive1,  // min(step_size, loss / |x|²)
    passive_aggressive2   // loss / (|x|² + 1 / (2 step_size))
};

struct Schedule {
    ScheduleKind kind = ScheduleKind::constant;
    double step_size = 0.01;
    double power = 0.25;
    double alpha = 1e-4;
    double t0 = 0.0;  // optimal: see optimal_start
};

}  // namespace symsgd
