// Small problems made up on the spot, and trainings of them: what sanitize.cpp puts through the core.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "symsgd/train.hpp"

namespace symsgd::tests {

struct Shape {
    std::int64_t rows = 61;
    std::int64_t features = 19;
    int entries = 6;  // of a sparse row, on average; 0: every row is empty
    int classes = 1;
    bool repeats = true;  // a row may have a feature more than once
    bool hold_all_out = false;
};

// The arrays behind rows. A third of the features take most of the entries, and every seventh sparse row is empty.
template <class Rows>
struct Arrays;

template <class V, class I>
struct Arrays<SparseRows<V, I>> {
    std::vector<I> start{0}, index;
    std::vector<V> value;

    Arrays(const Shape& shape, std::mt19937& random) {
        std::normal_distribution<double> normal(0.0, 0.5);
        std::uniform_real_distribution<double> uniform;
        for (std::int64_t r = 0; r < shape.rows; ++r) {
            const int count = r % 7 == 6 ? 0 : static_cast<int>(2.0 * shape.entries * uniform(random));
            std::vector<I> features;
            for (int j = 0; j < count; ++j) {
                const double u = uniform(random);
                const auto feature = static_cast<I>(static_cast<double>(shape.features) * u * u * u);
                if (shape.repeats || std::find(features.begin(), features.end(), feature) == features.end())
                    features.push_back(feature);
            }
            for (const I feature : features) {
                index.push_back(feature);
                value.push_back(static_cast<V>(normal(random)));
            }
            start.push_back(static_cast<I>(index.size()));
        }
    }

    SparseRows<V, I> view(const Shape& shape) const {
        return {start.data(), index.data(), value.data(), shape.rows, shape.features};
    }
    template <class F>
    void for_entries(const Shape&, std::int64_t r, F&& f) const {
        for (auto j = static_cast<std::size_t>(start[static_cast<std::size_t>(r)]);
             j < static_cast<std::size_t>(start[static_cast<std::size_t>(r) + 1]); ++j)
            f(static_cast<std::size_t>(index[j]), static_cast<double>(value[j]));
    }
};

template <class V>
struct Arrays<DenseRows<V>> {
    std::vector<V> value;

    Arrays(const Shape& shape, std::mt19937& random) : value(static_cast<std::size_t>(shape.rows * shape.features)) {
        std::normal_distribution<double> normal(0.0, 0.3);
        for (V& v : value) v = static_cast<V>(shape.entries == 0 ? 0.0 : normal(random));
    }

    DenseRows<V> view(const Shape& shape) const { return {value.data(), shape.rows, shape.features}; }
    template <class F>
    void for_entries(const Shape& shape, std::int64_t r, F&& f) const {
        for (std::int64_t j = 0; j < shape.features; ++j)
            f(static_cast<std::size_t>(j),
              static_cast<double>(value[static_cast<std::size_t>(r * shape.features + j)]));
    }
};

// Rows with numbers to predict, classes and weights that go with a random linear model.
template <class Rows>
class Problem {
public:
    explicit Problem(const Shape& s)
        : shape(s), random_(static_cast<unsigned>(s.rows + s.classes)), arrays_(s, random_) {
        std::normal_distribution<double> normal;
        std::vector<double> truth(static_cast<std::size_t>(s.features * s.classes));
        for (double& w : truth) w = normal(random_);
        for (std::int64_t r = 0; r < s.rows; ++r) {
            std::vector<double> scores(static_cast<std::size_t>(s.classes), 0.0);
            for (int c = 0; c < s.classes; ++c) {
                scores[static_cast<std::size_t>(c)] = 0.1 * normal(random_);
                arrays_.for_entries(s, r, [&](std::size_t i, double x) {
                    scores[static_cast<std::size_t>(c)] +=
                        x * truth[i * static_cast<std::size_t>(s.classes) + static_cast<std::size_t>(c)];
                });
            }
            numbers.push_back(static_cast<float>(scores[0]));
            const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
            labels.push_back(s.classes == 1 ? static_cast<std::int32_t>(scores[0] > 0)
                                            : static_cast<std::int32_t>(best));
            weights.push_back(0.5 + static_cast<double>(r % 3));
            held_out.push_back(s.hold_all_out || r % 5 == 3);
        }
    }

