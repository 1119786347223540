#include "symsgd/check.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <type_traits>

#include "symsgd/team.hpp"

namespace symsgd {

namespace {

constexpr std::int64_t piece = 1 << 18;

// inf × 0 and nan × 0 are nan, and a sum that met one stays nan: one addition a value and no branch.
template <class V>
bool finite_piece(const V* values, std::int64_t count) {
    V sums[16] = {};
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int k = 0; k < 16; ++k) sums[k] += values[i + k] * V{0};
    for (; i < count; ++i) sums[0] += values[i] * V{0};
    V total = 0;
    for (const V sum : sums) total += sum;
    return total == V{0};
}

}  // namespace

template <class V>
bool all_finite(const V* values, std::int64_t count, int threads) {
    std::atomic<bool> finite{true};
    in_pieces(count, piece, threads, [&](std::int64_t begin, std::int64_t end) {
        if (finite && !finite_piece(values + begin, end - begin)) finite = false;
    });
    return finite;
}

template <class V, class I>
Checked check(const SparseRows<V, I>& rows, std::int64_t entries, int threads) {
    Checked result;
    if (rows.start[0] != 0) {
        result.damage = "indptr starts with " + std::to_string(rows.start[0]) + ", not 0";
        return result;
    }
    for (std::int64_t r = 0; r < rows.rows; ++r) {
        if (rows.start[r + 1] < rows.start[r]) {
            result.damage = "indptr decreases at row " + std::to_string(r);
            return result;
        }
    }
    if (rows.start[rows.rows] > entries) {
        result.damage = "indptr ends at " + std::to_string(rows.start[rows.rows]) + ", but there are only " +
                        std::to_string(entries) + " entries";
        return result;
    }
    std::atomic<bool> increasing{true};
    std::atomic<bool> finite{true};
    std::mutex damaging;
    std::int64_t damaged_row = rows.rows;
    const std::int64_t mean = rows.rows == 0 ? 1 : 1 + rows.start[rows.rows] / rows.rows;
    in_pieces(rows.rows, 1 + piece / mean, threads, [&](std::int64_t begin, std::int64_t end) {
        // top bits alone tell: no index, no distance to the last feature and no step less one may be negative
        using U = std::make_unsigned_t<I>;
        constexpr U top = U{1} << (8 * sizeof(U) - 1);
        const U last = static_cast<U>(std::min<std::int64_t>(rows.features - 1, std::numeric_limits<I>::max()));
        U not_increasing = 0;
        for (std::int64_t r = begin; r < end; ++r) {
            const I* index = rows.index + rows.start[r];
            const std::int64_t count = rows.start[r + 1] - rows.start[r];
            U outside = 0;
            for (std::int64_t j = 0; j < count; ++j) {
                const U feature = static_cast<U>(index[j]);
                outside |= feature | (last - feature);
            }
            if (outside & top) {
                const std::lock_guard lock(damaging);
                damaged_row = std::min(damaged_row, r);
                continue;
            }
            for (std::int64_t j = 1; j < count; ++j)
                not_increasing |= static_cast<U>(index[j]) - static_cast<U>(index[j - 1]) - 1;
        }
        if (not_increasing & top) increasing = false;
        const auto first = rows.start[begin];
        if (finite && !finite_piece(rows.value + first, rows.start[end] - first)) finite = false;
    });
    result.increasing = increasing;
    result.finite = finite;
    if (damaged_row < rows.rows) {
        for (auto j = rows.start[damaged_row]; j < rows.start[damaged_row + 1]; ++j) {
            const auto feature = static_cast<std::int64_t>(rows.index[j]);
            if (feature < 0 || feature >= rows.features) {
                result.damage = "row " + std::to_string(damaged_row) + " has the column index " +
                                std::to_string(feature) + ", outside 0 … " + std::to_string(rows.features - 1);
                break;
            }
        }
    }
    return result;
}

template bool all_finite(const float*, std::int64_t, int);
template bool all_finite(const double*, std::int64_t, int);
template Checked check(const SparseRows<float, std::int32_t>&, std::int64_t, int);
template Checked check(const SparseRows<float, std::int64_t>&, std::int64_t, int);
template Checked check(const SparseRows<double, std::int32_t>&, std::int64_t, int);
template Checked check(const SparseRows<double, std::int64_t>&, std::int64_t, int);

}  // namespace symsgd
