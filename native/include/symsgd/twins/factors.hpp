// Twins of wide tables of correlated numbers (symsgd/data/twins/factors.py has the model).
#pragma once

#include <cstdint>
#include <vector>

#include "symsgd/twins/loadings.hpp"
#include "symsgd/twins/rows.hpp"

namespace symsgd {

class FactorPopulation {
public:
    // `loadings` is n_factors × n_features; `planted` has a weight for each feature. Without `cuts` all numbers are
    // present, else those above the cut of their feature.
    FactorPopulation(int n_factors, std::size_t n_features, double noise, const float* loadings, const float* planted,
                     const float* cuts);

    std::size_t n_features() const { return planted_.size(); }
    bool sparse() const { return !cuts_.empty(); }

    TwinRows draw_sparse(const RowSpan& span, int threads) const;
    // Writes the rows one after the other.
    RowScores draw_dense(float* values, const RowSpan& span, int threads) const;

private:
    void numbers(Random& random, float* factors, float* out) const;

    float noise_;
    Loadings<float> loadings_;
    std::vector<float> planted_;
    std::vector<float> cuts_;  // or none
};

}  // namespace symsgd
