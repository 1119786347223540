// The steps of 16 rows at once, for the chain of strategies/directions.cpp.
//
// The prediction of row i waits for the steps of the rows before it, p_i = p°_i + Σ_{j<i} C_ij u_j, and each of them
// for a prediction: a step takes some 75 cycles after the one before. But steps are small, and what they change of the
// gradients of the next rows is smaller. So all 16 gradients are taken from p°, then from the predictions that those
// give, and so on, until none changes: three or four times, each as long as one step. Row i is exact after i times
// whatever the loss; if they have not settled soon, the loop itself goes through the rows.
//
// C_ij has the product of the rows along the directions, q_i·q_j, the decay of the weights between the two steps, and
// the intercept, which moves by κ u_j.
#pragma once

#include "decide-inl.hpp"
#include "symsgd/learn.hpp"
#include "vector-inl.hpp"

namespace symsgd {
namespace {

constexpr int settled_rows = 16;

// a and b with every other run of `half` numbers exchanged: a step of turning rows into columns.
template <int half, class R, int... K>
SYMSGD_INLINE void exchange(R& a, R& b, std::integer_sequence<int, K...>) {
    const R first = __builtin_shufflevector(a, b, (K & half ? settled_rows + K - half : K)...);
    b = __builtin_shufflevector(a, b, (K & half ? settled_rows + K : K + half)...);
    a = first;
}

template <int half, class R>
SYMSGD_INLINE void turn_by(R* rows) {
#pragma GCC unroll 16
    for (int i = 0; i < settled_rows; ++i)
        if ((i & half) == 0) exchange<half>(rows[i], rows[i + half], std::make_integer_sequence<int, settled_rows>());
}

template <class V>
class Settled {
    static constexpr int n = settled_rows, most_sweeps = 10, least_sweeps = 2;
    static constexpr int most_columns = 256;
    static constexpr double enough = sizeof(V) == 4 ? 2e-7 : 4e-16;  // of a gradient, or of 1
    static constexpr double smallest_scale = sizeof(V) == 4 ? 1e-6 : 1e-9;
    using R = Vector<V, n>;

public:
    // What is found on the way is left uninitialised: zeros would take longer than some of it.
    SYMSGD_INLINE Settled(const V* const* q, int columns, const V* scores, const V* squares, const Block& block,
                          const Rule& rule, ModelView<V>& model, V* moved, V* steps)
        : q(q),
          columns(columns),
          scores(scores),
          squares(squares),
          block(block),
          rule(rule),
          model(model),
          moved(moved),
          steps(steps) {}

    template <class L>
    SYMSGD_INLINE bool run(const L& loss) {
        if (columns > most_columns || !plan()) return false;
        const R own_scale = load<V, n>(scale), inverse = all<R>(1) / load<V, n>(after);
        const R start = own_scale * multiply() + static_cast<V>(model.lanes[0].intercept);
        respond(own_scale, inverse);
        const R y = load<V, n>(target), factors = load<V, n>(factor);
        alignas(64) V u[n];
        R p = start, step{}, likelihood{};
        for (int sweep = 0;; ++sweep) {
            if (sweep == most_sweeps) return false;
            const R g = gradient(loss, p, y, likelihood);
            const R next = factors * g, change = next - step;
            step = next;
            if (sweep >= least_sweeps && settled(change, factors, g)) break;
            store<V, n>(u, step);
            R total[4]{start};
#pragma GCC unroll 16
            for (int j = 0; j < n; ++j) total[j % 4] += response[j] * u[j];
            p = (total[0] + total[1]) + (total[2] + total[3]);
        }
        const V sum_of_steps = sum<V, n>(step);
        if (!(sum_of_steps - sum_of_steps == 0)) return false;  // not finite
        store<V, n>(u, step);
        add_losses(loss, p, y, likelihood);
        const R stored = step * inverse;
        store<V, n>(steps, stored);
        if (rule.track_norms) follow_norms(p, u);
        move();
        Lane& lane = model.lanes[0];
        lane.step_size = last_size;
        lane.scale = scale_after[n - 1];
        lane.inverse = 1.0 / lane.scale;
        if (rule.fit_intercept) lane.intercept += rule.intercept_decay * static_cast<double>(sum_of_steps);
        model.t += n;
        return true;
    }

private:
    const V* const* q;
    int columns;
    const V* scores;   // of the rows by the weights, without the steps that `moved` has
    const V* squares;  // |x|²
    const Block& block;
    const Rule& rule;
    ModelView<V>& model;
    V* moved;  // what steps have moved along the directions
    V* steps;

    // What does not depend on the rows: step sizes, and how weights decay.
    double scale_after[n], last_size;
    alignas(64) V scale[n], after[n], factor[n], target[n];
    R response[n];  // by the step of row j, of the predictions of all rows
    R turned[most_columns];

