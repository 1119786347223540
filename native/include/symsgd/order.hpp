// The order in which a pass visits the rows. It depends on the seed and the pass alone, never on the threads, and any
// stretch of it can be written out on its own, so that blocks of it can be trained by whoever is free.
//
//   storage  0, 1, 2, …
//   full     scikit-learn's permutation: Fisher–Yates driven by a 32-bit XorShift that restarts from the seed at every
//            pass and permutes what the last pass left
//   window   chunks of 32 consecutive rows in random order, 16 chunks at a time riffled into one window: each place
//            takes the next row of a chunk drawn at random. As good as a full permutation (docs/order.md), and the
//            memory sees 16 streams that its prefetchers can follow
//   blocks   the window order for files larger than the memory: blocks of 4,096 consecutive rows in random order, and
//            only the chunks of 16 blocks at a time in random order among themselves, so that a disk reads whole blocks
//
// Rows with a nonzero entry in `held_out` are left out wherever they would come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace symsgd {

enum class OrderKind : std::uint8_t { storage, full, window, blocks };

class Order {
public:
    static constexpr std::int64_t chunk_rows = 32;
    static constexpr std::int64_t window_chunks = 16;
    static constexpr std::int64_t window_rows = chunk_rows * window_chunks;
    static constexpr std::int64_t block_chunks = 128;
    static constexpr std::int64_t group_chunks = 16 * block_chunks;

    Order(OrderKind kind, std::int64_t rows, std::uint32_t seed, const std::uint8_t* held_out);

    // Prepares pass `pass` (0, 1, …). A full order is prepared in turn, pass after pass.
    void begin_pass(std::int64_t pass);

    // The number of places in a pass, held-out rows included.
    std::int64_t places() const { return rows_; }

    // Whether rows that follow each other in a pass mostly lie near each other.
    bool in_stretches() const { return kind_ != OrderKind::full; }

    // Places of a pass whose rows are best read together.
    std::int64_t rows_together() const { return kind_ == OrderKind::blocks ? group_chunks * chunk_rows : window_rows; }

    // Whether any rows are held out.
    bool leaves_out() const { return held_out_ != nullptr; }

    // Writes the rows at places [begin, end) of this pass to `out` and returns how many were written: fewer than
    // end − begin where rows are held out. `out` has room for end − begin rows.
    std::size_t write(std::int64_t begin, std::int64_t end, std::int64_t* out) const;

private:
    void permute_chunks(std::int64_t pass);
    std::int64_t window_begin(std::int64_t window) const;
    void write_window(std::int64_t window, std::int64_t skip, std::int64_t take, std::int64_t* out) const;

    OrderKind kind_;
    std::int64_t rows_;
    std::uint32_t seed_;
    const std::uint8_t* held_out_;
    std::int64_t pass_ = -1;
    std::vector<std::uint32_t> permutation_;  // full: of rows; window: of chunks
    std::int64_t short_window_ = -1;          // the window that holds the last, shorter chunk
};

}  // namespace symsgd