    Rows rows() const { return arrays_.view(shape); }

    Shape shape;
    std::vector<float> numbers;
    std::vector<std::int32_t> labels;
    std::vector<double> weights;
    std::vector<std::uint8_t> held_out;

private:
    std::mt19937 random_;
    Arrays<Rows> arrays_;
};

struct Case {
    StrategySpec strategy{};
    LossKind loss = LossKind::squared_error;
    PenaltyKind penalty = PenaltyKind::none;
    ScheduleKind schedule = ScheduleKind::constant;
    OrderKind order = OrderKind::storage;
    double step_size = 0.02;
    double l2 = 0.01;
    double l1 = 0.01;
    bool fit_intercept = true;
    bool average = false;
    bool track_norms = false;
    bool soft_curvature = false;
    bool weighted = false;
    bool holds_out = false;
    int passes = 2;
    bool drops_classes = true;  // the last but one ends after the first pass
    bool mapped = false;        // as if the rows were in a file
    std::int64_t memory = std::int64_t{1} << 62;
    bool resumes = false;  // after the first pass, by another training, from what this one has saved
};

inline std::string described(const Case& a, const std::string& what) {
    const StrategySpec& s = a.strategy;
    const auto number = [](auto x) { return std::to_string(static_cast<long>(x)); };
    return what + ": strategy " + number(s.kind) + " combiner " + number(s.combiner) + " k " + number(s.k) + " keep " +
           number(s.keep) + " threads " + number(s.threads) + " cores " + number(s.cores) + " block " +
           number(s.block_size) + " batch " + number(s.batch_size) + ", loss " + number(a.loss) + " penalty " +
           number(a.penalty) + " schedule " + number(a.schedule) + " order " + number(a.order) + " average " +
           number(a.average) + " norms " + number(a.track_norms) + " soft " + number(a.soft_curvature) + " weighted " +
           number(a.weighted) + " holds out " + number(a.holds_out) + " intercept " + number(a.fit_intercept);
}

template <class Rows>
TrainingSpec spec_of(const Problem<Rows>& problem, const Case& a) {
    TrainingSpec spec;
    const bool margin = a.loss == LossKind::log_loss || a.loss == LossKind::hinge;
    const auto classes = static_cast<std::size_t>(problem.shape.classes);
    Targets& targets = spec.targets;
    if (classes > 1)
        targets.kind = TargetKind::classes;
    else
        targets.kind = margin ? TargetKind::binary : TargetKind::real;
    if (targets.kind == TargetKind::real)
        targets.labels = {problem.numbers.data(), Number::float32};
    else
        targets.labels = {problem.labels.data(), Number::int32};
    if (a.weighted) targets.sample_weight = {problem.weights.data(), Number::float64};
    for (std::size_t c = 0; c < classes; ++c) {
        targets.class_ids.push_back(static_cast<double>(c));
        targets.positive_weight.push_back(1.0 + (a.weighted ? 0.5 * static_cast<double>(c) : 0.0));
        targets.negative_weight.push_back(1.0);
    }
    Rule& rule = spec.rule;
    rule.loss = {a.loss, a.loss == LossKind::hinge ? 1.0 : 0.1};
    rule.penalty.kind = a.penalty;
    if (a.penalty == PenaltyKind::decay || a.penalty == PenaltyKind::truncate) rule.penalty.l2 = a.l2;
    if (a.penalty == PenaltyKind::halves || a.penalty == PenaltyKind::truncate) rule.penalty.l1 = a.l1;
    rule.schedule = {a.schedule, a.step_size, 0.25, 0.1, 0.0};
    if (a.schedule == ScheduleKind::optimal) rule.schedule.t0 = optimal_start(rule.loss, rule.schedule.alpha) + 100.0;
    rule.fit_intercept = a.fit_intercept;
    rule.intercept_decay = Rows::sparse ? 0.01 : 1.0;
    rule.average_from = a.average ? 20.0 : 0.0;
    rule.track_norms = a.track_norms;
    rule.repeats = Rows::sparse && problem.shape.repeats;
    rule.soft_curvature = a.soft_curvature && gradient_jumps(rule.loss);
    spec.strategy = a.strategy;
    spec.order = a.order;
    spec.seed = 7;
    if (a.holds_out) spec.held_out = problem.held_out.data();
    spec.mapped = a.mapped;
    spec.memory = a.memory;
    return spec;
}

// The model, classes × features and intercepts, then the same for the mean of the iterates if there is one.
template <class V>
struct Trained {
    std::vector<V> numbers;
    bool finite = true;
    std::int64_t rows = 0, merges = 0;  // of the last pass
    std::int64_t sweeps = 0;            // of all
};

template <class V>
void store(Training<V>& training, std::size_t classes, std::size_t features, bool average, Trained<V>& out) {
    std::vector<V> coef(classes * features);
    std::vector<double> intercept(classes);
    out.numbers.clear();
    const auto add = [&] {
        out.numbers.insert(out.numbers.end(), coef.begin(), coef.end());
        for (const double b : intercept) out.numbers.push_back(static_cast<V>(b));
    };
    out.finite = training.model().store(coef.data(), intercept.data(), training.active());
    add();
    if (average) {
        training.model().store_average(coef.data(), intercept.data(), training.active(),
                                       std::max(1.0, training.averaged_steps()));
        add();
    }
    for (const V x : out.numbers) out.finite = out.finite && std::isfinite(x);
}

// Trains from weights that are not zero. `should_stop` may end any pass; one more follows.
template <class Rows>
Trained<typename Rows::Value> train(
    const Problem<Rows>& problem, const Case& a, const ShouldStop& should_stop = [] { return false; }) {
    using V = typename Rows::Value;
    auto training = make_training(problem.rows(), spec_of(problem, a));
    const auto classes = static_cast<std::size_t>(problem.shape.classes);
    const auto features = static_cast<std::size_t>(problem.shape.features);
    std::vector<V> coef(classes * features);
    for (std::size_t i = 0; i < coef.size(); ++i) coef[i] = static_cast<V>(0.1 * static_cast<double>(i % 5) - 0.2);
    const std::vector<double> intercept(classes, 0.1);
    training->model().load(coef.data(), intercept.data());
    Trained<V> trained;
    for (int pass = 0, passes = a.passes; pass < passes; ++pass) {
        const PassSums sums = training->run_pass(should_stop);
        trained.rows = sums.rows;
        trained.merges = sums.merges;
        trained.sweeps += sums.sweeps;
        if (sums.stopped) passes = std::min(passes, pass + 2);
        for (const double x : sums.loss) trained.finite = trained.finite && std::isfinite(x);
        for (const double x : sums.objective) trained.finite = trained.finite && std::isfinite(x);
        if (pass == 0 && a.drops_classes && classes > 1) {
            std::vector<int> rest;
            for (int c = 0; c < problem.shape.classes; ++c)
                if (c != problem.shape.classes - 2) rest.push_back(c);
            training->keep_classes(rest);
        }
        if (pass == 0 && a.resumes) {
            const std::string state = training->save();
            training = make_training(problem.rows(), spec_of(problem, a));
            training->resume(state);
        }
        for (std::size_t c = 0; c < training->active().size(); ++c)
            training->set_step_size(static_cast<int>(c), training->step_size(static_cast<int>(c)));
    }
    const bool finite = trained.finite;
    store(*training, classes, features, a.average, trained);
    trained.finite = trained.finite && finite;
    return trained;
}

}  // namespace symsgd::tests
