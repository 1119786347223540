// The inner loop (see symsgd/learn.hpp), written once for every strategy.
//
//   panel   1 for a single model, whose scalars then live in registers; 4, 8 or 16 where a feature has several numbers:
//           classes trained in one walk, or a weight and its tangents
//   one     there is one class, and `panel` is all that a feature has
//   home    whose weights they are: this thread's, this thread's and the rare ones held as they are (a round that will
//           be gone through again), everybody's (Hogwild!), or the frequent features' this thread's and the rest
//           everybody's (Async-SymSGD)
//   L       the loss, or AnyLoss: looked up a row, at the price of a call
//   usual   leaves out what most trainings do not use: L1, Lasso, averages, AdaGrad, passive-aggressive steps
#pragma once

#include "decide-inl.hpp"
#include "gram-inl.hpp"
#include "penalties-inl.hpp"
#include "split-inl.hpp"
#include "symsgd/learn.hpp"

namespace symsgd {
namespace {

// Models beyond this many bytes live outside the second-level cache, and fetching the weights of the next row pays.
constexpr std::int64_t large_model = std::int64_t{2} << 20;

enum class Home { own, held, shared, split };

struct AnyLoss {};

// A schedule's step size at step t, for those that depend on t.
SYMSGD_INLINE double scheduled_step(const Schedule& schedule, double t) {
    if (schedule.kind == ScheduleKind::optimal) return 1.0 / (schedule.alpha * (schedule.t0 + t - 1.0));
    if (schedule.kind == ScheduleKind::linear) {
        const double left = 1.0 - (t - schedule.first) / schedule.n_steps;
        return left > 0.0 ? schedule.step_size * left : 0.0;
    }
    return schedule.step_size / __builtin_pow(t, schedule.power);
}

template <class Rows, int panel, bool one, Home home, class L, bool usual>
struct Loop {
    using V = typename Rows::Value;
    static constexpr bool single = panel == 1;
    static constexpr bool known_loss = !std::is_same_v<L, AnyLoss>;
    // a single number a feature has no tangents, and neither have weights that everybody writes
    static constexpr bool may_have_tangents = !single && home != Home::shared;

    // copies, so that the compiler knows that no weight the loop stores changes them
    const Rows rows;
    const Block block;
    const Rule rule;
    ModelView<V>& model;
    Lane* lanes;
    const std::size_t ahead = fetch_distance(rows);
    const bool fetch_weights = fetches_weights();

    // whether the weights that the row's features have one number each of are too many for the second-level cache
    SYMSGD_INLINE bool fetches_weights() const {
        if constexpr (home == Home::split)
            return one && rows.features * static_cast<std::int64_t>(sizeof(V)) > large_model;
        else
            return single && model.features * static_cast<std::int64_t>(sizeof(V)) > large_model;
    }

    SYMSGD_INLINE int classes() const { return one ? 1 : model.classes; }
    SYMSGD_INLINE std::int64_t stride() const { return one ? panel : model.stride; }
    SYMSGD_INLINE int group() const { return single ? 1 : one ? panel : model.group; }
    SYMSGD_INLINE int tangents() const { return may_have_tangents ? model.tangents : 0; }
    // one class has several numbers only if it has tangents, or columns of a penalty that is not usual
    SYMSGD_INLINE bool has_tangents() const { return may_have_tangents && one && usual ? true : tangents() > 0; }
    SYMSGD_INLINE auto weights() const {
        if constexpr (home == Home::shared)
            return Relaxed<V>{model.weights};
        else if constexpr (home == Home::held)
            return Held<V>{model.weights, model.held, model.scratch};
        else
            return Plain<V>{model.weights};
    }

