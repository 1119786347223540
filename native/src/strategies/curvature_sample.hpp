// The sample of rows that the curvature is estimated from (symsgd/spectrum.hpp).
#pragma once

#include <cmath>
#include <limits>

#include "common.hpp"
#include "symsgd/spectrum.hpp"

namespace symsgd {

// Calls f(feature, value) for the entries of a row.
template <class Rows, class F>
void for_entries(const Rows& rows, std::int64_t row, F&& f) {
    if constexpr (Rows::sparse)
        for (auto j = rows.start[row]; j < rows.start[row + 1]; ++j)
            f(static_cast<std::int64_t>(rows.index[j]), rows.value[j]);
    else
        for (std::int64_t j = 0; j < rows.features; ++j) f(j, rows.value[row * rows.features + j]);
}

// x·w, `weights` being those of one class, `stride` apart; of the first `upto` features alone.
template <class Rows, class V>
double score(const Rows& rows, std::int64_t row, const V* weights, int stride,
             std::int64_t upto = std::numeric_limits<std::int64_t>::max()) {
    const auto product = [&](std::int64_t feature, V x) {
        return feature < upto ? static_cast<double>(weights[feature * stride]) * static_cast<double>(x) : 0.0;
    };
    std::int64_t first = 0, count = rows.features;
    if constexpr (Rows::sparse) {
        first = rows.start[row];
        count = rows.start[row + 1] - first;
    }
    const auto term = [&](std::int64_t j) {
        if constexpr (Rows::sparse)
            return product(static_cast<std::int64_t>(rows.index[first + j]), rows.value[first + j]);
        else
            return product(j, rows.value[row * rows.features + j]);
    };
    double even = 0.0, odd = 0.0, third = 0.0, fourth = 0.0;  // which do not wait for each other
    std::int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
        even += term(j);
        odd += term(j + 1);
        third += term(j + 2);
        fourth += term(j + 3);
    }
    for (; j < count; ++j) even += term(j);
    return (even + odd) + (third + fourth);
}

// Row i of `count` rows of a pass, evenly spaced; another set for every `turn`.
inline std::int64_t spread_row(const WrittenOrder& order, std::int64_t count, std::int64_t i, std::int64_t turn) {
    const std::int64_t begin = i * order.count() / count, end = (i + 1) * order.count() / count;
    return *order.at(begin + turn * 7919 % (end - begin));
}

// `wanted` of them, or all there are.
inline std::vector<std::int64_t> spread_rows(const WrittenOrder& order, std::int64_t wanted, std::int64_t turn) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(wanted, order.count())));
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = spread_row(order, static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(i), turn);
    return rows;
}

// What a row is to the class of a lane: its target and its weight.
struct Seen {
    double target, weight;
};

inline Seen seen_by(const Targets& targets, std::int64_t row, int c) {
    Seen seen{};
    targets.read(&row, 1, &seen.target, &seen.weight);
    if (targets.class_ids.size() < 2) return seen;
    const auto lane = static_cast<std::size_t>(c);
    const bool positive = seen.target == targets.class_ids[lane];
    return {positive ? 1.0 : -1.0, seen.weight * (positive ? targets.positive_weight : targets.negative_weight)[lane]};
}

// What a row loses by its prediction for a class.
template <class Rows>
double loss_of(const Workspace<Rows>& work, std::int64_t row, int c, double prediction) {
    const Seen seen = seen_by(work.spec.targets, row, c);
    return seen.weight *
           visit(work.spec.rule.loss, [&](const auto& loss) { return loss.value(prediction, seen.target); });
}

// Fetches what comes after row i where every `apart`-th of some rows is looked at, which are nowhere near each other in
// memory: first where they are, then what they have.
template <class Rows>
void fetch_ahead(const Workspace<Rows>& work, const std::vector<std::int64_t>& some, std::size_t i, std::size_t apart) {
    constexpr std::size_t starts_ahead = 16, rows_ahead = 6;
    constexpr std::int64_t bytes_fetched = 1024;  // of each, at most
    const Rows& rows = work.rows;
    if (i + starts_ahead * apart < some.size()) {
        const std::int64_t row = some[i + starts_ahead * apart];
        if constexpr (Rows::sparse) __builtin_prefetch(rows.start.address(row));
        const Column& labels = work.spec.targets.labels;
        if (labels.data != nullptr)
            __builtin_prefetch(static_cast<const char*>(labels.data) + row * bytes_of(labels.type));
    }
    if (i + rows_ahead * apart >= some.size()) return;
    const std::int64_t row = some[i + rows_ahead * apart];
    std::int64_t first = row * rows.features, count = rows.features;
    if constexpr (Rows::sparse) {
        first = rows.start[row];
        count = rows.start[row + 1] - first;
    }
    const std::int64_t bytes = std::min(count * static_cast<std::int64_t>(sizeof(typename Rows::Value)), bytes_fetched);
    for (std::int64_t byte = 0; byte < bytes; byte += 64) {
        __builtin_prefetch(reinterpret_cast<const char*>(rows.value + first) + byte);
        if constexpr (Rows::sparse) __builtin_prefetch(reinterpret_cast<const char*>(rows.index + first) + byte);
    }
}

