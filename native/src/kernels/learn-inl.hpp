// The inner loop (see symsgd/learn.hpp). `panel` is 1 for a single model, whose scalars then live in registers, and 4,
// 8 or 16 for several classes trained in one walk.
#pragma once

#include "penalties-inl.hpp"
#include "symsgd/learn.hpp"

namespace symsgd {
namespace {

constexpr std::size_t fetch_ahead = 4;       // rows; measured flat between 2 and 16 on sets of 12 to 140 nonzeros a row
constexpr double largest_gradient = 1e12;    // scikit-learn's clip
constexpr double smallest_product = 1e-200;  // of likelihoods, before it is turned into a sum

SYMSGD_INLINE double read(const Column& column, std::int64_t row) {
    if (column.data == nullptr) return 1.0;
    switch (column.type) {
        case Number::int8:
            return static_cast<const std::int8_t*>(column.data)[row];
        case Number::uint8:
            return static_cast<const std::uint8_t*>(column.data)[row];
        case Number::int16:
            return static_cast<const std::int16_t*>(column.data)[row];
        case Number::int32:
            return static_cast<const std::int32_t*>(column.data)[row];
        case Number::int64:
            return static_cast<double>(static_cast<const std::int64_t*>(column.data)[row]);
        case Number::float32:
            return static_cast<const float*>(column.data)[row];
        case Number::float64:
            return static_cast<const double*>(column.data)[row];
    }
    __builtin_unreachable();
}

SYMSGD_INLINE void prefetch(const Column& column, std::int64_t row) {
    constexpr int bytes[] = {1, 1, 2, 4, 8, 4, 8};
    __builtin_prefetch(static_cast<const char*>(column.data) + row * bytes[static_cast<int>(column.type)]);
}

// A schedule's step size at step t, for those that depend on t.
SYMSGD_INLINE double step_size(const Schedule& schedule, double t) {
    if (schedule.kind == ScheduleKind::optimal) return 1.0 / (schedule.alpha * (schedule.t0 + t - 1.0));
    if (schedule.kind == ScheduleKind::invscaling) return schedule.step_size / __builtin_pow(t, schedule.power);
    return schedule.step_size;
}

template <class L>
SYMSGD_INLINE void tally_loss(const L& loss, Lane& lane, double likelihood, double p, double y) {
    if constexpr (requires { L::likelihood_holds_above; }) {
        if (y * p > L::likelihood_holds_above) {
            lane.likelihood *= likelihood;
            if (lane.likelihood < smallest_product) {
                lane.loss -= __builtin_log(lane.likelihood);
                lane.likelihood = 1.0;
            }
            return;
        }
    }
    lane.loss += loss.value(p, y);
}

// What the penalty adds to the objective of a row, before its step.
SYMSGD_INLINE void tally_penalty(const Rule& rule, Lane& lane) {
    lane.objective += 0.5 * rule.penalty.l2 * lane.norm2 + rule.penalty.l1 * lane.norm1;
    if (rule.one_class) lane.objective += lane.intercept * rule.intercept_pull;
}

template <class Rows, int panel>
struct Loop {
    using V = typename Rows::Value;
    static constexpr bool single = panel == 1;

    const Rows& rows;
    const Targets& targets;
    const Rule& rule;
    ModelView<V>& model;
    Lane* lanes;
    const int classes;
    const std::int64_t stride;
    const bool passive_aggressive;

    // The rows of the block in turn.
    SYMSGD_INLINE void run(const Block& block) {
        const bool scheduled =
            rule.schedule.kind == ScheduleKind::optimal || rule.schedule.kind == ScheduleKind::invscaling;
        for (std::size_t i = 0; i < block.count; ++i) {
            if (i + 2 * fetch_ahead < block.known) {
                const std::int64_t later = block.order[i + 2 * fetch_ahead];
                prefetch(rows, block.order[i + fetch_ahead], later);
                prefetch(targets.labels, later);
            }
            const std::int64_t r = block.order[i];
            if (scheduled) {
                const double eta = step_size(rule.schedule, model.t);
                for (int c = 0; c < classes; ++c) lanes[c].step_size = eta;
            }
            const auto row = row_at(rows, r);
            V single_scratch[2];
            V* score = single ? single_scratch : model.scratch;
            V* step = single ? single_scratch + 1 : model.scratch + stride;
            if (rule.penalty.kind == PenaltyKind::halves)
                for (int c = 0; c < classes; ++c) catch_up(row, model, lanes[c], c);
            predict(row, score);
            const bool moves = visit(rule.loss, [&](const auto& loss) { return decide(loss, row, r, score, step); });
            if (!moves) continue;  // passive-aggressive steps skip rows without features altogether
            update(row, step);
            model.t += 1.0;
        }
    }

    template <class Row>
    SYMSGD_INLINE void predict(const Row& row, V* score) {
        if constexpr (single) {
            score[0] = dot(row, model.weights);
        } else {
            for (std::int64_t at = 0; at < stride; at += panel)
                dot_panel<panel>(row, model.weights + at, stride, score + at);
        }
        for (int c = 0; c < classes; ++c) score[c] = static_cast<V>(score[c] * lanes[c].scale + lanes[c].intercept);
    }