    // what keeps more than a number a weight is for weights of one's own
    static constexpr bool keeps_state = !usual && home == Home::own;
    bool truncates() const { return keeps_state && rule.penalty.kind == PenaltyKind::truncate; }
    bool halves() const { return keeps_state && rule.penalty.kind == PenaltyKind::halves; }
    bool averages() const { return keeps_state && rule.average_from > 0.0; }
    bool adaptive() const { return keeps_state && model.gathered != nullptr; }
    bool soft_curvature() const { return may_have_tangents && (!known_loss || jumps<L>) && rule.soft_curvature; }
    bool passive_aggressive() const { return !usual && is_passive_aggressive(rule.schedule); }

    SYMSGD_INLINE void run() {
        for (std::size_t i = 0; i < block.count; ++i) {
            begin_row();
            learn_row(row_at(rows, block.order[i]), i);
        }
    }

    SYMSGD_INLINE void begin_row() {
        if (!depends_on_time(rule.schedule)) return;
        const double step = scheduled_step(rule.schedule, model.t);
        for (int c = 0; c < classes(); ++c) lanes[c].step_size = step;
    }

    SYMSGD_INLINE void fetch_from(std::size_t i) {
        if (i + 2 * ahead >= block.known) return;
        prefetch(rows, block.order[i + ahead], block.order[i + 2 * ahead]);
        if (fetch_weights)
            prefetch_weights(row_at(rows, block.order[i + 1]), home == Home::split ? model.rare : model.weights);
    }

    template <class Row>
    SYMSGD_INLINE void learn_row(const Row& row, std::size_t i) {
        V own[one ? 3 * panel : 1];
        V* raw = one ? own : model.scratch;  // x·(stored numbers)
        V* margin = raw + stride();          // x·w + b of every class
        V* step = margin + stride();
        if (!score_row(row, i, raw, margin, step)) return;
        for (int c = 0; c < classes(); ++c) move_intercept(c, plan(row, c, raw, step));
        apply(row, raw, step);
        model.t += 1.0;
    }

    // The steps of a row for later: what `apply` adds to the weights, and what its intercepts move by.
    template <class Row>
    SYMSGD_INLINE void delay_row(const Row& row, std::size_t i, V* step, double* moves) {
        V own[one ? 2 * panel : 1];
        V* raw = one ? own : model.scratch;
        const bool counts = score_row(row, i, raw, raw + stride(), step);
        for (int c = 0; c < classes(); ++c) {
            if (!counts) step[c] = 0;
            moves[c] = counts ? plan(row, c, raw, step) : 0.0;
        }
        if (counts) model.t += 1.0;
    }

    // Predicts, and leaves in step[class] the gradient, in its lane the factor that makes it the step. False where the
    // row is passed over.
    template <class Row>
    SYMSGD_INLINE bool score_row(const Row& row, std::size_t i, V* raw, V* margin, V* step) {
        if constexpr (keeps_state)
            if (halves())
                for (int c = 0; c < classes(); ++c) catch_up(row, model, lanes[c], c);
        predict(row, raw, margin);
        fetch_from(i);  // while the step waits for its score
        double square = 0.0;
        if (passive_aggressive() || soft_curvature()) {
            square = square_norm(row);
            // scikit-learn's PA-I skips rows without features altogether, but counts their loss
            if (rule.schedule.kind == ScheduleKind::passive_aggressive1 && square == 0.0) square = -1.0;
        }
        const Scored<V> scored{block,      rule, lanes,  classes(), group(), has_tangents(),
                               adaptive(), i,    margin, square,    step};
        if constexpr (known_loss)
            decide_steps<one, usual>(L{rule.loss.parameter}, scored);
        else
            decide_any(scored);
        return usual || square >= 0.0;
    }

