#include "symsgd/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace symsgd {

namespace {

double step_at(const Schedule& schedule, double t) {
    if (schedule.kind == ScheduleKind::optimal) return 1.0 / (schedule.alpha * (schedule.t0 + t - 1.0));
    if (schedule.kind == ScheduleKind::linear)
        return schedule.step_size * std::max(0.0, 1.0 - (t - schedule.first) / schedule.n_steps);
    return schedule.step_size / std::pow(t, schedule.power);
}

}  // namespace

double sum_of_steps(const Schedule& schedule, double step_size, double t, std::int64_t count) {
    if (!depends_on_time(schedule)) return step_size * static_cast<double>(count);
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += step_at(schedule, t + static_cast<double>(i));
    return sum;
}

double product_of_decays(const Schedule& schedule, double step_size, double l2, double t, std::int64_t count) {
    if (l2 == 0.0) return 1.0;
    if (!depends_on_time(schedule)) return std::pow(std::max(0.0, 1.0 - step_size * l2), static_cast<double>(count));
    double product = 1.0;
    for (std::int64_t i = 0; i < count; ++i)
        product *= std::max(0.0, 1.0 - step_at(schedule, t + static_cast<double>(i)) * l2);
    return product;
}

}  // namespace symsgd
