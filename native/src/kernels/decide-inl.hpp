// From the score of a row to its step: gradient, loss, and the derivative of the step where tangents are trained.
#pragma once

#include "symsgd/learn.hpp"
#include "vector-inl.hpp"

namespace symsgd {
namespace {

constexpr double largest_gradient = 1e12;    // scikit-learn's clip
constexpr double smallest_product = 1e-200;  // of likelihoods, before part of it is turned into a sum
constexpr double log_smallest_product = -460.51701859880916;

// The gradient; the loss is added to the lane's. With a likelihood nothing is called, not even on the branches hardly
// ever taken: calls in the loop would drive the lane's numbers out of the registers.
template <class L, class V>
SYMSGD_INLINE V tally(const L& loss, Lane& lane, V p, V y) {
    if constexpr (requires { L::likelihood_holds_above; }) {
        V likelihood;
        const V g = loss.gradient(p, y, likelihood);
        if (y * p > static_cast<V>(L::likelihood_holds_above)) [[likely]] {
            lane.likelihood *= static_cast<double>(likelihood);
            if (lane.likelihood < smallest_product) [[unlikely]] {
                lane.likelihood /= smallest_product;
                lane.loss -= log_smallest_product;
            }
        } else {
            lane.loss -= static_cast<double>(y * p);
        }
        return g;
    }
    lane.loss += loss.value(p, y);
    return loss.gradient(p, y);
}

template <class L, class V>
SYMSGD_INLINE V curvature(const L& loss, V p, V y, V g) {
    if constexpr (requires { loss.curvature_by_gradient(g, y); })
        return loss.curvature_by_gradient(g, y);
    else
        return loss.curvature(p, y);
}

template <class L>
constexpr bool jumps = requires { L::jumps; };

// ∂g/∂p where the gradient jumps: its secant over the distance that predictions may be off, which is at least half of
// what this very step moves its own prediction (`reach`), and never so steep that the step's derivative would
// overshoot.
template <class L>
SYMSGD_INLINE double soft_slope(const L& loss, double p, double y, double reach, double drift) {
    const double delta = greater(drift, 0.5 * reach);
    if (!(delta > 0.0)) return 0.0;
    const double slope = (loss.gradient(p + delta, y) - loss.gradient(p - delta, y)) / (2.0 * delta);
    return reach > 0.0 ? lesser(slope, 1.0 / reach) : slope;
}

// What a row has come to when its scores are known, and where its steps go.
template <class V>
struct Scored {
    const Block& block;
    const Rule& rule;
    Lane* lanes;
    int classes;
    int group;        // numbers from one class's to the next
    bool tangents;    // whether the derivative of the step is wanted
    bool adaptive;    // AdaGrad: the step size comes later
    std::size_t row;  // in the block
    const V* margin;  // x·w + b of every class
    double square;    // |x|², where it is needed
    V* step;
};

// From the scores of a row the gradient of every class and its factor, u = step × lane.factor; losses, objectives and
// the derivative of u on the way. `one` and `usual` as in the loop.
template <bool one, bool usual, class Loss, class V>
SYMSGD_INLINE void decide_steps(const Loss& loss, const Scored<V>& scored) {
    const Rule& rule = scored.rule;
    const bool passive_aggressive = !usual && is_passive_aggressive(rule.schedule);
    for (int c = 0; c < (one ? 1 : scored.classes); ++c) {
        Lane& lane = scored.lanes[c];
        const V p = scored.margin[c];
        double y = scored.block.target[scored.row];
        double weight = scored.block.weight[scored.row];
        if (!one && scored.classes > 1) {
            const bool positive = y == scored.block.class_ids[c];
            y = positive ? 1.0 : -1.0;
            weight *= positive ? scored.block.positive_weight[c] : scored.block.negative_weight[c];
        }
        V g = tally(loss, lane, p, static_cast<V>(y));
        if (rule.track_norms && !passive_aggressive) {
            lane.objective += 0.5 * rule.penalty.l2 * lane.norm2 + rule.penalty.l1 * lane.norm1;
            if (!usual && rule.one_class) lane.objective += lane.intercept * rule.intercept_pull;
        }
        if constexpr (!Loss::bounded_gradient)
            g = lesser(static_cast<V>(largest_gradient), greater(static_cast<V>(-largest_gradient), g));
        V& step = scored.step[c * scored.group];
        step = g;
        lane.factor = -lane.step_size * weight;
        if (!usual && scored.adaptive) lane.factor = -weight;
        if (passive_aggressive) {
            const bool first = rule.schedule.kind == ScheduleKind::passive_aggressive1;
            const double whole = first ? scored.square : scored.square + 0.5 / lane.step_size;
            const double value = loss.value(p, y);
            const double size = first ? lesser(lane.step_size, value / whole) : value / whole;
            step = g > 0 ? 1 : -1;
            lane.factor = -size * weight;
            lane.response = g != 0 && (!first || size < lane.step_size) ? -weight / whole : 0.0;
        } else if (scored.tangents) {
            if (jumps<Loss> && rule.soft_curvature) {
                const double reach = -lane.factor * (scored.square + (rule.fit_intercept ? rule.intercept_decay : 0.0));
                lane.slope = soft_slope(loss, static_cast<double>(p), y, reach, lane.drift);
            } else {
                lane.slope = static_cast<double>(curvature(loss, p, static_cast<V>(y), g));
            }
            if (!usual) lane.response = lane.factor * lane.slope;
        }
    }
}

// The same for the loss that the rule names. Compiled once, not once a loop: a call a row is what it costs.
template <class V>
[[gnu::noinline]] void decide_any(const Scored<V>& scored) {
    visit(scored.rule.loss, [&](const auto& loss) { decide_steps<false, false>(loss, scored); });
}

}  // namespace
}  // namespace symsgd
