// What the populations of twins have in common: which rows are wanted, what drawing them gives, and how threads share
// the work.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "symsgd/memory.hpp"
#include "symsgd/team.hpp"
#include "symsgd/twins/random.hpp"

namespace symsgd {

// Rows [first, first + count) of the part of a twin that has this key.
struct RowSpan {
    std::uint64_t key;
    std::int64_t first;
    std::int64_t count;

    Random random(std::int64_t i) const { return {key, first + i}; }
};

// What decides a row's label, before each has its weight: a function of the hidden variables, x·v, and logistic noise.
struct RowScores {
    Array<double> hidden, linear, noise;

    explicit RowScores(std::int64_t rows)
        : hidden(static_cast<std::size_t>(rows), Uninitialised{}),
          linear(hidden.size(), Uninitialised{}),
          noise(hidden.size(), Uninitialised{}) {}

    void set(std::int64_t i, double from_hidden, double from_row, double from_noise) {
        hidden[static_cast<std::size_t>(i)] = from_hidden;
        linear[static_cast<std::size_t>(i)] = from_row;
        noise[static_cast<std::size_t>(i)] = from_noise;
    }
};

// Rows in CSR form, features in order, each row of unit length. Memory beyond the last entry was never touched.
struct SparseRows {
    Array<std::int64_t> starts;
    Array<std::int32_t> indices;
    Array<float> values;
    std::size_t entries = 0;

    SparseRows(std::int64_t rows, std::size_t most_entries)
        : starts(static_cast<std::size_t>(rows) + 1, Uninitialised{}),
          indices(most_entries, Uninitialised{}),
          values(most_entries, Uninitialised{}) {
        starts[0] = 0;
    }

    // Where the next row goes.
    std::int32_t* next_indices() { return indices.data() + entries; }
    float* next_values() { return values.data() + entries; }

    // Ends the row that was written there, its i-th, and scales it by 1 / √squares.
    void end_row(std::int64_t i, std::size_t length, double squares) {
        const auto scale = static_cast<float>(1 / std::sqrt(squares));
        float* const value = next_values();
        for (std::size_t k = 0; k < length; ++k) value[k] *= scale;
        entries += length;
        starts[static_cast<std::size_t>(i) + 1] = static_cast<std::int64_t>(entries);
    }
};

struct TwinRows {
    SparseRows rows;
    RowScores scores;
};

// One piece for one thread, whose rows need not be moved then; else several a thread, so that none waits long for
// another that was held up, but not so many that what a piece sets up would count.
inline std::int64_t piece_rows(std::int64_t count, int threads) {
    const std::int64_t pieces = threads > 1 ? 4 * threads : 1;
    return std::max<std::int64_t>(1, (count + pieces - 1) / pieces);
}

// Draws `count` rows: begin() makes what draws the rows of a piece, one after the other, drawing(i, n, rows, scores)
// its i-th, which is the n-th of all. most_entries(begin, end) is how many entries the rows between may have.
template <class MostEntries, class Begin>
TwinRows draw_in_pieces(std::int64_t count, int threads, MostEntries&& most_entries, Begin&& begin) {
    const std::int64_t step = piece_rows(count, threads);
    std::vector<SparseRows> pieces;
    for (std::int64_t from = 0; from < count; from += step) {
        const std::int64_t to = std::min(count, from + step);
        pieces.emplace_back(to - from, most_entries(from, to));
    }
    RowScores scores(count);
    in_pieces(count, step, threads, [&](std::int64_t from, std::int64_t to) {
        auto drawing = begin();
        SparseRows& piece = pieces[static_cast<std::size_t>(from / step)];
        for (std::int64_t n = from; n < to; ++n) drawing(n - from, n, piece, scores);
    });
    if (pieces.size() == 1) return {std::move(pieces[0]), std::move(scores)};

    std::vector<std::size_t> offsets{0};
    for (const SparseRows& piece : pieces) offsets.push_back(offsets.back() + piece.entries);
    SparseRows rows(count, offsets.back());
    rows.entries = offsets.back();
    in_pieces(static_cast<std::int64_t>(pieces.size()), 1, threads, [&](std::int64_t p, std::int64_t) {
        SparseRows& piece = pieces[static_cast<std::size_t>(p)];
        const std::size_t offset = offsets[static_cast<std::size_t>(p)];
        std::copy_n(piece.indices.data(), piece.entries, rows.indices.data() + offset);
        std::copy_n(piece.values.data(), piece.entries, rows.values.data() + offset);
        std::int64_t* const starts = rows.starts.data() + p * step;
        for (std::size_t i = 1; i < piece.starts.size(); ++i)
            starts[i] = static_cast<std::int64_t>(offset) + piece.starts[i];
        piece = SparseRows(0, 0);
    });
    return {std::move(rows), std::move(scores)};
}

// Forced inline: on its own it looks free of effects, and calls to it vanish.
[[gnu::always_inline]] inline void prefetch(const void* at) {
    __builtin_prefetch(at);
}

}  // namespace symsgd