    SYMSGD_INLINE bool plan() {
        const Lane& lane = model.lanes[0];
        double size = lane.step_size, now = lane.scale;
        const bool scheduled = depends_on_time(rule.schedule);
        for (int i = 0; i < n; ++i) {
            if (scheduled) size = scheduled_step(rule.schedule, model.t + i);
            scale[i] = static_cast<V>(now);
            if (rule.penalty.l2 != 0.0) now *= greater(0.0, 1.0 - size * rule.penalty.l2);
            scale_after[i] = now;
            after[i] = static_cast<V>(now);
            factor[i] = static_cast<V>(-size * block.weight[i]);
            target[i] = static_cast<V>(block.target[i]);
        }
        if (now < 2 * smallest_scale) return false;  // it will be made 1 again, by the loop
        last_size = size;
        return true;
    }

    // Rows become columns; scores with what has moved.
    SYMSGD_INLINE R multiply() {
        R total = load<V, n>(scores), other{};
        for (int at = 0; at < columns; at += n) {
            R* const own = turned + at;
#pragma GCC unroll 16
            for (int i = 0; i < n; ++i) own[i] = load<V, n>(q[i] + at);
            turn_by<8>(own);
            turn_by<4>(own);
            turn_by<2>(own);
            turn_by<1>(own);
#pragma GCC unroll 16
            for (int k = 0; k < n; k += 2) {
                total += own[k] * moved[at + k];
                other += own[k + 1] * moved[at + k + 1];
            }
        }
        return total + other;
    }

    SYMSGD_INLINE void respond(R own_scale, R inverse) {
        constexpr int few = 4;
        const V kappa = rule.fit_intercept ? static_cast<V>(rule.intercept_decay) : V{};
        BitsOf<R> place;
        for (int i = 0; i < n; ++i) place[i] = i;
        for (int j = 0; j < n; j += few) {
            R product[few]{};
            for (int k = 0; k < columns; ++k)
#pragma GCC unroll 4
                for (int e = 0; e < few; ++e) product[e] += turned[k] * q[j + e][k];
#pragma GCC unroll 4
            for (int e = 0; e < few; ++e)
                response[j + e] = place > j + e ? own_scale * product[e] * inverse[j + e] + kappa : R{};
        }
    }

    template <class L>
    SYMSGD_INLINE static R gradient(const L& loss, R p, R y, R& likelihood) {
        if constexpr (requires { L::likelihood_holds_above; }) {
            return loss.gradient(p, y, likelihood);
        } else {
            R g = loss.gradient(p, y);
            if constexpr (!L::bounded_gradient) {
                const R most = all<R>(largest_gradient);
                g = g > most ? most : g < -most ? -most : g;
            }
            return g;
        }
    }

    SYMSGD_INLINE static bool settled(R change, R factors, R g) {
        const R most = factors * all<R>(enough) * (g * g > 1 ? g : all<R>(1));
        const R moves = change * change > most * most ? all<R>(1) : R{};
        return sum<V, n>(moves) == 0;
    }

    template <class L>
    SYMSGD_INLINE void add_losses(const L& loss, R p, R y, R likelihood) {
        Lane& lane = model.lanes[0];
        if constexpr (requires { L::likelihood_holds_above; }) {
            const R far = y * p < all<R>(-20) ? all<R>(1) : R{};
            if (sum<V, n>(far) == 0) {  // so that no product is out of range
                double product[4]{1, 1, 1, 1};
                for (int i = 0; i < n; ++i) product[i % 4] *= static_cast<double>(likelihood[i]);
                lane.loss -= __builtin_log((product[0] * product[1]) * (product[2] * product[3]));
                return;
            }
        }
        for (int i = 0; i < n; ++i) lane.loss += loss.value(static_cast<double>(p[i]), static_cast<double>(y[i]));
    }

    // The objective and the norms, as the loop has them.
    SYMSGD_INLINE void follow_norms(R p, const V* u) {
        Lane& lane = model.lanes[0];
        double intercept = lane.intercept, before = lane.scale;
        for (int i = 0; i < n; ++i) {
            lane.objective += 0.5 * rule.penalty.l2 * lane.norm2 + rule.penalty.l1 * lane.norm1;
            const double keep = scale_after[i] / before, raw = (static_cast<double>(p[i]) - intercept) / before;
            before = scale_after[i];
            lane.norm2 *= keep * keep;
            lane.norm1 *= keep;
            const double step = static_cast<double>(steps[i]);
            lane.squares += step * (2.0 * raw + step * static_cast<double>(squares[i]));
            if (step != 0.0) lane.norm2 = greater(0.0, lane.squares) * before * before;
            if (rule.fit_intercept) intercept += rule.intercept_decay * static_cast<double>(u[i]);
        }
    }

    SYMSGD_INLINE void move() {
        for (int at = 0; at < columns; at += n) {
            R even = load<V, n>(moved + at), odd{};
#pragma GCC unroll 16
            for (int i = 0; i < n; i += 2) {
                even += load<V, n>(q[i] + at) * steps[i];
                odd += load<V, n>(q[i + 1] + at) * steps[i + 1];
            }
            store<V, n>(moved + at, even + odd);
        }
    }
};

}  // namespace
}  // namespace symsgd
