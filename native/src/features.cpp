#include "symsgd/features.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "symsgd/pages.hpp"
#include "symsgd/team.hpp"

namespace symsgd {

namespace {

constexpr std::int64_t least_piece = 1 << 14, most_pieces = 64;  // of features that are sorted

}  // namespace

template <class V, class I>
FeatureOrder::FeatureOrder(const SparseRows<V, I>& rows, std::int64_t entries, int threads)
    : original_(static_cast<std::size_t>(rows.features), Uninitialised{}, Pages::as_they_come),
      place_(static_cast<std::size_t>(rows.features), Uninitialised{}, Pages::as_they_come) {
    const std::int64_t all = rows.start[rows.rows];
    const std::int64_t apart = std::max<std::int64_t>(1, all / std::max<std::int64_t>(1, entries));
    sampled_ = (rows.rows + apart - 1) / apart;
    // Every thread goes through the whole sample and counts features of its own: those that all rows have would go
    // from core to core with every count. Then a counting sort, from the most frequent down; features alike in this
    // stay as they were.
    const std::int64_t pieces =
        std::clamp<std::int64_t>(rows.features / least_piece, 1, std::min<std::int64_t>(threads, most_pieces));
    const auto piece_begin = [&](std::int64_t piece) { return piece * rows.features / pieces; };
    Array<std::int32_t> count(static_cast<std::size_t>(rows.features), Pages::as_they_come);
    const auto count_of = [&](std::int64_t feature) {
        return static_cast<std::size_t>(count[static_cast<std::size_t>(feature)]);
    };
    std::vector<std::vector<std::int64_t>> next(static_cast<std::size_t>(pieces));  // [piece][count]
    in_pieces(pieces, 1, threads, [&](std::int64_t piece, std::int64_t) {
        std::vector<std::int64_t>& own = next[static_cast<std::size_t>(piece)];
        const std::int64_t begin = piece_begin(piece), end = piece_begin(piece + 1);
        for (std::int64_t row = 0; row < rows.rows; row += apart) {
            if (row + 8 * apart < rows.rows) __builtin_prefetch(rows.index + rows.start[row + 8 * apart]);
            for (std::int64_t e = rows.start[row]; e < rows.start[row + 1]; ++e) {
                const auto feature = static_cast<std::int64_t>(rows.index[e]);
                if (feature >= begin && feature < end) ++count[static_cast<std::size_t>(feature)];
            }
        }
        for (std::int64_t i = begin; i < end; ++i) {
            const std::size_t often = count_of(i);
            if (often >= own.size()) own.resize(2 * often + 1);
            ++own[often];
        }
    });
    std::size_t most = 0;
    for (std::vector<std::int64_t>& own : next) {
        while (own.size() > 1 && own.back() == 0) own.pop_back();
        most = std::max(most, own.size());
    }
    with_at_least_.assign(most + 1, 0);
    std::int64_t at = 0;
    for (std::size_t often = most; often-- > 0;) {
        for (std::vector<std::int64_t>& own : next)
            if (often < own.size()) at += std::exchange(own[often], at);
        with_at_least_[often] = at;
    }
    in_pieces(pieces, 1, threads, [&](std::int64_t piece, std::int64_t) {
        std::vector<std::int64_t>& own = next[static_cast<std::size_t>(piece)];
        for (std::int64_t i = piece_begin(piece); i < piece_begin(piece + 1); ++i) {
            const std::int64_t place = own[count_of(i)]++;
            place_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(place);
            original_[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(i);
        }
    });
}

std::int64_t FeatureOrder::in_share(double share) const {
    return seen(static_cast<std::int64_t>(std::max(1.0, std::ceil(share * static_cast<double>(sampled_)))));
}

std::int64_t FeatureOrder::seen(std::int64_t times) const {
    return times < static_cast<std::int64_t>(with_at_least_.size()) ? with_at_least_[static_cast<std::size_t>(times)]
                                                                    : 0;
}

template <class To, class V, class I>
Array<To> renumbered(const SparseRows<V, I>& rows, const FeatureOrder& order, int threads) {
    const std::int64_t entries = rows.start[rows.rows];
    Array<To> index(static_cast<std::size_t>(entries), Uninitialised{}, Pages::small);
    const std::int32_t* const place = order.place();
    const I* const from = rows.index;
    PagesOfCopy pages;
    in_pieces(entries, HugePages::size / sizeof(To), threads, [&](std::int64_t begin, std::int64_t end) {
        To* const to = index.data();
        pages.make(to + begin, static_cast<std::size_t>(end - begin) * sizeof(To));
        for (std::int64_t e = begin; e < end; ++e) to[e] = static_cast<To>(place[from[e]]);
    });
    return index;
}

#define SYMSGD_RENUMBERED(To, V, I) \
    template Array<To> renumbered<To>(const SparseRows<V, I>&, const FeatureOrder&, int);
#define SYMSGD_FOR_SPARSE(V, I)                                                      \
    template FeatureOrder::FeatureOrder(const SparseRows<V, I>&, std::int64_t, int); \
    SYMSGD_RENUMBERED(std::uint16_t, V, I)                                           \
    SYMSGD_RENUMBERED(std::int32_t, V, I)
SYMSGD_FOR_SPARSE(float, std::int32_t)
SYMSGD_FOR_SPARSE(float, std::int64_t)
SYMSGD_FOR_SPARSE(double, std::int32_t)
SYMSGD_FOR_SPARSE(double, std::int64_t)
#undef SYMSGD_FOR_SPARSE
#undef SYMSGD_RENUMBERED

}  // namespace symsgd