    template <class Row>
    SYMSGD_INLINE void predict(const Row& row, V* raw, V* margin) {
        if constexpr (home == Home::split) {
            if constexpr (single)
                raw[0] = dot(row.common, weights());
            else
                for (std::int64_t at = 0; at < stride(); at += panel)
                    dot_panel<panel, 4>(row.common, weights(), 1, at, raw + at);
            predict_rare(row.rare, margin);
        } else if constexpr (single) {
            raw[0] = dot(row, weights());
        } else {
            for (std::int64_t at = 0; at < stride(); at += panel)
                dot_panel<panel>(row, weights(), stride(), at, raw + at);
        }
        // in V throughout: every conversion between float and double is four cycles that the step has to wait for
        for (int c = 0; c < classes(); ++c) {
            V intercept;
            if constexpr (home == Home::shared) {
                intercept = static_cast<V>(Relaxed<double>{model.shared_intercepts}.get(c));
            } else {
                intercept = static_cast<V>(lanes[c].intercept);
            }
            if constexpr (home == Home::split) intercept += margin[c] * static_cast<V>(lanes[c].rare * lanes[c].scale);
            margin[c] = raw[c * group()] * static_cast<V>(lanes[c].scale) + intercept;
        }
    }

    template <class Row>
    SYMSGD_INLINE void predict_rare(const Row& rare, V* margin) {
        if (one) {
            const Relaxed<V> shared{model.rare};
            margin[0] = rare.count < short_row<V> ? dot_rest(rare, 0, shared) : dot(rare, shared);
        } else {
            for (int c = 0; c < classes(); ++c) margin[c] = 0;
            for (std::int64_t j = 0; j < rare.count; ++j)
                for (int c = 0; c < classes(); ++c)
                    margin[c] += Relaxed<V>{model.rare}.get(feature(rare, j) * model.rare_stride + c) * rare.value[j];
        }
    }

    // Turns the gradient of a class into the step of its stored weights and its tangents, decays, and returns what the
    // intercept is to move by.
    template <class Row>
    SYMSGD_INLINE double plan(const Row& row, int c, V* raw, V* step) {
        Lane& lane = lanes[c];
        raw += c * group();
        step += c * group();
        double u = static_cast<double>(step[0]) * lane.factor;
        if (adaptive()) {
            step[0] = static_cast<V>(u);
            lane.gathered += u * u;
            u = lane.gathered > 0.0 ? lane.step_size * u / __builtin_sqrt(lane.gathered) : 0.0;
            if (rule.penalty.l2 != 0.0) decay(lane, c, raw);
            return intercept_move(lane, u);
        }
        const double move = intercept_move(lane, u);
        if constexpr (keeps_state) {
            if (halves()) {
                if (tangents() > 0) plan_tangents(lane, c, raw, step, lane.scale, V{});
                step_halves(row, model, lane, c, u, tangents(), step, lane.step_size * rule.penalty.l1);
                return move;
            }
        }
        const double scale = lane.scale;
        if (rule.penalty.l2 != 0.0) decay(lane, c, raw);
        const V own_step = step[0] * static_cast<V>(lane.factor * lane.inverse);
        if (has_tangents())
            plan_tangents(lane, c, raw, step, scale, own_step);
        else
            step[0] = own_step;
        return move;
    }

    SYMSGD_INLINE static bool tangents_move(const Lane& lane) { return (usual ? lane.slope : lane.response) != 0.0; }

