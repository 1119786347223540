// The inner loop (see symsgd/learn.hpp), in two degrees of generality written as one.
//
// `panel` is 1 for a single model, whose scalars then live in registers, and 4, 8 or 16 for several classes trained in
// one walk. A *plain* loop has its loss fixed at compile time and leaves out what most trainings do not use (L1, Lasso,
// averages, passive-aggressive steps); the general one asks the rule for each of them.
#pragma once

#include "penalties-inl.hpp"
#include "symsgd/learn.hpp"

namespace symsgd {
namespace {

constexpr double largest_gradient = 1e12;    // scikit-learn's clip
constexpr double smallest_product = 1e-200;  // of likelihoods, before it is turned into a sum

// Models beyond this many bytes live outside the second-level cache, and fetching the weights of the next row pays.
constexpr std::int64_t large_model = std::int64_t{2} << 20;

struct AnyLoss {};  // the general loop's: looked up a row

// A schedule's step size at step t, for those that depend on t.
SYMSGD_INLINE double scheduled_step(const Schedule& schedule, double t) {
    if (schedule.kind == ScheduleKind::optimal) return 1.0 / (schedule.alpha * (schedule.t0 + t - 1.0));
    return schedule.step_size / __builtin_pow(t, schedule.power);
}

template <class L, class V>
SYMSGD_INLINE void tally_loss(const L& loss, Lane& lane, V p, V y) {
    if constexpr (requires { L::likelihood_holds_above; }) {
        const V likelihood = loss.likelihood(p, y);
        if (y * p > static_cast<V>(L::likelihood_holds_above)) [[likely]] {
            lane.likelihood *= static_cast<double>(likelihood);
            if (lane.likelihood < smallest_product) [[unlikely]] {
                lane.loss -= __builtin_log(lane.likelihood);
                lane.likelihood = 1.0;
            }
            return;
        }
    }
    lane.loss += loss.value(p, y);
}

template <class Rows, int panel, class L>
struct Loop {
    using V = typename Rows::Value;
    static constexpr bool single = panel == 1;
    static constexpr bool plain = !std::is_same_v<L, AnyLoss>;

    const Rows& rows;
    const Block& block;
    const Rule& rule;
    ModelView<V>& model;
    Lane* lanes;
    const int classes;
    const std::int64_t stride;
    const std::size_t ahead = fetch_distance(rows);
    const bool fetch_weights = single && model.features * static_cast<std::int64_t>(sizeof(V)) > large_model;

    bool truncates() const { return !plain && rule.penalty.kind == PenaltyKind::truncate; }
    bool halves() const { return !plain && rule.penalty.kind == PenaltyKind::halves; }
    bool averages() const { return !plain && rule.average_from > 0.0; }
    bool passive_aggressive() const {
        return !plain && (rule.schedule.kind == ScheduleKind::passive_aggressive1 ||
                          rule.schedule.kind == ScheduleKind::passive_aggressive2);
    }

    SYMSGD_INLINE void run() {
        const bool scheduled =
            rule.schedule.kind == ScheduleKind::optimal || rule.schedule.kind == ScheduleKind::invscaling;
        for (std::size_t i = 0; i < block.count; ++i) {
            if (scheduled) {
                const double step = scheduled_step(rule.schedule, model.t);
                for (int c = 0; c < classes; ++c) lanes[c].step_size = step;
            }
            learn_row(row_at(rows, block.order[i]), i);
        }
    }

    SYMSGD_INLINE void fetch_from(std::size_t i) {
        if (i + 2 * ahead >= block.known) return;
        prefetch(rows, block.order[i + ahead], block.order[i + 2 * ahead]);
        if (fetch_weights) prefetch_weights(row_at(rows, block.order[i + 1]), model.weights);
    }

    template <class Row>
    SYMSGD_INLINE void learn_row(const Row& row, std::size_t i) {
        V own[3];
        V* score = single ? own : model.scratch;
        V* step = single ? own + 1 : model.scratch + stride;
        V* stored = single ? own + 2 : model.scratch + 2 * stride;
        if (halves())
            for (int c = 0; c < classes; ++c) catch_up(row, model, lanes[c], c);
        predict(row, score, stored);
        fetch_from(i);  // while the step waits for its score
        double square = 0.0;
        if (passive_aggressive()) {
            square = square_norm(row);
            // scikit-learn's PA-I skips rows without features altogether, but counts their loss
            if (rule.schedule.kind == ScheduleKind::passive_aggressive1 && square == 0.0) square = -1.0;
        }
        if constexpr (plain) {
            decide(L{rule.loss.parameter}, i, score, step, square);
        } else {
            decide_apart(i, score, step, square);
        }
        if (square < 0.0) return;
        update(row, stored, step);
        model.t += 1.0;
    }

