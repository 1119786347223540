// The model while it is being trained.
//
// A weight is stored unscaled: true weight = lane.scale × weights[feature × stride + class], so that L2 costs one
// multiplication a step. The weights of a feature for all classes lie side by side, padded to `stride`, so that one
// walk over a row trains every class.
//
// A model that will be merged carries *tangents* beside each weight: columns of M A, where M is the derivative of the
// training so far in the weights it began with and A what those columns began as. A class then takes up a `group` of
// numbers: its weight, its tangents, and the columns that follow the penalty alone (see merge.hpp). They share the
// class's scale, and one vector load serves the prediction and the combiner.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "symsgd/memory.hpp"
#include "symsgd/state.hpp"

namespace symsgd {

// What belongs to one class (or to the only model) besides its weights.
struct Lane {
    double scale = 1.0;
    double inverse = 1.0;  // 1 / scale, kept so that no step waits for a division
    double intercept = 0.0;
    double step_size = 0.0;  // constant and adaptive schedules
    double factor = 0.0;     // of the step under way: u = factor × gradient
    double owed = 0.0;       // L1: the penalty a weight in constant use has received by now
    double squares = 0.0;    // Σ stored², kept up to date while norms are tracked
    double sizes = 0.0;      // Σ |stored|
    double norm2 = 0.0;      // Σ true² as the objective sees it: after the last step that moved the weights
    double norm1 = 0.0;
    double rare = 1.0;  // Async-SymSGD: the scale of the weights that are shared, which decay alike, is rare × scale
    double rare_inverse = 1.0;
    double slope = 0.0;           // ∂g/∂p of the step under way, for the tangents
    double response = 0.0;        // ∂u/∂p: factor × slope, except for passive-aggressive steps
    double folded = 1.0;          // product of the scales that rescaling has made 1: all decay so far is folded × scale
    double folded_sum = 0.0;      // its sum over the averaged iterates, likewise: with folded × average_scales
    double drift = 0.0;           // how far predictions were off for being stale in the last round (soft curvature)
    double gathered = 0.0;        // AdaGrad: Σ g² of the intercept
    double intercept_sum = 0.0;   // of the iterates that are averaged
    double average_scales = 0.0;  // Σ scale over the steps averaged since the last rescaling
    double loss = 0.0;            // sums over the pass
    double objective = 0.0;
    double likelihood = 1.0;  // product not yet turned into loss
};

// Plain pointers for the kernels, which are compiled once per instruction set and must not share inline code.
template <class V>
struct ModelView {
    std::int64_t features;
    int classes;
    int stride;    // numbers a feature takes up
    int group;     // of which each class: 1 without tangents
    int tangents;  // columns of M A, after the weight
    int diagonal;  // columns that follow the penalty alone, after those
    V* weights;
    Lane* lanes;
    V* tangent_intercepts;  // the intercepts' rows of M A, `stride` of them
    V* tangent_sums;        // averaging: their sums over the iterates
    V* gathered;            // AdaGrad: Σ g² of each weight; null without
    V* received;            // L1: penalty each weight has received (scikit-learn's q); null without
    V* halves;              // Lasso: w₊ and w₋ of each weight, side by side; null without
    double* seen;           // Lasso: `owed` when the weight was last brought up to date; null without
    double* average;        // averaging: corrections, mean = (average + average_scales × stored) / steps; null without
    V* scratch;             // 3 × stride numbers for the step under way
    V* rare;                // Async-SymSGD: the weights that are shared, `rare_stride` apart; null without
    int rare_stride;
    double* shared_intercepts;  // Hogwild!: in place of the lanes'; null without
    double t;                   // the number of the next step, from 1
    std::int64_t held;          // features from here on are read but not written
};

// What a model has besides its weights.
struct ModelNeeds {
    bool received = false;
    bool halves = false;
    bool average = false;
    bool gathered = false;
    int tangents = 0;
    int diagonal = 0;
};

template <class V>
class Model {
public:
    Model(std::int64_t features, int classes, ModelNeeds needs, Pages pages = Pages::huge);

    ModelView<V> view();
    const ModelNeeds& needs() const { return needs_; }
    void set_t(double t) { t_ = t; }
    // Training leaves the weights of features from this one on as they are. One number a feature, plain SGD alone.
    void hold(std::int64_t from) { held_ = from; }
    double t() const { return t_; }
    std::vector<Lane>& lanes() { return lanes_; }
    const std::vector<Lane>& lanes() const { return lanes_; }
    int classes() const { return classes_; }
    std::int64_t features() const { return features_; }

    // Puts features into another order than the caller's, in which feature i has the number original[i]. `load` and
    // `store` go on to speak the caller's.
    void renumber(const std::int32_t* original);

    // Makes the weights and lanes those of a model of the same shape.
    void copy(const Model& other);

    // `coef` is classes × features, C order, of true weights, free of scale and padding. `store` puts class c at row
    // places[c] of it and returns false if anything is not finite.
    void load(const V* coef, const double* intercept);
    bool store(V* coef, double* intercept, const std::vector<std::int64_t>& places) const;
    void load_average(const V* coef, const double* intercept, double steps);
    void store_average(V* coef, double* intercept, const std::vector<std::int64_t>& places, double steps) const;

    // AdaGrad's sums of squared gradients, where the model keeps them.
    bool gathers() const { return gathered_.size() != 0; }
    void load_gathered(const V* coef, const double* intercept);
    void store_gathered(V* coef, double* intercept, const std::vector<std::int64_t>& places) const;

    // What training changes.
    template <class State>
    void archive(State& state) {
        const std::size_t numbers = weights_.size(), lanes = lanes_.size();
        state(t_, lanes_, weights_, gathered_, received_, halves_, seen_, average_);
        if (weights_.size() != numbers || lanes_.size() != lanes)
            throw std::invalid_argument("the state of a training is that of a model of another shape");
    }

    // Takes the given classes of `other`, with everything that belongs to them.
    void copy_classes(const Model& other, const std::vector<int>& classes);

private:
    std::int64_t number(std::int64_t i) const { return original_ == nullptr ? i : original_[i]; }

    std::int64_t features_;
    std::int64_t held_ = std::numeric_limits<std::int64_t>::max();
    const std::int32_t* original_ = nullptr;
    int classes_;
    ModelNeeds needs_;
    int group_;
    int stride_;
    Array<V> weights_;
    std::vector<Lane> lanes_;
    Array<V> tangent_intercepts_;
    Array<V> tangent_sums_;
    Array<V> gathered_;
    Array<V> received_;
    Array<V> halves_;
    Array<double> seen_;
    Array<double> average_;
    Array<V> scratch_;
    double t_ = 1.0;
};

// Lanes a feature takes up: 1, or the classes rounded up to 4, 8 or a multiple of 16.
int stride_for(int classes);

// The same where classes have needs of their own.
int stride_for(int classes, const ModelNeeds& needs);

}  // namespace symsgd