    // The tangents of a step: δu = ∂u/∂p δp, δp = x·(M A) + (its intercept's row), which then moves by κ δu. The step
    // of the weight itself goes in front of them here, in the register: the loads of all of them together would have to
    // wait for a store of its own. The slope of the gradient is known last, and the weight of the next row's score
    // waits for it in that register: everything else is multiplied before.
    SYMSGD_INLINE void plan_tangents(Lane& lane, int c, const V* raw, V* step, double scale, V own_step) {
        constexpr int lanes_at_once = one ? smallest(panel, vector_lanes<V>) : smallest(4, vector_lanes<V>);
        using Few = Vector<V, lanes_at_once>;
        V* intercepts = model.tangent_intercepts + c * group();
        const V before = static_cast<V>(scale), inverse = static_cast<V>(lane.inverse);
        const V kappa = static_cast<V>(rule.fit_intercept ? rule.intercept_decay : 0.0);
        const V factor = static_cast<V>(usual ? lane.factor : lane.response);
        const V slope = usual ? static_cast<V>(lane.slope) : V{1};
        for (int k = 0; k < group(); k += lanes_at_once) {
            const Few at = load<V, lanes_at_once>(intercepts + k);
            const Few move = (load<V, lanes_at_once>(raw + k) * before + at) * factor;
            Few steps = move * inverse * slope, moved = at + move * kappa * slope;
            if (k == 0) {
                steps[0] = own_step;
                moved[0] = 0;
            }
            store<V, lanes_at_once>(step + k, steps);
            store<V, lanes_at_once>(intercepts + k, moved);
        }
        if constexpr (!usual)
            for (int k = model.tangents + 1; k <= model.tangents + model.diagonal; ++k) step[k] = intercepts[k] = 0;
    }

    SYMSGD_INLINE double intercept_move(const Lane& lane, double u) const {
        if (!rule.fit_intercept) return 0.0;
        double move = rule.intercept_decay * (usual ? u : u - lane.step_size * rule.intercept_pull);
        // Rounded before it is added, as scikit-learn does: rows without features are right or wrong by the intercept
        // alone, and a fused multiply-add would tip those that sit on the kink.
        SYMSGD_ROUND(move);
        return move;
    }

    SYMSGD_INLINE void move_intercept(int c, double move) {
        if constexpr (home == Home::shared) {
            if (!rule.fit_intercept) return;
            raise(Relaxed<double>{model.shared_intercepts}, c, move);
        } else {
            lanes[c].intercept += move;
        }
    }

    // L2: w ← max(0, 1 − step × l2) w, on the scale alone, until that has become so small that it is made 1 again and
    // the stored weights, and x·(them), are multiplied.
    SYMSGD_INLINE void decay(Lane& lane, int c, V* raw) {
        // where the scale becomes small, the stored weights are large, and means (see `observe`) lose what is between
        const double smallest_scale = averages() ? 1e-3 : sizeof(V) == 4 ? 1e-6 : 1e-9;
        const double keep = greater(0.0, 1.0 - lane.step_size * rule.penalty.l2);
        lane.scale *= keep;
        if (rule.track_norms) {
            lane.norm2 *= keep * keep;
            lane.norm1 *= keep;
        }
        if (home != Home::shared && lane.scale < smallest_scale) [[unlikely]] {
            raw[0] *= static_cast<V>(lane.scale);
            Lane copy = lane;  // so that the lane itself never needs an address and can stay in registers
            rescale(model, copy, c);
            lane = copy;
        } else {
            lane.inverse /= keep;
        }
    }

    // Moves the weights by what was planned, then the L1 penalty and the averages.
    template <class Row>
    SYMSGD_INLINE void apply(const Row& row, V* raw, V* step) {
        if (!halves()) {
            bool any = false;
            for (int c = 0; c < classes(); ++c)
                any |= step[c * group()] != 0 || (has_tangents() && tangents_move(lanes[c]));
            if (any) move_weights(row, raw, step);
        }
        if constexpr (keeps_state) {
            if (truncates()) {
                for (int c = 0; c < classes(); ++c) {
                    lanes[c].owed += lanes[c].step_size * rule.penalty.l1;
                    truncate(row, model, lanes[c], c, rule.track_norms);
                }
            }
        }
        if (averages() && model.t >= rule.average_from) {
            for (int c = 0; c < classes(); ++c) {
                lanes[c].average_scales += lanes[c].scale;
                lanes[c].intercept_sum += lanes[c].intercept;
            }
            if (tangents() > 0)
                for (std::int64_t k = 0; k < stride(); ++k) model.tangent_sums[k] += model.tangent_intercepts[k];
        }
    }