// h, or where the gradient jumps its secant over as far as predictions are off (compare soft_response in the kernels).
// `reach` is what a step moves its own prediction by, for a gradient of 1.
inline double curvature_at(const Rule& rule, double p, double y, double reach, double drift) {
    return visit(rule.loss, [&](const auto& loss) {
        if (!rule.soft_curvature) return static_cast<double>(loss.curvature(p, y));
        const double delta = std::max(drift, 0.5 * reach);
        if (!(delta > 0.0)) return 0.0;
        const double slope = (loss.gradient(p + delta, y) - loss.gradient(p - delta, y)) / (2.0 * delta);
        return reach > 0.0 ? std::min(slope, 1.0 / reach) : slope;
    });
}

// How many of some rows have each feature.
class FeatureCounts {
public:
    // Features that rows have, those of the first row first, are in `found`.
    template <class Rows>
    FeatureCounts(const Rows& rows, const std::vector<std::int64_t>& sample, std::vector<std::int64_t>& found)
        : count_(static_cast<std::size_t>(rows.features)) {  // pages that are never used cost nothing
        found.clear();
        for (const std::int64_t row : sample)
            for_entries(rows, row, [&](std::int64_t feature, auto) {
                if (count_[static_cast<std::size_t>(feature)]++ == 0) found.push_back(feature);
            });
    }

    std::int32_t operator[](std::int64_t feature) const { return count_[static_cast<std::size_t>(feature)]; }

private:
    Array<std::int32_t> count_;
};

// A few of very many features by their rank among them: two bits a feature, which stay in the cache.
class FeatureRanks {
public:
    void assign(std::int64_t features, const std::vector<std::int64_t>& some) {
        words_.assign(static_cast<std::size_t>(features / 32 + 1), {});
        for (const std::int64_t feature : some)
            words_[static_cast<std::size_t>(feature / 32)].bits |= std::uint32_t{1} << (feature % 32);
        std::int32_t before = 0;
        for (Word& word : words_) {
            word.before = before;
            before += ones(word.bits);
        }
    }

    // −1 if it is none of them.
    std::int32_t operator[](std::int64_t feature) const {
        const Word word = words_[static_cast<std::size_t>(feature / 32)];
        const std::uint32_t bit = std::uint32_t{1} << (feature % 32);
        return (word.bits & bit) == 0 ? -1 : word.before + ones(word.bits & (bit - 1));
    }

    void fetch(std::int64_t feature) const { __builtin_prefetch(words_.data() + feature / 32); }

private:
    struct Word {
        std::uint32_t bits = 0;
        std::int32_t before = 0;  // features of the words before it
    };

    // Not every processor counts bits, and std::popcount is a call then.
    static std::int32_t ones(std::uint32_t bits) {
        bits -= bits >> 1 & 0x5555'5555;
        bits = (bits & 0x3333'3333) + (bits >> 2 & 0x3333'3333);
        return static_cast<std::int32_t>(((bits + (bits >> 4)) & 0x0f0f'0f0f) * 0x0101'0101 >> 24);
    }

    std::vector<Word> words_;
};

// Some of the features, ascending.
class ChosenFeatures {
public:
    void take_first(std::int64_t count) {
        first_ = true;
        features_.resize(static_cast<std::size_t>(count));
        std::iota(features_.begin(), features_.end(), std::int64_t{0});
    }

