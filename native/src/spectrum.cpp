#include "symsgd/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace symsgd {

namespace {

constexpr std::int64_t slices = 16;  // of the places: as many whatever the threads, so that sums are the same
constexpr int strip = 8;             // columns that one task multiplies (kernels/curvature-inl.hpp)
// what is below this share of the largest is rounding, not a direction
template <class V>
constexpr double smallest_share = 100.0 * std::numeric_limits<V>::epsilon();

std::int64_t slice_begin(std::int64_t slice, std::int64_t count) {
    return slice * count / slices;
}

}  // namespace

void eigen_symmetric(int n, std::vector<double>& matrix, std::vector<double>& values, std::vector<double>& vectors) {
    const auto at = [n](int i, int j) { return static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + j; };
    vectors.assign(matrix.size(), 0.0);
    for (int i = 0; i < n; ++i) vectors[at(i, i)] = 1.0;
    double total = 0.0;
    for (const double x : matrix) total += x * x;
    for (int sweep = 0; sweep < 30; ++sweep) {
        double off = 0.0;
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < i; ++j) off += matrix[at(i, j)] * matrix[at(i, j)];
        if (!(off > 1e-26 * total)) break;
        for (int p = 0; p < n; ++p) {
            for (int q = p + 1; q < n; ++q) {
                const double x = matrix[at(p, q)];
                if (x * x <= 1e-32 * total) continue;
                const double theta = (matrix[at(q, q)] - matrix[at(p, p)]) / (2.0 * x);
                const double t = (theta >= 0.0 ? 1.0 : -1.0) / (std::abs(theta) + std::sqrt(theta * theta + 1.0));
                const double c = 1.0 / std::sqrt(t * t + 1.0), s = t * c;
                for (int k = 0; k < n; ++k) {
                    const double a = matrix[at(k, p)], b = matrix[at(k, q)];
                    matrix[at(k, p)] = c * a - s * b;
                    matrix[at(k, q)] = s * a + c * b;
                }
                for (int k = 0; k < n; ++k) {
                    const double a = matrix[at(p, k)], b = matrix[at(q, k)];
                    matrix[at(p, k)] = c * a - s * b;
                    matrix[at(q, k)] = s * a + c * b;
                }
                for (int k = 0; k < n; ++k) {  // rows of `vectors` are the eigenvectors until the end
                    const double a = vectors[at(p, k)], b = vectors[at(q, k)];
                    vectors[at(p, k)] = c * a - s * b;
                    vectors[at(q, k)] = s * a + c * b;
                }
            }
        }
    }
    std::vector<int> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return matrix[at(i, i)] > matrix[at(j, j)]; });
    values.resize(static_cast<std::size_t>(n));
    std::vector<double> sorted(matrix.size());
    for (int j = 0; j < n; ++j) {
        values[static_cast<std::size_t>(j)] =
            matrix[at(order[static_cast<std::size_t>(j)], order[static_cast<std::size_t>(j)])];
        for (int k = 0; k < n; ++k) sorted[at(k, j)] = vectors[at(order[static_cast<std::size_t>(j)], k)];
    }
    vectors = std::move(sorted);
}

template <class V>
void Spectrum<V>::reset(std::int64_t places, int rank) {
    places_ = places + 1;
    wanted_ = static_cast<int>(std::min<std::int64_t>(rank, places_));
    columns_ = static_cast<int>(
        std::min<std::int64_t>((rank + strip - 1) / strip * strip, (places_ + strip - 1) / strip * strip));
    q_ = Array<V>(static_cast<std::size_t>(places_ * columns_));
    rank_ = 0;
    begun_ = false;
}

// Any start will do that no sharp direction is orthogonal to.
template <class V>
void Spectrum<V>::draw(std::uint64_t seed) {
    if (begun_ && rank_ == columns_) return;
    std::uint64_t state = seed;
    for (std::int64_t i = 0; i < places_ * columns_; ++i) {
        state += 0x9e3779b97f4a7c15ULL;  // SplitMix64
        std::uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        z ^= z >> 31;
        if (begun_ && i % columns_ < rank_) continue;
        q_[static_cast<std::size_t>(i)] = static_cast<V>(static_cast<double>(z >> 11) * 0x1p-52 - 1.0);
    }
}

// T = A Q, or `back`: Q = Aᵀ T. A strip of columns is a task.
template <class V>
void Spectrum<V>::multiply(Crew::Member& member, const CurvatureSample<V>& sample, const CurvatureKernels<V>& kernels,
                           bool back) {
    member.phase(columns_ / strip, [&](std::int64_t task) {
        kernels.multiply_sample(sample.view(), places_, columns_, static_cast<int>(task), back, q_.data(), t_.data());
    });
}

// Q ← Q × `by` (columns × columns, row by row).
template <class V>
void Spectrum<V>::rotate(Crew::Member& member, const CurvatureKernels<V>& kernels, const std::vector<double>& by) {
    member.phase(slices, [&](std::int64_t slice) {
        const std::int64_t begin = slice_begin(slice, places_), end = slice_begin(slice + 1, places_);
        if (begin == end) return;
        const auto n = static_cast<std::size_t>(columns_);
        std::vector<V> columns(n * n), old(q_.data() + begin * columns_, q_.data() + end * columns_);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) columns[j * n + i] = static_cast<V>(by[i * n + j]);
        kernels.multiply_rows(old.data(), end - begin, columns_, columns.data(), columns_,
                              q_.data() + begin * columns_);
    });
}