    template <class Row>
    SYMSGD_INLINE void move_weights(const Row& row, const V* raw, const V* step) {
        if constexpr (home == Home::split) {
            if constexpr (single)
                add(row.common, step[0], weights());
            else
                for (std::int64_t at = 0; at < stride(); at += panel)
                    add_panel<panel, 4>(row.common, step + at, weights(), 1, at);
            move_rare(row.rare, step);
        } else {
            if constexpr (keeps_state) {
                if (adaptive()) return move_adaptive(row, step);
                if (averages() || truncates() || (!usual && rule.track_norms && rule.repeats))
                    return move_observed(row, step);
            }
            if constexpr (single) {
                add(row, step[0], weights());
            } else {
                for (std::int64_t at = 0; at < stride(); at += panel)
                    add_panel<panel>(row, step + at, weights(), stride(), at);
            }
            if (!rule.track_norms) return;
            const double square = square_norm(row);  // |v + u x|² = |v|² + u (2 v·x + u |x|²)
            for (int c = 0; c < classes(); ++c) {
                const double u = step[c * group()];
                lanes[c].squares += u * (2.0 * static_cast<double>(raw[c * group()]) + u * square);
                if (u != 0.0) show_norms(lanes[c]);
            }
        }
    }

    template <class Row>
    SYMSGD_INLINE void move_rare(const Row& rare, const V* step) {
        if (one) {
            add(rare, step[0] * static_cast<V>(lanes[0].rare_inverse), Relaxed<V>{model.rare});
        } else {
            for (std::int64_t j = 0; j < rare.count; ++j)
                for (int c = 0; c < classes(); ++c)
                    raise(Relaxed<V>{model.rare}, feature(rare, j) * model.rare_stride + c,
                          step[c * group()] * static_cast<V>(lanes[c].rare_inverse) * rare.value[j]);
        }
    }

    // The update, feature by feature, where norms or means follow every change.
    template <class Row>
    SYMSGD_INLINE void move_observed(const Row& row, const V* step) {
        for (std::int64_t j = 0; j < row.count; ++j) {
            for (int c = 0; c < classes(); ++c) {
                const std::int64_t first = feature(row, j) * stride() + c * group();
                for (int k = 0; k <= tangents(); ++k) {
                    const std::int64_t at = first + k;
                    const V before = model.weights[at];
                    model.weights[at] += row.value[j] * step[c * group() + k];
                    observe(model, lanes[c], at, before, model.weights[at], rule.track_norms && k == 0);
                }
            }
        }
        for (int c = 0; c < classes(); ++c)
            if (rule.track_norms && step[c * group()] != 0) show_norms(lanes[c]);
    }

    // AdaGrad: G_i ← G_i + (u x_i)², w_i ← w_i + step size × u x_i / √G_i, here u = −weight × g.
    template <class Row>
    SYMSGD_INLINE void move_adaptive(const Row& row, const V* step) {
        for (std::int64_t j = 0; j < row.count; ++j) {
            for (int c = 0; c < classes(); ++c) {
                const std::int64_t at = feature(row, j) * stride() + c;
                const double move = static_cast<double>(step[c]) * row.value[j];
                if (move == 0.0) continue;
                const double gathered = model.gathered[at] + move * move;
                model.gathered[at] = static_cast<V>(gathered);
                const V before = model.weights[at];
                model.weights[at] +=
                    static_cast<V>(lanes[c].step_size * lanes[c].inverse * move / __builtin_sqrt(gathered));
                observe(model, lanes[c], at, before, model.weights[at], false);
            }
        }
    }

    // The objective sees the norm as it was after the last step that moved the weights (as scikit-learn does).
    SYMSGD_INLINE static void show_norms(Lane& lane) {
        lane.norm2 = greater(0.0, lane.squares) * lane.scale * lane.scale;
        lane.norm1 = greater(0.0, lane.sizes) * lane.scale;
    }
};

}  // namespace
}  // namespace symsgd