    // All of them, or the `most` most frequent of the rows that sample() gives.
    template <class Rows, class Sample>
    void choose(const Rows& rows, std::int64_t most, Sample&& sample) {
        if (rows.features <= most) return take_first(rows.features);
        const FeatureCounts count(rows, sample(), features_);
        if (static_cast<std::int64_t>(features_.size()) > most) {
            using Counted = std::pair<std::int32_t, std::int64_t>;  // −count, feature
            std::vector<Counted> found;
            for (const std::int64_t feature : features_) found.push_back({-count[feature], feature});
            std::nth_element(found.begin(), found.begin() + most, found.end());
            features_.resize(static_cast<std::size_t>(most));
            for (std::size_t k = 0; k < features_.size(); ++k) features_[k] = found[k].second;
        }
        std::sort(features_.begin(), features_.end());
        first_ = false;
        all_ = rows.features;
        places_.assign(all_, features_);
    }

    const std::vector<std::int64_t>& features() const { return features_; }
    bool are_first() const { return first_; }  // a feature's number is its place

    // Of a feature among them; −1 if it is none.
    std::int64_t place(std::int64_t feature) const {
        if (!first_) return places_[feature];
        return feature < static_cast<std::int64_t>(features_.size()) ? feature : -1;
    }

    template <class State>
    void archive(State& state) {
        state(first_, all_, features_);
        if (State::reading && !first_) places_.assign(all_, features_);
    }

private:
    bool first_ = true;
    std::int64_t all_ = 0;
    std::vector<std::int64_t> features_;
    FeatureRanks places_;
};

template <class Rows>
class CurvatureSampler {
    using V = typename Rows::Value;

public:
    // The features that Q has rows of: all of them, or the `most` most frequent. What a merge gets wrong for H being
    // wrong adds up over the `blocks` of a round, so that samples grow with them.
    void choose_features(const Rows& rows, const FeatureOrder* by_frequency, const WrittenOrder& order,
                         std::int64_t most, std::int64_t blocks) {
        blocks_ = blocks;
        known_ = rows.features;
        if (by_frequency != nullptr) {
            known_ = std::min(known_, std::max(most, std::min(most_known, by_frequency->seen(often_enough))));
            chosen_.take_first(std::min(rows.features, most));
        } else {
            chosen_.choose(rows, most, [&] { return spread_rows(order, sample_rows(rows), 0); });
        }
    }

    // √(weight × h / rows) x̃ of sampled rows, for class c, whose next step has this size. Called by a whole crew.
    void take(Crew::Member& member, Workspace<Rows>& work, const WrittenOrder& order, std::int64_t turn, int c,
              double step, CurvatureSample<V>& sample) {
        const std::int64_t count = std::min(sample_rows(work.rows), order.count());
        const std::int64_t parts =
            std::clamp<std::int64_t>(count * mean_entries(work.rows) / part_entries, 1, most_parts);
        member.alone([&] {
            sample.parts.resize(static_cast<std::size_t>(parts));
            squares_.resize(sample.parts.size());
            sample.diagonal.resize(static_cast<std::size_t>(known_) + 1);
        });
        member.phase(parts, [&](std::int64_t task) {
            const auto part = static_cast<std::size_t>(task);
            std::vector<std::int64_t> rows(static_cast<std::size_t>((task + 1) * count / parts - task * count / parts));
            for (std::size_t i = 0; i < rows.size(); ++i)
                rows[i] = spread_row(order, count, task * count / parts + static_cast<std::int64_t>(i), turn);
            write_part(work, c, step, rows, static_cast<double>(count), sample.parts[part], squares_[part]);
        });
        member.phase(ranges, [&](std::int64_t range) { add_diagonal(sample.diagonal, range); });
    }

    const std::vector<std::int64_t>& features() const { return chosen_.features(); }
    bool features_are_first() const { return chosen_.are_first(); }
    std::int64_t place(std::int64_t feature) const { return chosen_.place(feature); }  // among them, or −1
    std::int64_t known() const { return known_; }  // features whose curvature is asked for: the rest are too rare

    template <class State>
    void archive(State& state) {
        state(blocks_, chosen_, known_);
    }

private:
    static constexpr std::int64_t most_known = 65536;
    static constexpr std::int64_t often_enough = 2;  // seen where features were counted, to know how frequent one is
    static constexpr std::int64_t entries_a_block = 50000, most_rows_a_block = 2048;  // of a sample, about
    static constexpr std::int64_t part_entries = 24000, most_parts = 16;
    static constexpr std::int64_t ranges = 16;  // of the diagonal, that are added up side by side
    static std::int64_t mean_entries(const Rows& rows) {
        return 1 + entries_of(rows) / std::max<std::int64_t>(1, rows.rows);
    }
    std::int64_t sample_rows(const Rows& rows) const {
        return std::clamp<std::int64_t>(entries_a_block * blocks_ / mean_entries(rows), 256,
                                        most_rows_a_block * blocks_);
    }

