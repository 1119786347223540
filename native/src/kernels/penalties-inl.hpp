// What the penalties and the averages do to the weights of a row's features, class by class, and the sweeps over the
// whole model they need now and then.
#pragma once

#include "rows-inl.hpp"
#include "symsgd/learn.hpp"

namespace symsgd {
namespace {

// Makes the scale of a class 1 again. The mean of the iterates is (average + average_scales × stored) / steps, so what
// the stored weights carry of it moves to `average` first.
template <class V>
[[gnu::noinline]] void rescale(ModelView<V>& model, Lane& lane, int c) {
    const V scale = static_cast<V>(lane.scale);
    for (std::int64_t i = 0; i < model.features; ++i) {
        const std::int64_t first = i * model.stride + c * model.group;
        for (std::int64_t at = first; at < first + model.group; ++at) {
            V& weight = model.weights[at];
            if (model.average != nullptr) model.average[at] += lane.average_scales * static_cast<double>(weight);
            weight *= scale;
        }
    }
    lane.squares *= lane.scale * lane.scale;
    lane.sizes *= lane.scale;
    lane.folded_sum += lane.folded * lane.average_scales;
    lane.folded *= lane.scale;
    lane.rare *= lane.scale;
    lane.rare_inverse /= lane.scale;
    lane.average_scales = 0.0;
    lane.scale = 1.0;
    lane.inverse = 1.0;
}

// The stored weight at `at` has gone from `before` to `after`: keeps Σ stored² and Σ |stored| true where they are
// wanted, and the mean of the iterates before this step as it was. What counts is the change as it was rounded, not as
// it was meant: the mean is the difference of two large sums, and only then do their rounding errors cancel.
template <class V>
SYMSGD_INLINE void observe(ModelView<V>& model, Lane& lane, std::int64_t at, V before, V after, bool measured) {
    const double change = static_cast<double>(after) - before;
    if (lane.average_scales != 0.0) model.average[at] -= lane.average_scales * change;
    if (measured) {
        lane.squares += change * (static_cast<double>(after) + before);
        lane.sizes += __builtin_fabs(static_cast<double>(after)) - __builtin_fabs(static_cast<double>(before));
    }
}

// L1 by cumulative truncation (Tsuruoka et al. 2009): a weight in the row moves towards zero by what it still owes,
// lane.owed in all so far, and never across it. `received` is what it has been given, signed.
//
// The tangents of (w, q) follow: where the weight is kept, dw′ = dw − dq and dq′ = 0; where it is cut, dw′ = 0 and
// dq′ = dq − dw.
template <class Row, class V>
SYMSGD_INLINE void truncate(const Row& row, ModelView<V>& model, Lane& lane, int c, bool measured) {
    const double owed = lane.owed;
    const int columns = model.tangents + model.diagonal;
    for (std::int64_t j = 0; j < row.count; ++j) {
        const std::int64_t at = feature(row, j) * model.stride + c * model.group;
        const V before = model.weights[at];
        const double received = model.received[at];
        V after = before;
        if (before > 0)
            after = static_cast<V>(greater(0.0, before - (owed + received) * lane.inverse));
        else if (before < 0)
            after = static_cast<V>(lesser(0.0, before + (owed - received) * lane.inverse));
        model.weights[at] = after;
        model.received[at] = static_cast<V>(received + lane.scale * (static_cast<double>(after) - before));
        observe(model, lane, at, before, after, measured);
        for (std::int64_t k = at + 1; k <= at + columns; ++k) {
            const V tangent = model.weights[k];
            const V kept = after != 0 ? tangent - model.received[k] * static_cast<V>(lane.inverse) : V{};
            model.received[k] = after != 0 ? V{} : model.received[k] - tangent * static_cast<V>(lane.scale);
            model.weights[k] = kept;
            observe(model, lane, k, tangent, kept, false);
        }
    }
}

// The paper's Lasso. Both halves of every weight shrink by step × l1 at every step, whether the row has the feature or
// not; since nothing else moves an unseen weight, it can catch up when it is next needed. The tangents of a half that
// is cut to zero are zero.
template <class V>
SYMSGD_INLINE void set_halves(ModelView<V>& model, Lane& lane, std::int64_t at, V positive, V negative) {
    model.halves[2 * at] = positive;
    model.halves[2 * at + 1] = negative;
    model.seen[at] = lane.owed;
    model.weights[at] = positive - negative;
    for (std::int64_t k = at + 1; k <= at + model.tangents + model.diagonal; ++k) {
        if (!(positive > 0)) model.halves[2 * k] = 0;
        if (!(negative > 0)) model.halves[2 * k + 1] = 0;
        model.weights[k] = model.halves[2 * k] - model.halves[2 * k + 1];
    }
}

template <class V>
SYMSGD_INLINE void catch_up(ModelView<V>& model, Lane& lane, std::int64_t at) {
    const double behind = lane.owed - model.seen[at];
    if (behind == 0.0) return;
    set_halves(model, lane, at, static_cast<V>(greater(0.0, model.halves[2 * at] - behind)),
               static_cast<V>(greater(0.0, model.halves[2 * at + 1] - behind)));
}

template <class Row, class V>
SYMSGD_INLINE void catch_up(const Row& row, ModelView<V>& model, Lane& lane, int c) {
    for (std::int64_t j = 0; j < row.count; ++j)
        catch_up(model, lane, feature(row, j) * model.stride + c * model.group);
}

// One step of it: w_s ← max(0, w_s − step × l1 + s u x), and its tangents with their own u. Rows come without repeated
// indices (the caller sees to it).
template <class Row, class V>
SYMSGD_INLINE void step_halves(const Row& row, ModelView<V>& model, Lane& lane, int c, double u, int tangents,
                               const V* tangent_steps, double shrink) {
    lane.owed += shrink;
    for (std::int64_t j = 0; j < row.count; ++j) {
        const std::int64_t at = feature(row, j) * model.stride + c * model.group;
        const double move = u * static_cast<double>(row.value[j]);
        for (int k = 1; k <= tangents; ++k) {
            const V by = tangent_steps[k] * row.value[j];
            model.halves[2 * (at + k)] += by;
            model.halves[2 * (at + k) + 1] -= by;
        }
        set_halves(model, lane, at, static_cast<V>(greater(0.0, model.halves[2 * at] - shrink + move)),
                   static_cast<V>(greater(0.0, model.halves[2 * at + 1] - shrink - move)));
    }
}

template <class V>
void measure(ModelView<V>& model) {
    for (int c = 0; c < model.classes; ++c) {
        double squares = 0, sizes = 0;
        for (std::int64_t i = 0; i < model.features; ++i) {
            const double weight = model.weights[i * model.stride + c * model.group];
            squares += weight * weight;
            sizes += __builtin_fabs(weight);
        }
        model.lanes[c].squares = squares;
        model.lanes[c].sizes = sizes;
    }
}

template <class V>
void finish_pass(const Rule& rule, ModelView<V>& model) {
    for (int c = 0; c < model.classes; ++c) {
        Lane& lane = model.lanes[c];
        lane.loss -= __builtin_log(lane.likelihood);
        lane.likelihood = 1.0;
        if (rule.penalty.kind == PenaltyKind::halves) {
            double sizes = 0;
            for (std::int64_t i = 0; i < model.features; ++i) {
                const std::int64_t at = i * model.stride + c * model.group;
                catch_up(model, lane, at);
                sizes += static_cast<double>(model.halves[2 * at]) + model.halves[2 * at + 1];
            }
            lane.norm1 = sizes;
        }
    }
    if (rule.track_norms) measure(model);
}

}  // namespace
}  // namespace symsgd