    // The score of every class, and x·(stored weights), which the norms need.
    template <class Row>
    SYMSGD_INLINE void predict(const Row& row, V* score, V* stored) {
        if constexpr (single) {
            score[0] = dot(row, model.weights);
        } else {
            for (std::int64_t at = 0; at < stride; at += panel)
                dot_panel<panel>(row, model.weights + at, stride, score + at);
        }
        // in V throughout: every conversion between float and double is four cycles that the step has to wait for
        for (int c = 0; c < classes; ++c)
            score[c] = (stored[c] = score[c]) * static_cast<V>(lanes[c].scale) + static_cast<V>(lanes[c].intercept);
    }

    [[gnu::noinline]] void decide_apart(std::size_t i, const V* score, V* step, double square) {
        visit(rule.loss, [&](const auto& loss) { decide(loss, i, score, step, square); });
    }

    // From the scores of a row the step of every class, u = step × lane.factor; losses and objectives on the way.
    template <class Loss>
    SYMSGD_INLINE void decide(const Loss& loss, std::size_t i, const V* score, V* step, double square) {
        for (int c = 0; c < classes; ++c) {
            Lane& lane = lanes[c];
            double y = block.target[i];
            double weight = block.weight[i];
            if constexpr (!single) {
                const bool positive = y == block.class_ids[c];
                y = positive ? 1.0 : -1.0;
                weight *= positive ? block.positive_weight[c] : block.negative_weight[c];
            }
            tally_loss(loss, lane, score[c], static_cast<V>(y));
            if (rule.track_norms && !passive_aggressive()) {
                lane.objective += 0.5 * rule.penalty.l2 * lane.norm2 + rule.penalty.l1 * lane.norm1;
                if (!plain && rule.one_class) lane.objective += lane.intercept * rule.intercept_pull;
            }
            V g = loss.gradient(score[c], static_cast<V>(y));
            if constexpr (!Loss::bounded_gradient)
                g = lesser(static_cast<V>(largest_gradient), greater(static_cast<V>(-largest_gradient), g));
            step[c] = g;
            lane.factor = -lane.step_size * weight;
            if (passive_aggressive()) {
                const double value = loss.value(score[c], y);
                const double size = rule.schedule.kind == ScheduleKind::passive_aggressive1
                                        ? lesser(lane.step_size, value / square)
                                        : value / (square + 0.5 / lane.step_size);
                step[c] = g > 0 ? 1 : -1;
                lane.factor = -size * weight;
            }
        }
    }

    // Applies the steps to the weights and the intercepts, then the averages.
    template <class Row>
    SYMSGD_INLINE void update(const Row& row, V* stored, V* step) {
        bool any = false;
        for (int c = 0; c < classes; ++c) {
            Lane& lane = lanes[c];
            const double u = static_cast<double>(step[c]) * lane.factor;
            move_intercept(lane, u);
            if (halves()) {
                step_halves(row, model, lane, c, u, lane.step_size * rule.penalty.l1);
                continue;
            }
            if (rule.penalty.l2 != 0.0) stored[c] *= static_cast<V>(decay(lane, c));
            step[c] *= static_cast<V>(lane.factor * lane.inverse);
            any |= step[c] != 0;
        }
        if (any) move_weights(row, stored, step);
        if (truncates()) {
            for (int c = 0; c < classes; ++c) {
                lanes[c].owed += lanes[c].step_size * rule.penalty.l1;
                truncate(row, model, lanes[c], c, rule.track_norms);
            }
        }
        if (averages() && model.t >= rule.average_from) {
            const double iterates = model.t - rule.average_from + 1.0;
            for (int c = 0; c < classes; ++c) {
                lanes[c].average_scales += lanes[c].scale;
                lanes[c].average_intercept += (lanes[c].intercept - lanes[c].average_intercept) / iterates;
            }
        }
    }

    SYMSGD_INLINE void move_intercept(Lane& lane, double u) {
        if (!rule.fit_intercept) return;
        double move = rule.intercept_decay * (u - lane.step_size * rule.intercept_pull);
        // Rounded before it is added, as scikit-learn does: rows without features are right or wrong by the intercept
        // alone, and a fused multiply-add would tip those that sit on the kink.
        SYMSGD_ROUND(move);
        lane.intercept += move;
    }