    using Part = typename CurvatureSample<V>::Part;

    // The diagonal of a part: a number for each of Q's places, and single squares of what Q has no place for, those of
    // each range of features together.
    struct Squares {
        struct Single {
            std::int32_t feature;
            V square;
        };
        std::vector<double> of_place;
        std::vector<Single> single[ranges];
    };

    // Features of a range are as many as a power of two has, so that a feature's is found without a division.
    int range_bits() const {
        int bits = 0;
        while ((known_ >> bits) >= ranges) ++bits;
        return bits;
    }

    // Some rows of the sample, which has `count`.
    void write_part(Workspace<Rows>& work, int c, double step, const std::vector<std::int64_t>& rows, double count,
                    Part& part, Squares& squares) const {
        part.start.assign(1, 0);
        squares.of_place.assign(features().size() + 1, 0.0);
        for (auto& single : squares.single) single.clear();
        std::size_t kept = 0;
        const int bits = range_bits();
        const Rule& rule = work.spec.rule;
        const double kappa = rule.fit_intercept ? rule.intercept_decay : 0.0;
        const ModelView<V> model = work.model.view();
        const Lane& lane = model.lanes[c];
        for (std::size_t i = 0; i < rows.size(); ++i) {
            fetch_ahead(work, rows, i, 1);
            const std::int64_t row = rows[i];
            const Seen seen = seen_by(work.spec.targets, row, c);
            double square = kappa;
            std::size_t entries = 1;
            for_entries(work.rows, row, [&](std::int64_t, V x) {
                square += static_cast<double>(x) * static_cast<double>(x);
                ++entries;
            });
            const double p = score(work.rows, row, model.weights + c, model.stride);
            const double h = curvature_at(rule, p * lane.scale + lane.intercept, seen.target,
                                          step * seen.weight * square, lane.drift);
            const double mean = h * seen.weight / count;
            if (!(mean > 0.0 && std::isfinite(mean))) continue;
            const double root = std::sqrt(mean);
            if (part.place.size() < kept + entries) {
                part.place.resize(2 * (kept + entries));
                part.value.resize(part.place.size());
            }
            const auto keep = [&](std::int64_t place, double value) {
                part.place[kept] = static_cast<std::int32_t>(place);
                part.value[kept++] = static_cast<V>(value);
                squares.of_place[static_cast<std::size_t>(place)] += value * value;
            };
            for_entries(work.rows, row, [&](std::int64_t feature, V x) {
                const double value = root * static_cast<double>(x);
                if (feature >= known_ || value == 0.0) return;
                const std::int64_t at = chosen_.place(feature);
                if (at >= 0) return keep(at, value);
                squares.single[feature >> bits].push_back(
                    {static_cast<std::int32_t>(feature), static_cast<V>(value * value)});
            });
            if (kappa > 0.0) keep(static_cast<std::int64_t>(features().size()), root * std::sqrt(kappa));
            part.start.push_back(static_cast<std::int64_t>(kept));
        }
    }

    // A range of it, part after part, so that sums are the same whoever has written them.
    void add_diagonal(std::vector<double>& diagonal, std::int64_t range) const {
        const std::int64_t width = std::int64_t{1} << range_bits();
        const std::int64_t begin = std::min(range * width, known_ + 1), end = std::min(begin + width, known_ + 1);
        std::fill(diagonal.begin() + begin, diagonal.begin() + end, 0.0);
        const std::vector<std::int64_t>& places = features();
        const auto first = std::lower_bound(places.begin(), places.end(), begin) - places.begin();
        for (const Squares& part : squares_) {
            for (auto k = static_cast<std::size_t>(first); k < places.size() && places[k] < end; ++k)
                diagonal[static_cast<std::size_t>(places[k])] += part.of_place[k];
            if (begin <= known_ && known_ < end)
                diagonal[static_cast<std::size_t>(known_)] += part.of_place[places.size()];
            for (const auto& [feature, square] : part.single[range])
                diagonal[static_cast<std::size_t>(feature)] += static_cast<double>(square);
        }
    }

    std::int64_t blocks_ = 1;
    ChosenFeatures chosen_;
    std::int64_t known_ = 0;
    std::vector<Squares> squares_;
};

}  // namespace symsgd
