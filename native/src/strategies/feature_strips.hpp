// Features of sparse rows shared out among threads: each has a *strip*, a copy of the entries of its own features, row
// by row, and the weights of those, which nobody else touches.
//
// Features that two rows of a sample have are dealt out one by one, the most frequent first, so that every strip has
// about as many entries, and those that are used most lie together. All others have a place behind them that follows
// from their number: 16 at a time go round the strips. (Nobody has to look at each of many millions of features.)
#pragma once

#include <limits>
#include <queue>
#include <stdexcept>

#include "direction_rows.hpp"
#include "feature_slices.hpp"

namespace symsgd {

template <class V, class I>
class FeatureSlices<SparseRows<V, I>> {
    using Rows = SparseRows<V, I>;

public:
    void cut(Workspace<Rows>& work) {
        const ModelView<V> view = work.model.view();
        stride_ = view.stride;
        count_ = static_cast<int>(
            std::min<std::int64_t>({work.spec.strategy.threads, view.features / least_features, most_slices}));
        entries_ = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
    }

    int count() const { return count_; }

    // Rows whose entries in a strip take up so many bytes.
    std::int64_t rows_of(std::int64_t bytes) const {
        const std::int64_t each = entries_ / count_ + 1;
        return bytes / (each * static_cast<std::int64_t>(sizeof(V) + sizeof(std::int32_t)));
    }

    // Makes the strips, if there are none yet, and on the way, while its entries are at hand, what directions see of a
    // row. Called by a whole crew.
    void prepare(Crew::Member& member, Workspace<Rows>& work, DirectionRows<Rows>& directions) {
        if (!strips_.empty()) return;
        member.alone([&] {
            deal(work.rows, directions.features());
            lengths_.assign(static_cast<std::size_t>(pieces * count_), 0);
        });
        member.phase(
            pieces, [&](std::int64_t piece) { count_entries(work.rows, piece); }, [&] { make_room(work.rows); });
        member.phase(pieces, [&](std::int64_t piece) { copy_entries(work, piece, directions); });
        member.alone([&] {
            lengths_ = {};
            table_ = {};
        });
    }

    // The strip's weights out of the model, and back.
    void load(Workspace<Rows>& work, int slice) {
        exchange(work, slice, [](V& model, V& own) { own = model; });
    }
    void store(Workspace<Rows>& work, int slice) {
        exchange(work, slice, [](V& model, V& own) { model = own; });
    }

    void save(Workspace<Rows>&, int slice) {
        Strip& strip = strips_[static_cast<std::size_t>(slice)];
        std::copy_n(strip.weights.data(), strip.weights.size(), strip.saved.data());
    }
    void restore(Workspace<Rows>&, int slice) {
        Strip& strip = strips_[static_cast<std::size_t>(slice)];
        std::copy_n(strip.saved.data(), strip.saved.size(), strip.weights.data());
    }

    void score(Workspace<Rows>& work, int slice, const std::int64_t* order, std::int64_t rows, V* out) const {
        const Strip& strip = strips_[static_cast<std::size_t>(slice)];
        work.kernels.template of_strips<V>().score(strip.rows(work.rows.rows), order, rows, strip.weights.data(),
                                                   stride_, out);
        const std::int64_t filled = (rows + group - 1) / group * group;
        std::fill(out + rows * stride_, out + filled * stride_, V{});
    }

    void move(Workspace<Rows>& work, int slice, const std::int64_t* order, std::int64_t rows, const V* steps,
              const V* keep) {
        Strip& strip = strips_[static_cast<std::size_t>(slice)];
        if (keep != nullptr)
            for (std::size_t i = 0; i < strip.weights.size(); ++i)
                strip.weights[i] *= keep[i % static_cast<std::size_t>(stride_)];
        work.kernels.template of_strips<V>().move(strip.rows(work.rows.rows), order, rows, steps, strip.weights.data(),
                                                  stride_);
    }

private:
    static constexpr std::int64_t least_features = 16, group = 16;
    static constexpr std::int64_t most_slices = std::numeric_limits<std::int16_t>::max();
    static constexpr std::int64_t spared = 18;   // entries of a row that the first strip has less, for the chain
    static constexpr std::int64_t line = 16;     // features that are not in the sample are dealt out so many at a time
    static constexpr std::int64_t pieces = 256;  // of the rows, that are copied side by side
    static constexpr std::int64_t sample_entries = 1'000'000;
    static constexpr std::int64_t looked_ahead = 32;                    // entries
    static constexpr std::int64_t most_tabled = std::int64_t{1} << 18;  // features that have their place in a table

    struct Strip {
        std::vector<std::int64_t> dealt;  // features, by their place
        std::int64_t features = 0;        // places, also those of features that were dealt to others
        Array<std::int32_t> start, index;
        Array<V> value, weights, saved;

