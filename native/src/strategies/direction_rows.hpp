// Rows as a few directions see them: V has orthonormal columns, the sharpest directions of E[x xᵀ] over a sample of the
// rows, and q = Vᵀx is kept for every row, with |x|². Of sparse rows, or very long ones, V has the most frequent
// features alone.
#pragma once

#include <limits>

#include "curvature_sample.hpp"

namespace symsgd {

template <class Rows>
class DirectionRows {
    using V = typename Rows::Value;

public:
    static constexpr int column_step = 16;

    bool found() const { return q_.size() != 0; }
    int columns() const { return columns_; }
    int rank() const { return spectrum_.rank(); }
    const V* of(std::int64_t row) const { return q_.data() + row * columns_; }
    void fetch(std::int64_t row) const {
        for (int k = 0; k < columns_; k += 64 / static_cast<int>(sizeof(V))) __builtin_prefetch(of(row) + k);
        __builtin_prefetch(square_.data() + row);
    }
    V square(std::int64_t row) const { return square_[static_cast<std::size_t>(row)]; }

    // The features that V has lines for, ascending.
    const std::vector<std::int64_t>& features() const { return chosen_.features(); }

    // Finds V, if it is not known yet. Called by a whole crew.
    void find(Crew::Member& member, Workspace<Rows>& work, const WrittenOrder& order, int rank) {
        if (rank_ == 0) {
            member.alone([&] { choose(work, order, rank); });
            sample(member, work);
            for (int turn = 0; turn < turns; ++turn)
                spectrum_.estimate(member, sample_, numbers_, work.kernels.template of_curvature<V>(), work.spec.seed);
            member.alone([&] { rank_ = rank; });
        }
        member.alone([&] { lay_out(work.rows); });
    }

    // q and |x|² of a sparse row: its entries of V's features, by their place among those.
    void see(Workspace<Rows>& work, std::int64_t row, const std::int32_t* places, const V* values, std::int64_t count,
             double square) {
        square_[static_cast<std::size_t>(row)] = static_cast<V>(square);
        work.kernels.template of_strips<V>().project(places, values, count, v_.data(), columns_,
                                                     q_.data() + row * columns_);
    }

    // Those of all dense rows. Called by a whole crew.
    void see_all(Crew::Member& member, Workspace<Rows>& work)
        requires(!Rows::sparse)
    {
        const std::int64_t pieces = (work.rows.rows + piece_rows - 1) / piece_rows;
        member.phase(
            pieces,
            [&](std::int64_t piece) {
                project(work, piece * piece_rows, std::min(work.rows.rows, (piece + 1) * piece_rows));
            },
            [&] { seen_ = true; });
    }
    bool seen() const { return seen_; }

    // V alone: q follows from it.
    template <class State>
    void archive(State& state) {
        state(rank_, chosen_, spectrum_);
    }

private:
    static constexpr int turns = 1;
    static constexpr std::int64_t most_features = 4096;
    static constexpr std::int64_t sample_entries = std::int64_t{1} << 21, most_sample = 8192;
    static constexpr std::int64_t parts = 8;         // of the sample, whatever the threads: sums are then the same
    static constexpr std::int64_t piece_rows = 512;  // whose q are made at a time
    static constexpr int at_once = 16;

    void choose(Workspace<Rows>& work, const WrittenOrder& order, int rank) {
        const std::int64_t mean = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        sampled_ = spread_rows(order, std::clamp<std::int64_t>(sample_entries / mean, 256, most_sample), 0);
        chosen_.choose(work.rows, most_features, [&] { return sampled_; });
        const auto places = static_cast<std::int64_t>(chosen_.features().size());
        numbers_.resize(static_cast<std::size_t>(places));
        std::iota(numbers_.begin(), numbers_.end(), std::int64_t{0});
        spectrum_.reset(places, static_cast<int>(std::min<std::int64_t>(rank, places)));
        sample_.parts.resize(static_cast<std::size_t>(parts));
        sample_.diagonal.assign(static_cast<std::size_t>(places) + 1, 0.0);
    }

    void sample(Crew::Member& member, Workspace<Rows>& work) {
        const auto count = static_cast<std::int64_t>(sampled_.size());
        const double root = 1.0 / std::sqrt(static_cast<double>(count));
        member.phase(parts, [&](std::int64_t task) {
            auto& part = sample_.parts[static_cast<std::size_t>(task)];
            part = {};
            for (std::int64_t i = task * count / parts; i < (task + 1) * count / parts; ++i) {
                for_entries(work.rows, sampled_[static_cast<std::size_t>(i)], [&](std::int64_t feature, V x) {
                    const std::int64_t place = chosen_.place(feature);
                    if (place < 0 || x == 0) return;
                    part.place.push_back(static_cast<std::int32_t>(place));
                    part.value.push_back(static_cast<V>(root * static_cast<double>(x)));
                });
                part.start.push_back(static_cast<std::int64_t>(part.place.size()));
            }
        });
    }

    // V with rows as the kernels read them: columns that count, and zeros up to a multiple of 16.
    void lay_out(const Rows& rows) {
        columns_ = (spectrum_.rank() + column_step - 1) / column_step * column_step;
        const auto places = static_cast<std::int64_t>(chosen_.features().size());
        v_ = Array<V>(static_cast<std::size_t>(places * columns_));
        for (std::int64_t k = 0; k < places; ++k)
            std::copy_n(spectrum_.q(k), spectrum_.rank(), v_.data() + k * columns_);
        q_ = Array<V>(static_cast<std::size_t>(std::max<std::int64_t>(rows.rows, 1) * columns_), Uninitialised{},
                      Pages::as_they_come);
        square_ = Array<V>(static_cast<std::size_t>(rows.rows), Uninitialised{});
        sample_ = {};
    }

    void project(Workspace<Rows>& work, std::int64_t begin, std::int64_t end)
        requires(!Rows::sparse)
    {
        const GramKernels<V>& kernels = work.kernels.template of_gram<V>();
        const std::vector<std::int64_t>& features = chosen_.features();
        const auto count = static_cast<std::int64_t>(features.size());
        std::vector<V> copied(chosen_.are_first() ? 0 : static_cast<std::size_t>(at_once * count));
        std::vector<V> out(static_cast<std::size_t>(at_once * columns_));
        const V* rows[at_once];
        for (std::int64_t first = begin; first < end; first += at_once) {
            const std::int64_t left = std::min<std::int64_t>(at_once, end - first);
            for (std::int64_t i = 0; i < at_once; ++i)
                rows[i] = work.rows.value + std::min(first + i, end - 1) * work.rows.features;
            kernels.square(rows, static_cast<int>(left), work.rows.features, square_.data() + first);
            for (std::int64_t i = 0; i < at_once && !chosen_.are_first(); ++i) {
                V* const own = copied.data() + i * count;
                for (std::int64_t k = 0; k < count; ++k) own[k] = rows[i][features[static_cast<std::size_t>(k)]];
                rows[i] = own;
            }
            kernels.project(rows, at_once, count, v_.data(), columns_, out.data());
            std::copy_n(out.data(), left * columns_, q_.data() + first * columns_);
        }
    }

    int rank_ = 0;  // asked for; 0: V is not known
    int columns_ = 0;
    bool seen_ = false;
    ChosenFeatures chosen_;
    Spectrum<V> spectrum_;
    std::vector<std::int64_t> sampled_, numbers_;
    CurvatureSample<V> sample_;
    Array<V> v_;  // features chosen × columns
    Array<V> q_;  // rows × columns
    Array<V> square_;
};

}  // namespace symsgd