    // From the scores of a row the step u of every class; losses and objectives on the way.
    template <class L, class Row>
    SYMSGD_INLINE bool decide(const L& loss, const Row& row, std::int64_t r, V* score, V* step) {
        const double label = read(targets.labels, r);
        const double weight = read(targets.sample_weight, r);
        const auto target = [&](int c) {
            if (targets.kind == TargetKind::real) return label;
            return label == (targets.kind == TargetKind::binary ? targets.positive : targets.class_ids[c]) ? 1.0 : -1.0;
        };
        if (rule.track_loss) {
            for (int c = 0; c < classes; ++c) {
                V likelihood = 1;
                if constexpr (requires { L::likelihood_holds_above; })
                    likelihood = loss.likelihood(score[c], static_cast<V>(target(c)));
                tally_loss(loss, lanes[c], likelihood, score[c], target(c));
                if (rule.track_norms && !passive_aggressive) tally_penalty(rule, lanes[c]);
            }
        }
        double square = 0.0;
        if (passive_aggressive) {
            square = square_norm(row);
            if (rule.schedule.kind == ScheduleKind::passive_aggressive1 && square == 0.0) return false;
        }
        for (int c = 0; c < classes; ++c) {
            const double y = target(c);
            const double factor = weight * (targets.kind == TargetKind::real
                                                ? 1.0
                                                : (y > 0 ? targets.positive_weight[c] : targets.negative_weight[c]));
            double u;
            if (passive_aggressive) {
                const double value = loss.value(score[c], y);
                const double cap = rule.schedule.step_size;
                const double size = rule.schedule.kind == ScheduleKind::passive_aggressive1
                                        ? smaller(cap, value / square)
                                        : value / (square + 0.5 / cap);
                const bool down = targets.kind == TargetKind::real ? y < score[c] : y < 0;
                u = down ? -size : size;
            } else {
                const double g = loss.gradient(score[c], static_cast<V>(y));
                u = -lanes[c].step_size * smaller(larger(g, -largest_gradient), largest_gradient);
            }
            step[c] = static_cast<V>(u * factor);
        }
        return true;
    }

    // Applies the steps to the weights and the intercepts, then the averages.
    template <class Row>
    SYMSGD_INLINE void update(const Row& row, V* step) {
        const double started = rule.average_from > 0.0 ? model.t - rule.average_from + 1.0 : 0.0;
        if (rule.penalty.kind == PenaltyKind::halves) {
            for (int c = 0; c < classes; ++c) {
                const double eta = lanes[c].step_size;
                step_halves(row, model, lanes[c], c, step[c], eta * rule.penalty.l1);
                move_intercept(lanes[c], step[c]);
            }
            return;
        }
        bool any = false;
        for (int c = 0; c < classes; ++c) {
            Lane& lane = lanes[c];
            if (rule.penalty.l2 != 0.0) decay(lane, c);
            move_intercept(lane, step[c]);
            step[c] = static_cast<V>(step[c] * lane.inverse);
            any |= step[c] != 0;
        }
        if (any) move_weights(row, step);
        if (rule.penalty.kind == PenaltyKind::truncate) {
            for (int c = 0; c < classes; ++c) {
                lanes[c].owed += lanes[c].step_size * rule.penalty.l1;
                truncate(row, model, lanes[c], c, rule.track_norms);
            }
        }
        if (started >= 1.0) {
            for (int c = 0; c < classes; ++c) {
                lanes[c].average_scales += lanes[c].scale;
                lanes[c].average_intercept += (lanes[c].intercept - lanes[c].average_intercept) / started;
            }
        }
    }

    SYMSGD_INLINE void move_intercept(Lane& lane, double u) {
        if (rule.fit_intercept) lane.intercept += rule.intercept_decay * (u - lane.step_size * rule.intercept_pull);
    }

    // L2: w ← max(0, 1 − step × l2) w, on the scale alone.
    SYMSGD_INLINE void decay(Lane& lane, int c) {
        constexpr double smallest_scale = sizeof(V) == 4 ? 1e-6 : 1e-9;
        const double keep = larger(0.0, 1.0 - lane.step_size * rule.penalty.l2);
        lane.scale *= keep;
        lane.norm2 *= keep * keep;
        lane.norm1 *= keep;
        if (lane.scale < smallest_scale) {
            Lane copy = lane;  // so that the lane itself never needs an address and can stay in registers
            rescale(model, copy, c);
            lane = copy;
        } else {
            lane.inverse /= keep;
        }
    }

    template <class Row>
    SYMSGD_INLINE void move_weights(const Row& row, const V* step) {
        if constexpr (single) {
            Lane& lane = lanes[0];
            if (lane.average_scales != 0.0) correct_average(row, model, lane, 0, step[0]);
            if (rule.track_norms) {
                add_measured(row, step[0], model.weights, lane.squares, lane.sizes);
                show_norms(lane);
            } else {
                add(row, step[0], model.weights);
            }
        } else {
            for (int c = 0; c < classes; ++c)
                if (lanes[c].average_scales != 0.0) correct_average(row, model, lanes[c], c, step[c]);
            if (rule.track_norms) {
                measure_change(row, step);
            } else {
                for (std::int64_t at = 0; at < stride; at += panel)
                    add_panel<panel>(row, step + at, model.weights + at, stride);
            }
        }
    }

