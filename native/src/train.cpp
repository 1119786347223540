#include "symsgd/train.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

#include "symsgd/features.hpp"

namespace symsgd {

ModelNeeds needs_of(const TrainingSpec& spec) {
    return {.received = spec.rule.penalty.kind == PenaltyKind::truncate,
            .halves = spec.rule.penalty.kind == PenaltyKind::halves,
            .average = spec.rule.average_from > 0.0,
            .gathered = spec.strategy.combiner == CombinerKind::adagrad && spec.strategy.kind == StrategyKind::rounds};
}

namespace {

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_strategy(const StrategySpec& spec) {
    if constexpr (are_copied<Rows>) {
        return make_curvature<Rows>(spec);  // no other asks for copies
    } else {
        switch (spec.kind) {
            case StrategyKind::sequential:
                return make_sequential<Rows>(spec);
            case StrategyKind::hogwild:
            case StrategyKind::hogbatch:
            case StrategyKind::round_robin:
                return make_shared_memory<Rows>(spec);
            case StrategyKind::rounds:
                return make_rounds<Rows>(spec);
            case StrategyKind::curvature:
                return make_curvature<Rows>(spec);
            case StrategyKind::parameter_server:
            case StrategyKind::asynchronous:
                return make_asynchronous<Rows>(spec);
            case StrategyKind::async_curvature:
                return make_async_curvature<Rows>(spec);
            case StrategyKind::sliced:
                return make_sliced<Rows>(spec);
            case StrategyKind::directions:
                return make_directions<Rows>(spec);
        }
        __builtin_unreachable();
    }
}

// Rows with the frequent features in front, for a strategy that asks for them: copied from the caller's.
template <class Rows>
struct ByFrequency {
    void renumber(Workspace<Rows>&) {}
};

template <class V, class To>
    requires(sizeof(To) <= 4)  // features are never so many that their numbers need more
struct ByFrequency<SparseRows<V, To>> {
    static constexpr std::int64_t sample_entries = 1'000'000;

    // Done in the first pass, whose time it belongs to.
    void renumber(Workspace<SparseRows<V, To>>& work) {
        if (std::holds_alternative<std::monostate>(source) || features) return;
        const int threads = work.spec.strategy.cores;
        std::visit(
            [&]<class Source>(const Source& rows) {
                if constexpr (!std::is_same_v<Source, std::monostate>) {
                    features.emplace(rows, sample_entries, threads);
                    index = renumbered<To>(rows, *features, threads);
                }
            },
            source);
        work.rows.index = index.data();
        work.features = &*features;
        work.model.renumber(features->original());
    }

    std::variant<std::monostate, SparseRows<V, std::int32_t>, SparseRows<V, std::int64_t>> source;
    std::optional<FeatureOrder> features;
    Array<To> index;
};

template <class Rows>
class TrainingOf final : public Training<typename Rows::Value> {
    using V = typename Rows::Value;

public:
    explicit TrainingOf(const Rows& rows, const TrainingSpec& spec, ByFrequency<Rows> by_frequency = {})
        : work_{rows, spec, Order(spec.order, rows.rows, spec.seed, spec.held_out),
                Model<V>(rows.features, static_cast<int>(spec.targets.positive_weight.size()), needs_of(spec),
                         spec.strategy.renumber ? Pages::as_they_come : Pages::huge),
                kernels()},
          by_frequency_(std::move(by_frequency)),
          strategy_(make_strategy<Rows>(spec.strategy)) {
        // a block has all rows at most, so that no product with its size overflows
        StrategySpec& strategy = work_.spec.strategy;
        strategy.block_size = std::min(strategy.block_size, std::max<std::int64_t>(1, rows.rows));
        if (spec.mapped) {
            ahead_.emplace(arrays_of(work_.rows, work_.spec.targets), rows.rows, spec.memory);
            work_.ahead = &*ahead_;
        }
        work_.model.set_t(spec.t);
        for (Lane& lane : work_.model.lanes()) lane.step_size = spec.rule.schedule.step_size;
    }

    PassSums run_pass(const ShouldStop& should_stop) override {
        by_frequency_.renumber(work_);
        begin_pass();
        PassSums sums;
        {
            const ReadAhead::Pass reading(work_.ahead, work_.order);
            strategy_->run_pass(work_, should_stop, sums);
        }
        ++work_.pass;
        ModelView<V> view = work_.model.view();
        work_.kernels.template of_models<V>().finish_pass(work_.spec.rule, view);
        read_sums(sums);
        return sums;
    }

    void keep_classes(const std::vector<int>& classes) override {
        Model<V> kept(work_.rows.features, static_cast<int>(classes.size()), needs_of(work_.spec));
        kept.copy_classes(work_.model, classes);
        kept.set_t(work_.model.t());
        Targets& targets = work_.spec.targets;
        for (std::vector<double>* column : {&targets.class_ids, &targets.positive_weight, &targets.negative_weight}) {
            std::vector<double> rest;
            for (const int c : classes) rest.push_back((*column)[static_cast<std::size_t>(c)]);
            *column = std::move(rest);
        }
        work_.model = std::move(kept);
    }

    std::vector<std::int64_t> active() const override {
        return {work_.spec.targets.class_ids.begin(), work_.spec.targets.class_ids.end()};
    }

    void set_step_size(int c, double step_size) override { lane(c).step_size = step_size; }
    double step_size(int c) const override { return work_.model.lanes()[static_cast<std::size_t>(c)].step_size; }
    Model<V>& model() override { return work_.model; }

