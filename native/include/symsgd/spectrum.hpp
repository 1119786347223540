// The mean curvature of the loss, H = E[weight × h(p, y) x̃ x̃ᵀ], from a sample of the rows:
//
//     H ≈ Q Λ Qᵀ + (I − QQᵀ) diag(c) (I − QQᵀ)
//
// Q has orthonormal columns, the sharpest directions among at most a few thousand of the most frequent features and the
// intercept; c ≥ 0 is what is left of the diagonal, for every feature. x̃ is the row with √κ as the last entry, the
// intercept's (κ is how much slower it learns): with b / √κ as its weight, H is symmetric.
#pragma once

#include <cstdint>
#include <vector>

#include "symsgd/crew.hpp"
#include "symsgd/learn.hpp"
#include "symsgd/memory.hpp"

namespace symsgd {

// Rows of √(weight × h / rows) x̃ for one class, of which only the entries that Q knows are kept; `diagonal` has all.
// Parts are written, and multiplied, side by side.
template <class V>
struct CurvatureSample {
    struct Part {
        std::vector<std::int64_t> start{0};
        std::vector<std::int32_t> place;
        std::vector<V> value;

        std::int64_t rows() const { return static_cast<std::int64_t>(start.size()) - 1; }
        SampleView<V> view() const { return {rows(), start.data(), place.data(), value.data()}; }
    };
    std::vector<Part> parts;
    std::vector<double> diagonal;  // of H: features, then the intercept

    std::int64_t rows_before(std::size_t part) const {
        std::int64_t rows = 0;
        for (std::size_t k = 0; k < part; ++k) rows += parts[k].rows();
        return rows;
    }
    std::int64_t rows() const { return rows_before(parts.size()); }
};

template <class V>
class Spectrum {
public:
    // Q will have rows for `places` features and the intercept, and up to `rank` columns.
    void reset(std::int64_t places, int rank);

    // Estimates Λ, Q and c; the last Q, if there is one, is where the search begins. Called by every member of a crew.
    void estimate(Crew::Member& member, const CurvatureSample<V>& sample, const std::vector<std::int64_t>& features,
                  const CurvatureKernels<V>& kernels, std::uint64_t seed);

    int rank() const { return rank_; }
    const V* q(std::int64_t place) const { return q_.data() + place * columns_; }  // its row of Q
    int columns() const { return columns_; }  // numbers in a row, of which `rank` count
    double lambda(int j) const { return lambda_[static_cast<std::size_t>(j)]; }
    double rest(std::int64_t feature) const { return rest_[static_cast<std::size_t>(feature)]; }  // c

    template <class State>
    void archive(State& state) {
        state(places_, columns_, rank_, wanted_, begun_, q_, lambda_, rest_);
    }

private:
    void draw(std::uint64_t seed);
    void multiply(Crew::Member& member, const CurvatureSample<V>& sample, const CurvatureKernels<V>& kernels,
                  bool back);
    template <class After>
    void gather_gram(Crew::Member& member, const CurvatureKernels<V>& kernels, const V* matrix, std::int64_t rows,
                     After&& after);
    void orthonormalise(Crew::Member& member, const CurvatureKernels<V>& kernels);
    void rotate(Crew::Member& member, const CurvatureKernels<V>& kernels, const std::vector<double>& by);

    std::int64_t places_ = 0;  // with the intercept
    int columns_ = 0;
    int rank_ = 0, wanted_ = 0;
    bool begun_ = false;
    Array<V> q_;         // places × columns
    Array<V> t_;         // sample rows × columns, or room for more
    Array<V> gathered_;  // parts × places × columns
    std::vector<double> gram_;
    std::vector<std::vector<double>> partial_;
    std::vector<double> values_, turn_;
    std::vector<double> lambda_;
    std::vector<double> rest_;
};

// Eigenvalues, descending, and orthonormal eigenvectors (columns of `vectors`) of a symmetric matrix, by Householder's
// reflections and QR. `matrix` is n × n and is used up.
void eigen_symmetric(int n, std::vector<double>& matrix, std::vector<double>& values, std::vector<double>& vectors);

}  // namespace symsgd