        SparseRows<V, std::int32_t> rows(std::int64_t count) const {
            return {start.data(), index.data(), value.data(), count, features};
        }
    };

    struct Place {
        std::int32_t place;
        std::int16_t slice, chosen;  // its place among the few features of the directions; −1 if it is none of them
    };

    Place find(std::int64_t feature) const {
        if (table_.size() != 0) return table_[static_cast<std::size_t>(feature)];
        return look_up(feature);
    }

    Place look_up(std::int64_t feature) const {
        const std::int32_t dealt = dealt_[feature];
        if (dealt >= 0) return places_[static_cast<std::size_t>(dealt)];
        const auto number = static_cast<std::uint32_t>(feature / line), count = static_cast<std::uint32_t>(count_);
        const std::uint32_t slice = number % count;
        return {static_cast<std::int32_t>(first_rare_[slice] + number / count * line + feature % line),
                static_cast<std::int16_t>(slice), -1};
    }

    // Who has which feature. The first strip has as many entries fewer as its thread has other work. Features that one
    // row of the sample has are as good as unknown, but for those that are chosen.
    void deal(const Rows& rows, const std::vector<std::int64_t>& chosen) {
        const std::int64_t apart = std::max<std::int64_t>(1, rows.start[rows.rows] / sample_entries);
        std::vector<std::int64_t> sample, found;
        for (std::int64_t row = 0; row < rows.rows; row += apart) sample.push_back(row);
        const FeatureCounts count(rows, sample, found);
        std::erase_if(found, [&](std::int64_t feature) { return count[feature] < 2; });
        for (const std::int64_t feature : chosen)
            if (count[feature] < 2) found.push_back(feature);
        dealt_.assign(rows.features, found);
        places_.assign(found.size(), {0, 0, -1});
        for (std::size_t k = 0; k < chosen.size(); ++k)
            places_[static_cast<std::size_t>(dealt_[chosen[k]])].chosen = static_cast<std::int16_t>(k);
        using Counted = std::pair<std::int32_t, std::int64_t>;  // −count, feature
        std::vector<Counted> frequent;
        for (const std::int64_t feature : found) frequent.push_back({-count[feature], feature});
        std::sort(frequent.begin(), frequent.end());
        strips_ = std::vector<Strip>(static_cast<std::size_t>(count_));
        using Load = std::pair<std::int64_t, int>;
        std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
        const auto sampled = static_cast<std::int64_t>(sample.size());
        for (int s = 0; s < count_; ++s) loads.push({s == 0 ? spared * sampled : 0, s});
        for (const auto& [less, feature] : frequent) {
            const auto [load, slice] = loads.top();
            loads.pop();
            loads.push({load - less, slice});
            std::vector<std::int64_t>& own = strips_[static_cast<std::size_t>(slice)].dealt;
            Place& place = places_[static_cast<std::size_t>(dealt_[feature])];
            place.slice = static_cast<std::int16_t>(slice);
            place.place = static_cast<std::int32_t>(own.size());
            own.push_back(feature);
        }
        const std::int64_t lines = (rows.features + line - 1) / line;
        first_rare_.clear();
        for (Strip& strip : strips_) {
            first_rare_.push_back((static_cast<std::int64_t>(strip.dealt.size()) + line - 1) / line * line);
            strip.features = first_rare_.back() + (lines + count_ - 1) / count_ * line;
        }
        if (rows.features > most_tabled) return;
        table_ = Array<Place>(static_cast<std::size_t>(rows.features), Uninitialised{});
        for (std::int64_t i = 0; i < rows.features; ++i) table_[static_cast<std::size_t>(i)] = look_up(i);
    }

    // What a later entry's place will be found by.
    void fetch(const Rows& rows, std::int64_t entry, std::int64_t end) const {
        if (table_.size() == 0) dealt_.fetch(rows.index[std::min(entry + looked_ahead, end - 1)]);
    }

    static std::int64_t piece_begin(const Rows& rows, std::int64_t piece) { return piece * rows.rows / pieces; }

    std::int64_t& length(std::int64_t piece, std::int64_t slice) {
        return lengths_[static_cast<std::size_t>(piece * count_ + slice)];
    }

    void count_entries(const Rows& rows, std::int64_t piece) {
        std::vector<std::int64_t> own(static_cast<std::size_t>(count_), 0);
        const std::int64_t end = rows.start[piece_begin(rows, piece + 1)];
        for (std::int64_t e = rows.start[piece_begin(rows, piece)]; e < end; ++e) {
            fetch(rows, e, end);
            ++own[static_cast<std::size_t>(find(rows.index[e]).slice)];
        }
        for (std::int64_t s = 0; s < count_; ++s) length(piece, s) = own[static_cast<std::size_t>(s)];
    }

