// The loop's entry points (see symsgd/learn.hpp): which of its forms a block needs.
#pragma once

#include "curvature-inl.hpp"
#include "loop-inl.hpp"
#include "merge-inl.hpp"
#include "settle-inl.hpp"
#include "slice-inl.hpp"
#include "strip-inl.hpp"

namespace symsgd {
namespace {

// The losses that most trainings use get loops of their own on the rows that most trainings have; f is called with one
// of them or AnyLoss. (Loops for everything would take minutes to compile.)
template <class Rows>
constexpr bool is_common_rows =
    std::is_same_v<Rows, SparseRows<float, std::int32_t>> || std::is_same_v<Rows, SplitRows<float, std::int32_t>> ||
    std::is_same_v<Rows, DenseRows<float>> || (are_copied<Rows> && std::is_same_v<typename Rows::Value, float>);

template <class Rows, class F>
SYMSGD_INLINE void with_common_loss(const Loss& loss, F&& f) {
    if constexpr (!is_common_rows<Rows>) return f(std::type_identity<AnyLoss>{});
    switch (loss.kind) {
        case LossKind::log_loss:
            return f(std::type_identity<LogLoss>{});
        case LossKind::hinge:
        case LossKind::perceptron:
            return f(std::type_identity<Hinge>{});
        case LossKind::squared_error:
            return f(std::type_identity<SquaredError>{});
        default:
            return f(std::type_identity<AnyLoss>{});
    }
}

// One class, its scalars in registers.
template <class Rows, int panel, Home home, class L, bool usual>
void learn_one(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model) {
    Lane lane = model.lanes[0];
    ModelView<typename Rows::Value> local = model;
    Loop<Rows, panel, true, home, L, usual>{rows, block, rule, local, &lane}.run();
    model.lanes[0] = lane;
    model.t = local.t;
}

template <class Rows, int panel, Home home>
void learn_any(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model) {
    Loop<Rows, panel, false, home, AnyLoss, false>{rows, block, rule, model, model.lanes}.run();
}

template <class V>
bool is_usual(const Rule& rule, const ModelView<V>& model) {
    const bool usual_penalty = rule.penalty.kind == PenaltyKind::none || rule.penalty.kind == PenaltyKind::decay;
    return usual_penalty && !is_passive_aggressive(rule.schedule) && rule.average_from == 0.0 && !rule.one_class &&
           rule.intercept_pull == 0.0 && !(rule.track_norms && rule.repeats) && model.gathered == nullptr;
}

template <class Rows>
void learn(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model) {
    const bool usual = is_usual(rule, model);
    if constexpr (Rows::sparse) {
        if (model.held < model.features && model.stride == 1 && usual)
            return with_common_loss<Rows>(rule.loss, [&]<class L>(std::type_identity<L>) {
                learn_one<Rows, 1, Home::held, L, true>(rows, block, rule, model);
            });
    }
    if (model.stride == 1) {
        if (!usual) return learn_one<Rows, 1, Home::own, AnyLoss, false>(rows, block, rule, model);
        return visit(rule.loss, [&](const auto& loss) {
            learn_one<Rows, 1, Home::own, std::remove_cvref_t<decltype(loss)>, true>(rows, block, rule, model);
        });
    }
    if constexpr (!are_copied<Rows>) {  // whose models have no tangents
        if (usual && model.classes == 1 && (model.stride == 8 || model.stride == 16)) {
            return with_common_loss<Rows>(rule.loss, [&]<class L>(std::type_identity<L>) {
                if (model.stride == 8) return learn_one<Rows, 8, Home::own, L, true>(rows, block, rule, model);
                return learn_one<Rows, 16, Home::own, L, true>(rows, block, rule, model);
            });
        }
    }
    with_panel(model.stride, [&](auto panel) { learn_any<Rows, panel, Home::own>(rows, block, rule, model); });
}

template <class Rows>
void learn_shared(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model) {
    if (model.stride == 1) {
        if (!is_usual(rule, model)) return learn_one<Rows, 1, Home::shared, AnyLoss, false>(rows, block, rule, model);
        return with_common_loss<Rows>(rule.loss, [&]<class L>(std::type_identity<L>) {
            learn_one<Rows, 1, Home::shared, L, true>(rows, block, rule, model);
        });
    }
    with_panel(model.stride, [&](auto panel) { learn_any<Rows, panel, Home::shared>(rows, block, rule, model); });
}

// Predictions and updates apart cost more than they could gain from wide panels.
template <class Rows, class F>
SYMSGD_INLINE void with_delayed_loop(const Rows& rows, const Block& block, const Rule& rule,
                                     ModelView<typename Rows::Value>& model, F&& f) {
    if (model.stride == 1)
        f(Loop<Rows, 1, true, Home::shared, AnyLoss, false>{rows, block, rule, model, model.lanes});
    else
        f(Loop<Rows, 4, false, Home::shared, AnyLoss, false>{rows, block, rule, model, model.lanes});
}

template <class Rows>
void delay_shared(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model,
                  const Delayed<typename Rows::Value>& delayed) {
    with_delayed_loop(rows, block, rule, model, [&](auto loop) {
        for (std::size_t i = 0; i < block.count; ++i) {
            loop.begin_row();
            loop.delay_row(row_at(rows, block.order[i]), i, delayed.steps + i * static_cast<std::size_t>(model.stride),
                           delayed.moves + i * static_cast<std::size_t>(model.classes));
        }
    });
}

template <class Rows>
void apply_shared(const Rows& rows, const Block& block, const Rule& rule, ModelView<typename Rows::Value>& model,
                  const Delayed<typename Rows::Value>& delayed) {
    with_delayed_loop(rows, block, rule, model, [&](auto loop) {
        for (std::size_t i = 0; i < block.count; ++i) {
            const double* moves = delayed.moves + i * static_cast<std::size_t>(model.classes);
            for (int c = 0; c < model.classes; ++c) loop.move_intercept(c, moves[c]);
            loop.apply(row_at(rows, block.order[i]), model.scratch,
                       delayed.steps + i * static_cast<std::size_t>(model.stride));
        }
    });
}

template <class V, class I>
void learn_split(const SplitRows<V, I>& rows, const Block& block, const Rule& rule, ModelView<V>& model) {
    using Rows = SplitRows<V, I>;
    if (is_usual(rule, model) && model.classes == 1 && (model.stride == 8 || model.stride == 16)) {
        return with_common_loss<Rows>(rule.loss, [&]<class L>(std::type_identity<L>) {
            if (model.stride == 8) return learn_one<Rows, 8, Home::split, L, true>(rows, block, rule, model);
            return learn_one<Rows, 16, Home::split, L, true>(rows, block, rule, model);
        });
    }
    if (model.stride == 1) return learn_one<Rows, 1, Home::split, AnyLoss, false>(rows, block, rule, model);
    learn_any<Rows, 4, Home::split>(rows, block, rule, model);
}

// Scores of rows [begin, end).
template <class Rows>
void decide(const Rows& rows, std::int64_t begin, std::int64_t end, const typename Rows::Value* weights, int classes,
            int stride, const double* intercept, typename Rows::Value* scores) {
    using V = typename Rows::Value;
    const Plain<V> w{const_cast<V*>(weights)};  // which is only read from
    if (stride == 1) {
        for (std::int64_t r = begin; r < end; ++r) scores[r] = static_cast<V>(dot(row_at(rows, r), w) + intercept[0]);
        return;
    }
    with_panel(stride, [&](auto panel) {
        for (std::int64_t r = begin; r < end; ++r) {
            for (int at = 0; at < stride; at += panel) {
                V part[panel];
                dot_panel<panel>(row_at(rows, r), w, stride, at, part);
                for (int c = at; c < smallest(at + panel, classes); ++c)
                    scores[r * classes + c] = static_cast<V>(part[c - at] + intercept[c]);
            }
        }
    });
}

template <class Rows>
constexpr SplitKernel<Rows> split_kernel{};

template <class V, class I>
constexpr SplitKernel<SparseRows<V, I>> split_kernel<SparseRows<V, I>>{&learn_split<V, I>};

template <class Rows>
constexpr RowKernels<Rows> row_kernels{
    split_kernel<Rows>, {&learn<Rows>}, &learn_shared<Rows>, &delay_shared<Rows>, &apply_shared<Rows>, &decide<Rows>,
};

template <class V>
bool settle(const V* const* q, int columns, const V* scores, const V* squares, const Block& block, const Rule& rule,
            ModelView<V>& model, V* moved, V* steps) {
    if (model.stride != 1 || block.count != settled_rows || !is_usual(rule, model)) return false;
    return visit(rule.loss, [&](const auto& loss) {
        return Settled<V>(q, columns, scores, squares, block, rule, model, moved, steps).run(loss);
    });
}

template <class V>
constexpr GramKernels<V> gram_kernels{&learn<GramRows<V>>, &settle<V>,      &multiply_slice<V>, &score_slice<V>,
                                      &project_rows<V>,    &square_rows<V>, &add_parts<V>,      &move_slice<V>};

template <class... Rows, class... Copied>
constexpr Kernels all_kernels(const char* name, std::type_identity<std::tuple<RowKernels<Rows>...>>,
                              std::type_identity<std::tuple<OwnKernels<Copied>...>>) {
    return {name,
            {row_kernels<Rows>...},
            {OwnKernels<Copied>{&learn<Copied>}...},
            {model_kernels<float>, model_kernels<double>},
            {curvature_kernels<float>, curvature_kernels<double>},
            {gram_kernels<float>, gram_kernels<double>},
            {strip_kernels<float>, strip_kernels<double>}};
}

constexpr Kernels all_kernels(const char* name) {
    return all_kernels(name, std::type_identity<decltype(Kernels::rows)>{},
                       std::type_identity<decltype(Kernels::copied)>{});
}

}  // namespace
}  // namespace symsgd
