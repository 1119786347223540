// A training under way: the data, the order, the rule and the model. The caller runs it pass by pass and decides
// between passes whether to go on; what it may change then is the step size of a class and which classes go on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "symsgd/strategy.hpp"

namespace symsgd {

using AnyRows = ForAllRows<std::variant>;

// The model in the type of the rows.
template <class V>
class Training {
public:
    virtual ~Training() = default;

    virtual PassSums run_pass(const ShouldStop& should_stop) = 0;

    // Leaves only these classes of those still in training, in this order. The others' weights are dropped.
    virtual void keep_classes(const std::vector<int>& classes) = 0;

    virtual std::vector<std::int64_t> active() const = 0;  // the numbers of the classes still in training
    virtual void set_step_size(int c, double step_size) = 0;
    virtual double step_size(int c) const = 0;
    virtual Model<V>& model() = 0;
    virtual double averaged_steps() const = 0;  // iterates in the mean so far

    // All that later passes depend on, between two of them; and a training that has run none yet goes on from there.
    virtual std::string save() = 0;
    virtual void resume(std::span<const char> state) = 0;
};

template <class Rows>
std::unique_ptr<Training<typename Rows::Value>> make_training(const Rows& rows, const TrainingSpec& spec);

// Names as Python knows them, to what they mean here. Unknown names throw std::invalid_argument.
Loss loss_named(const std::string& name, double parameter);

// t₀ of the "optimal" schedule: the first step is as large as typical weights, (1 / alpha)^(1/4).
double optimal_start(const Loss& loss, double alpha);

}  // namespace symsgd