    // Lengths become where the pieces begin.
    void make_room(const Rows& rows) {
        for (std::int64_t s = 0; s < count_; ++s) {
            std::int64_t entries = 0;
            for (std::int64_t piece = 0; piece < pieces; ++piece) {
                const std::int64_t own = length(piece, s);
                length(piece, s) = entries;
                entries += own;
            }
            if (entries > std::numeric_limits<std::int32_t>::max())
                throw std::invalid_argument(
                    "strategy directions: a thread would have more than 2³¹ entries of X; use more threads");
            Strip& strip = strips_[static_cast<std::size_t>(s)];
            strip.start = Array<std::int32_t>(static_cast<std::size_t>(rows.rows) + 1, Uninitialised{});
            strip.start[static_cast<std::size_t>(rows.rows)] = static_cast<std::int32_t>(entries);
            strip.index = Array<std::int32_t>(static_cast<std::size_t>(entries), Uninitialised{}, Pages::as_they_come);
            strip.value = Array<V>(static_cast<std::size_t>(entries), Uninitialised{}, Pages::as_they_come);
            strip.weights = Array<V>(static_cast<std::size_t>(strip.features * stride_));
            strip.saved = Array<V>(strip.weights.size(), Pages::as_they_come);
        }
    }

    void copy_entries(Workspace<Rows>& work, std::int64_t piece, DirectionRows<Rows>& directions) {
        const Rows& rows = work.rows;
        std::vector<std::int32_t> at, chosen;
        std::vector<V> values;
        const std::int64_t last = rows.start[piece_begin(rows, piece + 1)];
        for (std::int64_t s = 0; s < count_; ++s) at.push_back(static_cast<std::int32_t>(length(piece, s)));
        for (std::int64_t row = piece_begin(rows, piece); row < piece_begin(rows, piece + 1); ++row) {
            for (std::size_t s = 0; s < at.size(); ++s) strips_[s].start[static_cast<std::size_t>(row)] = at[s];
            const auto begin = static_cast<std::int64_t>(rows.start[row]), end = rows.start[row + 1];
            if (static_cast<std::int64_t>(values.size()) < end - begin) {
                values.resize(static_cast<std::size_t>(end - begin));
                chosen.resize(values.size());
            }
            std::size_t seen = 0;
            double square = 0.0;
            for (std::int64_t e = begin; e < end; ++e) {
                fetch(rows, e, last);
                const Place place = find(rows.index[e]);
                const V x = rows.value[e];
                const auto s = static_cast<std::size_t>(place.slice), to = static_cast<std::size_t>(at[s]++);
                strips_[s].index[to] = place.place;
                strips_[s].value[to] = x;
                square += static_cast<double>(x) * static_cast<double>(x);
                chosen[seen] = place.chosen;
                values[seen] = x;
                seen += place.chosen >= 0 ? 1 : 0;
            }
            directions.see(work, row, chosen.data(), values.data(), static_cast<std::int64_t>(seen), square);
        }
    }

    // Calls each(number of the model, number of the strip) for all weights of a strip.
    template <class Each>
    void exchange(Workspace<Rows>& work, int slice, Each&& each) {
        const ModelView<V> view = work.model.view();
        Strip& strip = strips_[static_cast<std::size_t>(slice)];
        const auto numbers = static_cast<std::size_t>(strip.features * stride_);
        if (strip.weights.size() != numbers) {  // classes have ended
            strip.weights = Array<V>(numbers);
            strip.saved = Array<V>(numbers, Pages::as_they_come);
        }
        const auto each_class = [&](std::int64_t feature, std::int64_t place) {
            for (int c = 0; c < stride_; ++c)
                each(view.weights[feature * stride_ + c], strip.weights[static_cast<std::size_t>(place * stride_ + c)]);
        };
        for (std::size_t i = 0; i < strip.dealt.size(); ++i) each_class(strip.dealt[i], static_cast<std::int64_t>(i));
        std::int64_t place = first_rare_[static_cast<std::size_t>(slice)];
        for (std::int64_t first = slice * line; first < view.features; first += count_ * line, place += line)
            for (std::int64_t i = first; i < std::min(first + line, view.features); ++i)
                if (dealt_[i] < 0) each_class(i, place + i - first);
    }

    std::int64_t entries_ = 1;
    int stride_ = 1, count_ = 0;
    std::vector<Strip> strips_;
    FeatureRanks dealt_;                    // features that were dealt out one by one
    std::vector<Place> places_;             // of those
    Array<Place> table_;                    // while rows are copied
    std::vector<std::int64_t> first_rare_;  // by strip: the place of the first feature that was not
    std::vector<std::int64_t> lengths_;     // pieces × strips
};

}  // namespace symsgd
