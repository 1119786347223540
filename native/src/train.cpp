#include "symsgd/train.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

namespace symsgd {

namespace {

// Places between two looks at the clock: a window, or fewer where rows are so long that a window takes too long.
constexpr std::int64_t most_places = Order::window_rows;
constexpr std::int64_t slice_work = std::int64_t{1} << 24;  // multiply-adds, some ten milliseconds
constexpr auto ask_every = std::chrono::milliseconds(20);

template <class Rows>
class SequentialTraining final : public Training<typename Rows::Value> {
    using V = typename Rows::Value;

public:
    SequentialTraining(const Rows& rows, const TrainingSpec& spec)
        : rows_(rows),
          spec_(spec),
          order_(spec.order, rows.rows, spec.seed, spec.held_out),
          model_(rows.features, static_cast<int>(spec.targets.positive_weight.size()), needs(spec.rule)),
          kernels_(kernels()) {
        model_.set_t(spec.t);
        for (Lane& lane : model_.lanes()) lane.step_size = spec_.rule.schedule.step_size;
    }

    PassSums run_pass(const ShouldStop& should_stop) override {
        begin_pass();
        PassSums sums;
        ModelView<V> view = model_.view();
        // this slice and the next one, whose first rows are fetched while this one is trained
        std::int64_t buffer[2 * most_places];
        double target[most_places];
        double weight[most_places];
        const std::int64_t slice_places = slice();
        std::size_t count = write_slice(0, slice_places, buffer);
        auto asked = std::chrono::steady_clock::now();
        for (std::int64_t place = 0; place < order_.places() && !sums.stopped; place += slice_places) {
            const std::size_t next = write_slice(place + slice_places, slice_places, buffer + count);
            spec_.targets.read(buffer, count, target, weight);
            const Targets& targets = spec_.targets;
            const Block block{buffer,
                              count,
                              count + next,
                              target,
                              weight,
                              targets.class_ids.data(),
                              targets.positive_weight.data(),
                              targets.negative_weight.data()};
            kernels_.of_rows<Rows>().learn(rows_, block, spec_.rule, view);
            sums.rows += static_cast<std::int64_t>(count);
            std::copy_n(buffer + count, next, buffer);
            count = next;
            const auto now = std::chrono::steady_clock::now();
            if (now - asked > ask_every) {
                asked = now;
                sums.stopped = should_stop();
            }
        }
        kernels_.of_models<V>().finish_pass(spec_.rule, view);
        model_.set_t(view.t);
        read_sums(sums);
        return sums;
    }

    void keep_classes(const std::vector<int>& classes) override {
        Model<V> kept(rows_.features, static_cast<int>(classes.size()), needs(spec_.rule));
        kept.copy_classes(model_, classes);
        kept.set_t(model_.t());
        Targets& targets = spec_.targets;
        for (std::vector<double>* column : {&targets.class_ids, &targets.positive_weight, &targets.negative_weight}) {
            std::vector<double> rest;
            for (const int c : classes) rest.push_back((*column)[static_cast<std::size_t>(c)]);
            *column = std::move(rest);
        }
        model_ = std::move(kept);
    }

    std::vector<std::int64_t> active() const override {
        return {spec_.targets.class_ids.begin(), spec_.targets.class_ids.end()};
    }

    void set_step_size(int c, double step_size) override { lane(c).step_size = step_size; }
    double step_size(int c) const override { return model_.lanes()[static_cast<std::size_t>(c)].step_size; }
    Model<V>& model() override { return model_; }

    double averaged_steps() const override {
        const double from = spec_.rule.average_from;
        return from > 0.0 ? std::max(0.0, model_.t() - from) : 0.0;
    }

private:
    static typename Model<V>::Needs needs(const Rule& rule) {
        return {.received = rule.penalty.kind == PenaltyKind::truncate,
                .halves = rule.penalty.kind == PenaltyKind::halves,
                .average = rule.average_from > 0.0};
    }

    std::int64_t slice() const {
        std::int64_t entries;
        if constexpr (Rows::sparse)
            entries = static_cast<std::int64_t>(rows_.start[rows_.rows]);
        else
            entries = rows_.rows * rows_.features;
        const std::int64_t work = 1 + entries / rows_.rows * stride_for(model_.classes());
        return std::clamp<std::int64_t>(slice_work / work, 1, most_places);
    }

    std::size_t write_slice(std::int64_t place, std::int64_t slice_places, std::int64_t* out) const {
        const std::int64_t begin = std::min(place, order_.places());
        return order_.write(begin, std::min(begin + slice_places, order_.places()), out);
    }

    Lane& lane(int c) { return model_.lanes()[static_cast<std::size_t>(c)]; }

    void begin_pass() {
        order_.begin_pass(pass_);
        if (pass_++ == 0 && spec_.rule.track_norms) {
            ModelView<V> view = model_.view();
            kernels_.of_models<V>().measure(view);
            for (Lane& lane : model_.lanes()) {
                lane.norm2 = lane.squares;
                lane.norm1 = lane.sizes;
            }
        }
        for (Lane& lane : model_.lanes()) {
            lane.loss = lane.objective = 0.0;
            lane.likelihood = 1.0;
        }
    }

    void read_sums(PassSums& sums) const {
        const double rows = std::max<double>(1.0, static_cast<double>(sums.rows));
        for (const Lane& lane : model_.lanes()) {
            const double loss = lane.loss / rows;
            // Lasso shrinks unseen weights lazily, so its penalty is taken once, at the end of the pass
            const double penalty = spec_.rule.penalty.kind == PenaltyKind::halves ? spec_.rule.penalty.l1 * lane.norm1
                                                                                  : lane.objective / rows;
            sums.loss.push_back(loss);
            sums.objective.push_back(loss + penalty);
        }
    }

    Rows rows_;
    TrainingSpec spec_;
    Order order_;
    Model<V> model_;
    const Kernels& kernels_;
    std::int64_t pass_ = 0;
};

}  // namespace

template <class Rows>
std::unique_ptr<Training<typename Rows::Value>> make_training(const Rows& rows, const TrainingSpec& spec) {
    return std::make_unique<SequentialTraining<Rows>>(rows, spec);
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
