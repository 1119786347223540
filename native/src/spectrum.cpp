#include "symsgd/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace symsgd {

namespace {

// as many whatever the threads, so that sums are the same
constexpr std::int64_t slices = 16;  // of the places
constexpr int strip = 8;             // columns come in strips of so many (kernels/curvature-inl.hpp)
// what is below this share of the largest is rounding, not a direction
template <class V>
constexpr double smallest_share = 100.0 * std::numeric_limits<V>::epsilon();

// Room that is written before it is read: its pages are made by the threads that do.
template <class V>
void make_room(Array<V>& room, std::size_t numbers) {
    if (room.size() < numbers) room = Array<V>(numbers, Uninitialised{});
}

std::int64_t slice_begin(std::int64_t slice, std::int64_t count) {
    return slice * count / slices;
}

}  // namespace

namespace {

// A symmetric matrix and the orthonormal rows that it is seen from: rows × (the matrix there was at first) × rowsᵀ is
// the matrix there is now. Everything is done to whole rows, which compilers make vectors of.
struct Turned {
    int n;
    std::vector<double>& matrix;
    std::vector<double>& rows;

    double* row(std::vector<double>& of, int i) const {
        return of.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(n);
    }
};

double dot(const double* a, const double* b, int n) {
    double sum[4]{};
    int k = 0;
    for (; k + 4 <= n; k += 4)
        for (int e = 0; e < 4; ++e) sum[e] += a[k + e] * b[k + e];
    for (; k < n; ++k) sum[0] += a[k] * b[k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void add(double* to, double factor, const double* from, int n) {
    for (int k = 0; k < n; ++k) to[k] += factor * from[k];
}

// By Householder's reflections I − 2 v vᵀ, each of which leaves of a column two numbers.
void make_tridiagonal(Turned& turned, std::vector<double>& diagonal, std::vector<double>& beside) {
    const int n = turned.n;
    std::vector<double> v(static_cast<std::size_t>(n)), w(static_cast<std::size_t>(n)), u(static_cast<std::size_t>(n));
    for (int k = 0; k + 2 < n; ++k) {
        const double* column = turned.row(turned.matrix, k);  // a row is a column, too
        const int first = k + 1, rest = n - first;
        const double length = std::sqrt(dot(column + first, column + first, rest));
        if (!(length > 0.0)) continue;
        std::fill(v.begin(), v.end(), 0.0);
        std::copy(column + first, column + n, v.begin() + first);
        v[static_cast<std::size_t>(first)] += v[static_cast<std::size_t>(first)] < 0.0 ? -length : length;
        const double norm = std::sqrt(dot(v.data() + first, v.data() + first, rest));
        for (double& x : v) x /= norm;
        // A − 2 v (Av)ᵀ − 2 (Av) vᵀ + 4 (vᵀAv) v vᵀ
        for (int i = 0; i < n; ++i)
            w[static_cast<std::size_t>(i)] = dot(turned.row(turned.matrix, i) + first, v.data() + first, rest);
        const double middle = dot(v.data() + first, w.data() + first, rest);
        add(w.data(), -middle, v.data(), n);
        for (int i = k; i < n; ++i) {
            double* row = turned.row(turned.matrix, i);
            const auto at = static_cast<std::size_t>(i);
            add(row + k, -2.0 * v[at], w.data() + k, n - k);
            add(row + k, -2.0 * w[at], v.data() + k, n - k);
        }
        std::fill(u.begin(), u.end(), 0.0);
        for (int i = first; i < n; ++i) add(u.data(), v[static_cast<std::size_t>(i)], turned.row(turned.rows, i), n);
        for (int i = first; i < n; ++i)
            add(turned.row(turned.rows, i), -2.0 * v[static_cast<std::size_t>(i)], u.data(), n);
    }
    for (int i = 0; i < n; ++i) {
        const double* row = turned.row(turned.matrix, i);
        diagonal[static_cast<std::size_t>(i)] = row[i];
        beside[static_cast<std::size_t>(i)] = i + 1 < n ? row[i + 1] : 0.0;
    }
}

// By shifted QR steps, each a chase of one number down the band by rotations of neighbouring rows.
void make_diagonal(Turned& turned, std::vector<double>& diagonal, std::vector<double>& beside) {
    const auto d = [&](int i) -> double& { return diagonal[static_cast<std::size_t>(i)]; };
    const auto b = [&](int i) -> double& { return beside[static_cast<std::size_t>(i)]; };
    const auto small = [&](int i) {
        return std::abs(b(i)) <= std::numeric_limits<double>::epsilon() * (std::abs(d(i)) + std::abs(d(i + 1)));
    };
    int end = turned.n - 1;
    for (int turns = 0; end > 0 && turns < 40 * turned.n; ++turns) {
        while (end > 0 && small(end - 1)) b(--end) = 0.0;
        if (end == 0) break;
        int begin = end - 1;
        while (begin > 0 && !small(begin - 1)) --begin;
        // the eigenvalue of the last two by two that is nearer to the last number (Wilkinson's shift)
        const double half = 0.5 * (d(end - 1) - d(end)), off = b(end - 1);
        const double root = std::hypot(half, off);
        const double shift = d(end) - off * off / (half + (half < 0.0 ? -root : root));
        double x = d(begin) - shift, z = b(begin);
        for (int k = begin; k < end; ++k) {
            const double length = std::hypot(x, z);
            const double c = length > 0.0 ? x / length : 1.0, s = length > 0.0 ? z / length : 0.0;
            if (k > begin) b(k - 1) = length;
            const double p = d(k), q = b(k), r = d(k + 1);
            d(k) = c * c * p + 2.0 * c * s * q + s * s * r;
            d(k + 1) = s * s * p - 2.0 * c * s * q + c * c * r;
            b(k) = c * s * (r - p) + (c * c - s * s) * q;
            if (k + 1 < end) {
                x = b(k);
                z = s * b(k + 1);
                b(k + 1) *= c;
            }
            double* upper = turned.row(turned.rows, k);
            double* lower = turned.row(turned.rows, k + 1);
            for (int i = 0; i < turned.n; ++i) {
                const double above = upper[i], below = lower[i];
                upper[i] = c * above + s * below;
                lower[i] = c * below - s * above;
            }
        }
    }
}

}  // namespace

void eigen_symmetric(int n, std::vector<double>& matrix, std::vector<double>& values, std::vector<double>& vectors) {
    const auto at = [n](int i, int j) { return static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + j; };
    std::vector<double> rows(matrix.size(), 0.0), diagonal(static_cast<std::size_t>(n)), beside(diagonal);
    for (int i = 0; i < n; ++i) rows[at(i, i)] = 1.0;
    Turned turned{n, matrix, rows};
    make_tridiagonal(turned, diagonal, beside);
    make_diagonal(turned, diagonal, beside);
    std::vector<int> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int i, int j) {
        return diagonal[static_cast<std::size_t>(i)] > diagonal[static_cast<std::size_t>(j)];
    });
    values.resize(static_cast<std::size_t>(n));
    vectors.resize(matrix.size());
    for (int j = 0; j < n; ++j) {
        const int from = order[static_cast<std::size_t>(j)];
        values[static_cast<std::size_t>(j)] = diagonal[static_cast<std::size_t>(from)];
        for (int k = 0; k < n; ++k) vectors[at(k, j)] = rows[at(from, k)];
    }
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

// T = A Q, or `back`: Q = Aᵀ T. Parts of the sample are tasks; on the way back each adds up a Q of its own.
template <class V>
void Spectrum<V>::multiply(Crew::Member& member, const CurvatureSample<V>& sample, const CurvatureKernels<V>& kernels,
                           bool back) {
    const auto parts = static_cast<std::int64_t>(sample.parts.size());
    const std::int64_t numbers = places_ * columns_;
    member.phase(parts, [&](std::int64_t task) {
        const auto part = static_cast<std::size_t>(task);
        V* q = back ? gathered_.data() + task * numbers : q_.data();
        if (back) std::fill_n(q, numbers, V{});
        kernels.multiply_sample(sample.parts[part].view(), columns_, back, q,
                                t_.data() + sample.rows_before(part) * columns_);
    });
    if (!back) return;
    member.phase(slices, [&](std::int64_t slice) {
        const std::int64_t begin = slice_begin(slice, numbers), end = slice_begin(slice + 1, numbers);
        std::copy(gathered_.data() + begin, gathered_.data() + end, q_.data() + begin);
        for (std::int64_t part = 1; part < parts; ++part) {
            const V* more = gathered_.data() + part * numbers;
            for (std::int64_t i = begin; i < end; ++i) q_[static_cast<std::size_t>(i)] += more[i];
        }
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

// gram ← MᵀM of a matrix with as many columns as Q; then, by one thread, `after`.
template <class V>
template <class After>
void Spectrum<V>::gather_gram(Crew::Member& member, const CurvatureKernels<V>& kernels, const V* matrix,
                              std::int64_t rows, After&& after) {
    const auto n = static_cast<std::size_t>(columns_);
    member.phase(
        slices,
        [&](std::int64_t slice) {
            const std::int64_t begin = slice_begin(slice, rows), end = slice_begin(slice + 1, rows);
            const V* part = matrix + begin * columns_;
            std::vector<V> sums(n * n);
            kernels.add_products(part, end - begin, columns_, part, columns_, sums.data());
            partial_[static_cast<std::size_t>(slice)].assign(sums.begin(), sums.end());
        },
        [&] {
            gram_.assign(n * n, 0.0);
            for (const std::vector<double>& part : partial_)
                for (std::size_t i = 0; i < n * n; ++i) gram_[i] += part[i];
            after();
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
    gather_gram(member, kernels, q_.data(), places_, [&] {
        const auto n = static_cast<std::size_t>(columns_);
        // columns first get the same length, or the short ones would be lost beside the long ones
        std::vector<double> size(n);
        for (std::size_t j = 0; j < n; ++j) size[j] = gram_[j * n + j] > 0.0 ? 1.0 / std::sqrt(gram_[j * n + j]) : 0.0;
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
    const int turns = begun_ ? 1 : 3;
    member.alone([&] {
        draw(seed);
        make_room(t_, static_cast<std::size_t>(sample.rows()) * n);
        make_room(gathered_, sample.parts.size() * static_cast<std::size_t>(places_) * n);
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
    gather_gram(member, kernels, t_.data(), sample.rows(), [&] { eigen_symmetric(columns_, gram_, lambda_, turn_); });
    rotate(member, kernels, turn_);
    member.alone([&] {
        rank_ = 0;
        while (rank_ < wanted_ && lambda_[static_cast<std::size_t>(rank_)] > smallest_share<V> * lambda_[0] &&
               lambda_[static_cast<std::size_t>(rank_)] > 0.0)
            ++rank_;
        rest_ = sample.diagonal;
        begun_ = true;
    });
    member.phase(slices, [&](std::int64_t slice) {
        for (std::int64_t place = slice_begin(slice, places_); place < slice_begin(slice + 1, places_); ++place) {
            V* const row = q_.data() + place * columns_;
            std::fill(row + rank_, row + columns_, V{});
            const auto feature = place + 1 < places_
                                     ? static_cast<std::size_t>(features[static_cast<std::size_t>(place)])
                                     : rest_.size() - 1;
            double known = 0.0;
            for (int j = 0; j < rank_; ++j) {
                const double x = row[j];
                known += x * x * lambda_[static_cast<std::size_t>(j)];
            }
            rest_[feature] = std::max(0.0, rest_[feature] - known);
        }
    });
}

template class Spectrum<float>;
template class Spectrum<double>;

}  // namespace symsgd