    // L2: w ← max(0, 1 − step × l2) w, on the scale alone. Returns what the stored weights were multiplied by, which is
    // 1 until the scale has become so small that it is made 1 again.
    SYMSGD_INLINE double decay(Lane& lane, int c) {
        // where the scale becomes small, the stored weights are large, and means (see `observe`) lose what is between
        const double smallest_scale = averages() ? 1e-3 : sizeof(V) == 4 ? 1e-6 : 1e-9;
        const double keep = greater(0.0, 1.0 - lane.step_size * rule.penalty.l2);
        lane.scale *= keep;
        if (rule.track_norms) {
            lane.norm2 *= keep * keep;
            lane.norm1 *= keep;
        }
        if (lane.scale < smallest_scale) [[unlikely]] {
            const double folded = lane.scale;
            Lane copy = lane;  // so that the lane itself never needs an address and can stay in registers
            rescale(model, copy, c);
            lane = copy;
            return folded;
        }
        lane.inverse /= keep;
        return 1.0;
    }

    template <class Row>
    SYMSGD_INLINE void move_weights(const Row& row, const V* stored, const V* step) {
        if (averages() || truncates() || (!plain && rule.track_norms && rule.repeats)) {
            move_observed(row, step);
            return;
        }
        if constexpr (single) {
            add(row, step[0], model.weights);
        } else {
            for (std::int64_t at = 0; at < stride; at += panel)
                add_panel<panel>(row, step + at, model.weights + at, stride);
        }
        if (!rule.track_norms) return;
        const double square = square_norm(row);  // |v + u x|² = |v|² + u (2 v·x + u |x|²)
        for (int c = 0; c < classes; ++c) {
            const double u = step[c];
            lanes[c].squares += u * (2.0 * static_cast<double>(stored[c]) + u * square);
            if (u != 0.0) show_norms(lanes[c]);
        }
    }

    // The update, feature by feature, where norms or means follow every change.
    template <class Row>
    SYMSGD_INLINE void move_observed(const Row& row, const V* step) {
        for (std::int64_t j = 0; j < row.count; ++j) {
            for (int c = 0; c < classes; ++c) {
                const std::int64_t at = feature(row, j) * stride + c;
                const V before = model.weights[at];
                model.weights[at] += row.value[j] * step[c];
                observe(model, lanes[c], at, before, model.weights[at], rule.track_norms);
            }
        }
        for (int c = 0; c < classes; ++c)
            if (rule.track_norms && step[c] != 0) show_norms(lanes[c]);
    }

    // The objective sees the norm as it was after the last step that moved the weights (as scikit-learn does).
    SYMSGD_INLINE static void show_norms(Lane& lane) {
        lane.norm2 = greater(0.0, lane.squares) * lane.scale * lane.scale;
        lane.norm1 = greater(0.0, lane.sizes) * lane.scale;
    }
};

template <class Rows, class L>
void learn_single(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model) {
    Lane lane = model.lanes[0];
    ModelView<typename Rows::Value> local = model;
    Loop<Rows, 1, L>{rows, block, rule, local, &lane, 1, 1}.run();
    model.lanes[0] = lane;
    model.t = local.t;
}

template <class Rows, int panel>
void learn_classes(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model) {
    Loop<Rows, panel, AnyLoss>{rows, block, rule, model, model.lanes, model.classes, model.stride}.run();
}

bool is_plain(const Rule& rule) {
    const bool usual_penalty = rule.penalty.kind == PenaltyKind::none || rule.penalty.kind == PenaltyKind::decay;
    const bool usual_schedule = rule.schedule.kind != ScheduleKind::passive_aggressive1 &&
                                rule.schedule.kind != ScheduleKind::passive_aggressive2;
    return usual_penalty && usual_schedule && rule.average_from == 0.0 && !rule.one_class &&
           !(rule.track_norms && rule.repeats);
}

template <class Rows>
void learn(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model) {
    switch (model.stride) {
        case 1:
            if (!is_plain(rule)) return learn_single<Rows, AnyLoss>(rows, block, rule, model);
            return visit(rule.loss, [&](const auto& loss) {
                learn_single<Rows, std::remove_cvref_t<decltype(loss)>>(rows, block, rule, model);
            });
        case 4:
            return learn_classes<Rows, 4>(rows, block, rule, model);
        case 8:
            return learn_classes<Rows, 8>(rows, block, rule, model);
        default:
            return learn_classes<Rows, 16>(rows, block, rule, model);
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
                for (int c = at; c < smallest(at + panel, classes); ++c)
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
