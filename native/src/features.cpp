#include "symsgd/features.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "symsgd/team.hpp"

namespace symsgd {

template <class V, class I>
FeatureOrder::FeatureOrder(const SparseRows<V, I>& rows, std::int64_t entries, int threads)
    : original_(static_cast<std::size_t>(rows.features), Uninitialised{}),
      place_(static_cast<std::size_t>(rows.features), Uninitialised{}) {
    const auto features = static_cast<std::size_t>(rows.features);
    const std::int64_t all = rows.start[rows.rows];
    const std::int64_t apart = std::max<std::int64_t>(1, all / std::max<std::int64_t>(1, entries));
    std::vector<std::atomic<std::int32_t>> count(features);
    sampled_ = (rows.rows + apart - 1) / apart;
    in_pieces(sampled_, 1024, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin * apart; row < end * apart && row < rows.rows; row += apart)
            for (std::int64_t e = rows.start[row]; e < rows.start[row + 1]; ++e)
                count[static_cast<std::size_t>(rows.index[e])].fetch_add(1, std::memory_order_relaxed);
    });

    // a counting sort, from the most frequent down; features alike in this stay as they were
    std::int32_t most = 0;
    for (const auto& c : count) most = std::max(most, c.load(std::memory_order_relaxed));
    with_at_least_.assign(static_cast<std::size_t>(most) + 2, 0);
    for (const auto& c : count) ++with_at_least_[static_cast<std::size_t>(c.load(std::memory_order_relaxed))];
    for (std::int64_t c = most - 1; c >= 0; --c)
        with_at_least_[static_cast<std::size_t>(c)] += with_at_least_[static_cast<std::size_t>(c) + 1];
    std::vector<std::int64_t> next(with_at_least_.begin() + 1, with_at_least_.end());  // [count]: where they begin
    for (std::size_t i = 0; i < features; ++i) {
        const std::int64_t at = next[static_cast<std::size_t>(count[i].load(std::memory_order_relaxed))]++;
        place_[i] = static_cast<std::int32_t>(at);
        original_[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(i);
    }
}

std::int64_t FeatureOrder::in_share(double share) const {
    const double count = std::max(1.0, std::ceil(share * static_cast<double>(sampled_)));
    if (count >= static_cast<double>(with_at_least_.size())) return 0;
    return with_at_least_[static_cast<std::size_t>(count)];
}

template <class V, class I>
RenumberedRows<V, I>::RenumberedRows(const SparseRows<V, I>& rows, const FeatureOrder& order, int threads)
    : index_(static_cast<std::size_t>(rows.start[rows.rows]), Streamed{}), view_(rows) {
    const std::int32_t* place = order.place();
    in_pieces(rows.start[rows.rows], std::int64_t{1} << 18, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t e = begin; e < end; ++e)
            index_[static_cast<std::size_t>(e)] = static_cast<I>(place[rows.index[e]]);
    });
    view_.index = index_.data();
}

#define SYMSGD_FOR_SPARSE(V, I)                                                      \
    template FeatureOrder::FeatureOrder(const SparseRows<V, I>&, std::int64_t, int); \
    template class RenumberedRows<V, I>;
SYMSGD_FOR_SPARSE(float, std::int32_t)
SYMSGD_FOR_SPARSE(float, std::int64_t)
SYMSGD_FOR_SPARSE(double, std::int32_t)
SYMSGD_FOR_SPARSE(double, std::int64_t)
#undef SYMSGD_FOR_SPARSE

}  // namespace symsgd
