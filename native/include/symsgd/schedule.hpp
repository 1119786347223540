// Step sizes. t counts steps from 1.
#pragma once

#include <cstdint>

namespace symsgd {

enum class ScheduleKind : std::uint8_t {
    constant,             // what the class's lane holds; "adaptive" is this, with the caller lowering it
    optimal,              // 1 / (alpha (t0 + t − 1))
    invscaling,           // step_size / t^power
    linear,               // step_size × max(0, 1 − (t − first) / n_steps)
    passive_aggressive1,  // min(step_size, loss / |x|²)
    passive_aggressive2   // loss / (|x|² + 1 / (2 step_size))
};

struct Schedule {
    ScheduleKind kind = ScheduleKind::constant;
    double step_size = 0.01;
    double power = 0.25;
    double alpha = 1e-4;
    double t0 = 0.0;  // optimal: see optimal_start
    double first = 1.0;
    double n_steps = 1.0;
};

constexpr bool depends_on_time(const Schedule& schedule) {
    return schedule.kind == ScheduleKind::optimal || schedule.kind == ScheduleKind::invscaling ||
           schedule.kind == ScheduleKind::linear;
}

constexpr bool is_passive_aggressive(const Schedule& schedule) {
    return schedule.kind == ScheduleKind::passive_aggressive1 || schedule.kind == ScheduleKind::passive_aggressive2;
}

// Over `count` steps from number t on, for a class whose lane holds `step_size`: the sum of the step sizes, and the
// product of max(0, 1 − step × l2).
double sum_of_steps(const Schedule& schedule, double step_size, double t, std::int64_t count);
double product_of_decays(const Schedule& schedule, double step_size, double l2, double t, std::int64_t count);

}  // namespace symsgd