    // The update of several classes with their norms kept true: Σ(after² − before²), feature by feature.
    template <class Row>
    SYMSGD_INLINE void measure_change(const Row& row, const V* step) {
        for (std::int64_t j = 0; j < row.count; ++j) {
            V* weights = model.weights + feature(row, j) * stride;
            for (int c = 0; c < classes; ++c) {
                const double before = weights[c];
                weights[c] += row.value[j] * step[c];
                const double after = weights[c];
                lanes[c].squares += (after - before) * (after + before);
                lanes[c].sizes += __builtin_fabs(after) - __builtin_fabs(before);
            }
        }
        for (int c = 0; c < classes; ++c)
            if (step[c] != 0) show_norms(lanes[c]);
    }

    // The objective sees the norm as it was after the last step that moved the weights (as scikit-learn does).
    SYMSGD_INLINE static void show_norms(Lane& lane) {
        lane.norm2 = larger(0.0, lane.squares) * lane.scale * lane.scale;
        lane.norm1 = larger(0.0, lane.sizes) * lane.scale;
    }
};

template <class Rows, int panel>
void learn_panel(const Rows& rows, const Targets& targets, const Block& block, const Rule& rule,
                 ModelView<typename Rows::Value>& model) {
    const bool passive_aggressive = rule.schedule.kind == ScheduleKind::passive_aggressive1 ||
                                    rule.schedule.kind == ScheduleKind::passive_aggressive2;
    if constexpr (panel == 1) {
        Lane lane = model.lanes[0];
        ModelView<typename Rows::Value> local = model;
        Loop<Rows, 1>{rows, targets, rule, local, &lane, 1, 1, passive_aggressive}.run(block);
        model.lanes[0] = lane;
        model.t = local.t;
    } else {
        Loop<Rows, panel>{rows, targets, rule, model, model.lanes, model.classes, model.stride, passive_aggressive}.run(
            block);
    }
}

template <class Rows>
void learn(const Rows& rows, const Targets& targets, const Block& block, const Rule& rule,
           ModelView<typename Rows::Value>& model) {
    switch (model.stride) {
        case 1:
            return learn_panel<Rows, 1>(rows, targets, block, rule, model);
        case 4:
            return learn_panel<Rows, 4>(rows, targets, block, rule, model);
        case 8:
            return learn_panel<Rows, 8>(rows, targets, block, rule, model);
        default:
            return learn_panel<Rows, 16>(rows, targets, block, rule, model);
    }
}

// Scores of rows [begin, end).
template <class Rows, int panel>
void decide_panel(const Rows& rows, std::int64_t begin, std::int64_t end, const typename Rows::Value* weights,
                  int classes, int stride, const double* intercept, typename Rows::Value* scores) {
    using V = typename Rows::Value;
    for (std::int64_t r = begin; r < end; ++r) {
        const auto row = row_at(rows, r);
        V* out = scores + r * classes;
        if constexpr (panel == 1) {
            out[0] = static_cast<V>(dot(row, weights) + intercept[0]);
        } else {
            for (int at = 0; at < stride; at += panel) {
                V part[panel];
                dot_panel<panel>(row, weights + at, stride, part);
                for (int c = at; c < smaller(at + panel, classes); ++c)
                    out[c] = static_cast<V>(part[c - at] + intercept[c]);
            }
        }
    }
}

template <class Rows>
void decide(const Rows& rows, std::int64_t begin, std::int64_t end, const typename Rows::Value* weights, int classes,
            int stride, const double* intercept, typename Rows::Value* scores) {
    switch (stride) {
        case 1:
            return decide_panel<Rows, 1>(rows, begin, end, weights, classes, stride, intercept, scores);
        case 4:
            return decide_panel<Rows, 4>(rows, begin, end, weights, classes, stride, intercept, scores);
        case 8:
            return decide_panel<Rows, 8>(rows, begin, end, weights, classes, stride, intercept, scores);
        default:
            return decide_panel<Rows, 16>(rows, begin, end, weights, classes, stride, intercept, scores);
    }
}

template <class Rows>
constexpr RowKernels<Rows> row_kernels{&learn<Rows>, &decide<Rows>};

template <class V>
constexpr ModelKernels<V> model_kernels{&finish_pass<V>, &measure<V>};

constexpr Kernels all_kernels(const char* name) {
    return {name,
            {row_kernels<SparseRows<float, std::int32_t>>, row_kernels<SparseRows<float, std::int64_t>>,
             row_kernels<SparseRows<double, std::int32_t>>, row_kernels<SparseRows<double, std::int64_t>>,
             row_kernels<DenseRows<float>>, row_kernels<DenseRows<double>>},
            {model_kernels<float>, model_kernels<double>}};
}

}  // namespace
}  // namespace symsgd