namespace {

// The inverse of R, upper triangular, with RᵀR = the symmetric matrix: Cholesky's factor. False if the matrix has next
// to no part in some direction. `matrix` is n × n and is used up.
bool invert_factor(int n, std::vector<double>& matrix, double least, std::vector<double>& inverse) {
    const auto at = [n](int i, int j) { return static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + j; };
    for (int j = 0; j < n; ++j) {
        for (int k = 0; k < j; ++k)
            for (int i = j; i < n; ++i) matrix[at(j, i)] -= matrix[at(k, j)] * matrix[at(k, i)];
        if (!(matrix[at(j, j)] > least)) return false;
        const double root = 1.0 / std::sqrt(matrix[at(j, j)]);
        for (int i = j; i < n; ++i) matrix[at(j, i)] *= root;
    }
    inverse.assign(matrix.size(), 0.0);
    for (int j = 0; j < n; ++j) {
        inverse[at(j, j)] = 1.0 / matrix[at(j, j)];
        for (int i = j - 1; i >= 0; --i) {
            double sum = 0.0;
            for (int k = i + 1; k <= j; ++k) sum += matrix[at(i, k)] * inverse[at(k, j)];
            inverse[at(i, j)] = -sum / matrix[at(i, i)];
        }
    }
    return true;
}

}  // namespace

// Q ← an orthonormal basis of its columns. With QᵀQ = RᵀR it is Q R⁻¹; where Q hardly has some direction, with
// QᵀQ = W diag(v) Wᵀ, Q W diag(v)^−½, in which such directions become columns of 0, so that it is orthonormal whatever
// the sample's rank.
template <class V>
void Spectrum<V>::orthonormalise(Crew::Member& member, const CurvatureKernels<V>& kernels) {
    const auto n = static_cast<std::size_t>(columns_);
    member.phase(
        slices,
        [&](std::int64_t slice) {
            const std::int64_t begin = slice_begin(slice, places_), end = slice_begin(slice + 1, places_);
            std::vector<V> sums(n * n);
            kernels.add_products(q_.data() + begin * columns_, end - begin, columns_, q_.data() + begin * columns_,
                                 columns_, sums.data());
            partial_[static_cast<std::size_t>(slice)].assign(sums.begin(), sums.end());
        },
        [&] {
            gram_.assign(n * n, 0.0);
            for (const std::vector<double>& part : partial_)
                for (std::size_t i = 0; i < n * n; ++i) gram_[i] += part[i];
            // columns first get the same length, or the short ones would be lost beside the long ones
            std::vector<double> size(n);
            for (std::size_t j = 0; j < n; ++j)
                size[j] = gram_[j * n + j] > 0.0 ? 1.0 / std::sqrt(gram_[j * n + j]) : 0.0;
            for (std::size_t j = 0; j < n; ++j)
                for (std::size_t k = 0; k < n; ++k) gram_[j * n + k] *= size[j] * size[k];
            std::vector<double> copy = gram_;
            if (invert_factor(columns_, copy, 1e-3, turn_)) {
                for (std::size_t k = 0; k < n; ++k)
                    for (std::size_t j = k; j < n; ++j) turn_[k * n + j] *= size[k];
                return;
            }
            eigen_symmetric(columns_, gram_, values_, turn_);
            for (std::size_t j = 0; j < n; ++j) {
                const bool counts = values_[j] > smallest_share<V> * values_[0] && values_[j] > 0.0;
                const double length = counts ? 1.0 / std::sqrt(values_[j]) : 0.0;
                for (std::size_t k = 0; k < n; ++k) turn_[k * n + j] *= size[k] * length;
            }
        });
    rotate(member, kernels, turn_);
}

template <class V>
void Spectrum<V>::estimate(Crew::Member& member, const CurvatureSample<V>& sample,
                           const std::vector<std::int64_t>& features, const CurvatureKernels<V>& kernels,
                           std::uint64_t seed) {
    const auto n = static_cast<std::size_t>(columns_);
    const int turns = begun_ ? 1 : 2;
    member.alone([&] {
        draw(seed);
        t_.resize(static_cast<std::size_t>(sample.rows()) * n);
        partial_.resize(static_cast<std::size_t>(slices));
    });
    for (int turn = 0; turn < turns; ++turn) {
        multiply(member, sample, kernels, false);
        multiply(member, sample, kernels, true);
        orthonormalise(member, kernels);
    }
    // again: the first time is as good as the columns were independent, which those of the last estimate nearly are
    if (!begun_) orthonormalise(member, kernels);
    multiply(member, sample, kernels, false);
    member.alone([&] {
        std::vector<V> sums(n * n);
        kernels.add_products(t_.data(), sample.rows(), columns_, t_.data(), columns_, sums.data());
        gram_.assign(sums.begin(), sums.end());
        eigen_symmetric(columns_, gram_, lambda_, turn_);
    });
    rotate(member, kernels, turn_);
    member.alone([&] {
        rank_ = 0;
        while (rank_ < wanted_ && lambda_[static_cast<std::size_t>(rank_)] > smallest_share<V> * lambda_[0] &&
               lambda_[static_cast<std::size_t>(rank_)] > 0.0)
            ++rank_;
        for (std::int64_t place = 0; place < places_; ++place)
            std::fill(q_.data() + place * columns_ + rank_, q_.data() + (place + 1) * columns_, V{});
        rest_ = sample.diagonal;
        for (std::int64_t place = 0; place < places_; ++place) {
            const auto feature = place + 1 < places_
                                     ? static_cast<std::size_t>(features[static_cast<std::size_t>(place)])
                                     : rest_.size() - 1;
            double known = 0.0;
            for (int j = 0; j < rank_; ++j) {
                const double x = q(place)[j];
                known += x * x * lambda_[static_cast<std::size_t>(j)];
            }
            rest_[feature] = std::max(0.0, rest_[feature] - known);
        }
        begun_ = true;
    });
}

template class Spectrum<float>;
template class Spectrum<double>;

}  // namespace symsgd
