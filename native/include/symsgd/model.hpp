// The model while it is being trained.
//
// A weight is stored unscaled: true weight = lane.scale × weights[feature × stride + class], so that L2 costs one
// multiplication a step. The weights of a feature for all classes lie side by side, padded to `stride`, so that one
// walk over a row trains every class.
#pragma once

#include <cstdint>
#include <vector>

#include "symsgd/memory.hpp"

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
    double average_intercept = 0.0;
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
    int stride;
    V* weights;
    Lane* lanes;
    V* received;      // L1: penalty each weight has received (scikit-learn's q); null without
    V* halves;        // Lasso: w₊ and w₋ of each weight, side by side; null without
    double* seen;     // Lasso: `owed` when the weight was last brought up to date; null without
    double* average;  // averaging: corrections, mean = (average + average_scales × stored) / steps; null without
    V* scratch;       // 3 × stride numbers for the step under way
    double t;         // the number of the next step, from 1
};

template <class V>
class Model {
public:
    struct Needs {
        bool received = false;
        bool halves = false;
        bool average = false;
    };

    Model(std::int64_t features, int classes, Needs needs);

    ModelView<V> view();
    void set_t(double t) { t_ = t; }
    double t() const { return t_; }
    std::vector<Lane>& lanes() { return lanes_; }
    const std::vector<Lane>& lanes() const { return lanes_; }
    int classes() const { return classes_; }
    std::int64_t features() const { return features_; }

    // `coef` is classes × features, C order, of true weights, free of scale and padding. `store` puts class c at row
    // places[c] of it and returns false if anything is not finite.
    void load(const V* coef, const double* intercept);
    bool store(V* coef, double* intercept, const std::vector<std::int64_t>& places) const;
    void load_average(const V* coef, const double* intercept, double steps);
    void store_average(V* coef, double* intercept, const std::vector<std::int64_t>& places, double steps) const;

    // Takes the given classes of `other`, with everything that belongs to them.
    void copy_classes(const Model& other, const std::vector<int>& classes);

private:
    std::int64_t features_;
    int classes_;
    int stride_;
    Array<V> weights_;
    std::vector<Lane> lanes_;
    Array<V> received_;
    Array<V> halves_;
    Array<double> seen_;
    Array<double> average_;
    Array<V> scratch_;
    double t_ = 1.0;
};

// Lanes a feature takes up: 1, or the classes rounded up to 4, 8 or a multiple of 16.
int stride_for(int classes);

}  // namespace symsgd