    double averaged_steps() const override {
        const double from = work_.spec.rule.average_from;
        return from > 0.0 ? std::max(0.0, work_.model.t() - from) : 0.0;
    }

    std::string save() override {
        StateWriter state;
        Targets& targets = work_.spec.targets;
        state(work_.pass, targets.class_ids);
        state(work_.model);
        strategy_->save(work_, state);
        return state.take();
    }

    void resume(std::span<const char> bytes) override {
        StateReader state(bytes);
        by_frequency_.renumber(work_);
        std::int64_t passes = 0;
        std::vector<double> ids;
        state(passes, ids);
        std::vector<int> classes;
        for (const double id : ids) classes.push_back(static_cast<int>(id));
        if (ids != work_.spec.targets.class_ids) keep_classes(classes);
        state(work_.model);
        if (passes == 0) return;
        work_.order.begin_pass(0);
        strategy_->resume(work_, state);
        state.end();
        // a permutation of what the pass before has left; the other orders do not look back
        for (std::int64_t pass = 1; work_.spec.order == OrderKind::full && pass < passes; ++pass)
            work_.order.begin_pass(pass);
        work_.pass = passes;
    }

private:
    Lane& lane(int c) { return work_.model.lanes()[static_cast<std::size_t>(c)]; }
    // Whether the lanes add up the penalty that every row has met.
    bool follows_penalty() const {
        const StrategyKind kind = work_.spec.strategy.kind;
        return kind == StrategyKind::sequential || kind == StrategyKind::sliced || kind == StrategyKind::directions ||
               kind == StrategyKind::curvature;
    }

    void begin_pass() {
        work_.order.begin_pass(work_.pass);
        if (work_.pass == 0 && work_.spec.rule.track_norms) {
            ModelView<V> view = work_.model.view();
            work_.kernels.template of_models<V>().measure(view);
            for (Lane& lane : work_.model.lanes()) {
                lane.norm2 = lane.squares;
                lane.norm1 = lane.sizes;
            }
        }
        for (Lane& lane : work_.model.lanes()) {
            lane.loss = lane.objective = 0.0;
            lane.likelihood = 1.0;
        }
    }

    void read_sums(PassSums& sums) const {
        const double rows = std::max<double>(1.0, static_cast<double>(sums.rows));
        const Rule& rule = work_.spec.rule;
        for (const Lane& lane : work_.model.lanes()) {
            const double loss = lane.loss / rows;
            double penalty = lane.objective / rows;
            // Lasso shrinks unseen weights lazily, and threads know no norms but their own: there the penalty is that
            // of the model at the end of the pass
            if (rule.penalty.kind == PenaltyKind::halves)
                penalty = rule.penalty.l1 * lane.norm1;
            else if (!follows_penalty() && rule.track_norms && !is_passive_aggressive(rule.schedule))
                penalty = penalty_of(rule, lane);
            sums.loss.push_back(loss);
            sums.objective.push_back(loss + penalty);
        }
    }

    Workspace<Rows> work_;
    ByFrequency<Rows> by_frequency_;
    std::optional<ReadAhead> ahead_;
    std::unique_ptr<Strategy<Rows>> strategy_;
};

}  // namespace

namespace {

// The indices of the copy come with the first pass.
template <class To, class V, class I>
std::unique_ptr<Training<V>> make_renumbered(const SparseRows<V, I>& rows, const TrainingSpec& spec) {
    using Copied = SparseRows<V, To>;
    return std::make_unique<TrainingOf<Copied>>(Copied{rows.start, nullptr, rows.value, rows.rows, rows.features}, spec,
                                                ByFrequency<Copied>{.source = rows, .features = {}, .index = {}});
}

}  // namespace

template <class Rows>
std::unique_ptr<Training<typename Rows::Value>> make_training(const Rows& rows, const TrainingSpec& spec) {
    if constexpr (Rows::sparse) {
        if (spec.strategy.renumber && spec.strategy.kind == StrategyKind::curvature) {
            if (rows.features <= std::int64_t{1} << 16) return make_renumbered<std::uint16_t>(rows, spec);
            return make_renumbered<std::int32_t>(rows, spec);
        }
    }
    return std::make_unique<TrainingOf<Rows>>(rows, spec);
}

Loss loss_named(const std::string& name, double parameter) {
#define SYMSGD_NAME(kind, type, fixed) \
    if (name == #kind) return {LossKind::kind, std::isnan(fixed) ? parameter : fixed};
    SYMSGD_LOSSES(SYMSGD_NAME)
#undef SYMSGD_NAME
    throw std::invalid_argument("unknown loss " + name);
}

double optimal_start(const Loss& loss, double alpha) {
    const double typical = std::sqrt(1.0 / std::sqrt(alpha));
    const double g = visit(loss, [&](const auto& l) { return l.gradient(-typical, 1.0); });
    return 1.0 / (typical / std::max(1.0, g) * alpha);
}

template std::unique_ptr<Training<float>> make_training(const SparseRows<float, std::int32_t>&, const TrainingSpec&);
template std::unique_ptr<Training<float>> make_training(const SparseRows<float, std::int64_t>&, const TrainingSpec&);
template std::unique_ptr<Training<double>> make_training(const SparseRows<double, std::int32_t>&, const TrainingSpec&);
template std::unique_ptr<Training<double>> make_training(const SparseRows<double, std::int64_t>&, const TrainingSpec&);
template std::unique_ptr<Training<float>> make_training(const DenseRows<float>&, const TrainingSpec&);
template std::unique_ptr<Training<double>> make_training(const DenseRows<double>&, const TrainingSpec&);

}  // namespace symsgd
