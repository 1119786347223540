#include "symsgd/order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace symsgd {

namespace {

// SplitMix64: one multiply-xorshift round per number, any key a good seed.
struct SplitMix {
    std::uint64_t state;

    std::uint64_t next() {
        state += 0x9e3779b97f4a7c15ULL;
        std::uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }

    // Uniform in [0, bound) by multiplication; the bias is at most bound / 2^32.
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32); }
};

SplitMix generator(std::uint32_t seed, std::int64_t pass, std::int64_t window) {
    SplitMix mix{seed};
    mix.state = mix.next() ^ static_cast<std::uint64_t>(pass);
    mix.state = mix.next() ^ static_cast<std::uint64_t>(window);
    return mix;
}

template <class T>
void shuffle(T* items, std::int64_t count, SplitMix random) {
    for (std::int64_t i = count - 1; i > 0; --i)
        std::swap(items[i], items[random.below(static_cast<std::uint32_t>(i + 1))]);
}

// scikit-learn's generator: XorShift with shifts 13, 17, 5, its result taken modulo 2^31.
std::uint32_t xorshift(std::uint32_t& state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state & 0x7fffffffU;
}

}  // namespace

Order::Order(OrderKind kind, std::int64_t rows, std::uint32_t seed, const std::uint8_t* held_out)
    : kind_(kind), rows_(rows), seed_(seed), held_out_(held_out) {
    if (kind == OrderKind::storage) return;
    const std::int64_t items = kind == OrderKind::full ? rows : (rows + chunk_rows - 1) / chunk_rows;
    permutation_.resize(static_cast<std::size_t>(items));
    std::iota(permutation_.begin(), permutation_.end(), 0U);
}

void Order::begin_pass(std::int64_t pass) {
    pass_ = pass;
    const auto items = static_cast<std::int64_t>(permutation_.size());
    if (kind_ == OrderKind::full) {
        std::uint32_t state = seed_ == 0 ? 1 : seed_;
        for (std::int64_t i = 0; i + 1 < items; ++i) {
            const std::int64_t j = i + xorshift(state) % static_cast<std::uint32_t>(items - i);
            std::swap(permutation_[static_cast<std::size_t>(i)], permutation_[static_cast<std::size_t>(j)]);
        }
    } else if (kind_ != OrderKind::storage) {
        permute_chunks(pass);
        const auto last = std::find(permutation_.begin(), permutation_.end(), static_cast<std::uint32_t>(items - 1));
        short_window_ = (last - permutation_.begin()) / window_chunks;
    }
}

void Order::permute_chunks(std::int64_t pass) {
    const auto chunks = static_cast<std::int64_t>(permutation_.size());
    if (kind_ == OrderKind::window) {
        std::iota(permutation_.begin(), permutation_.end(), 0U);
        shuffle(permutation_.data(), chunks, generator(seed_, pass, -1));
        return;
    }
    std::vector<std::uint32_t> blocks(static_cast<std::size_t>((chunks + block_chunks - 1) / block_chunks));
    std::iota(blocks.begin(), blocks.end(), 0U);
    shuffle(blocks.data(), static_cast<std::int64_t>(blocks.size()), generator(seed_, pass, -1));
    auto out = permutation_.begin();
    for (const std::int64_t block : blocks)
        for (std::int64_t chunk = block * block_chunks; chunk < std::min(chunks, (block + 1) * block_chunks); ++chunk)
            *out++ = static_cast<std::uint32_t>(chunk);
    for (std::int64_t begin = 0; begin < chunks; begin += group_chunks)
        shuffle(permutation_.data() + begin, std::min(group_chunks, chunks - begin),
                generator(seed_, pass, -2 - begin / group_chunks));
}

std::int64_t Order::window_begin(std::int64_t window) const {
    const auto chunks = static_cast<std::int64_t>(permutation_.size());
    const std::int64_t missing = chunks * chunk_rows - rows_;
    const std::int64_t begin = std::min(window * window_chunks, chunks) * chunk_rows;
    return window > short_window_ ? begin - missing : begin;
}

void Order::write_window(std::int64_t window, std::int64_t skip, std::int64_t take, std::int64_t* out) const {
    const auto chunks = static_cast<std::int64_t>(permutation_.size());
    const std::int64_t first = window * window_chunks;
    const std::int64_t last = std::min(first + window_chunks, chunks);
    std::uint8_t turns[window_rows];       // which chunk is next, as often as it has rows
    std::int64_t next_row[window_chunks];  // of each chunk
    std::int64_t count = 0;
    for (std::int64_t c = first; c < last; ++c) {
        const std::int64_t begin = permutation_[static_cast<std::size_t>(c)] * chunk_rows;
        const std::int64_t end = std::min(begin + chunk_rows, rows_);
        next_row[c - first] = begin;
        for (std::int64_t row = begin; row < end; ++row) turns[count++] = static_cast<std::uint8_t>(c - first);
    }
    shuffle(turns, count, generator(seed_, pass_, window));
    for (std::int64_t place = 0; place < skip + take; ++place) {
        const std::int64_t row = next_row[turns[place]]++;
        if (place >= skip) out[place - skip] = row;
    }
}

std::size_t Order::write(std::int64_t begin, std::int64_t end, std::int64_t* out) const {
    const std::int64_t count = end - begin;
    if (count == 0) return 0;
    if (kind_ == OrderKind::storage) {
        std::iota(out, out + count, begin);
    } else if (kind_ == OrderKind::full) {
        std::copy_n(permutation_.begin() + begin, count, out);
    } else {
        std::int64_t window = begin / window_rows;
        while (window_begin(window + 1) <= begin) ++window;  // the short chunk shifts what follows it by one at most
        for (std::int64_t place = begin; place < end; ++window) {
            const std::int64_t skip = place - window_begin(window);
            const std::int64_t take = std::min(end, window_begin(window + 1)) - place;
            write_window(window, skip, take, out + (place - begin));
            place += take;
        }
    }
    if (held_out_ == nullptr) return static_cast<std::size_t>(count);
    return static_cast<std::size_t>(
        std::remove_if(out, out + count, [this](std::int64_t row) { return held_out_[row] != 0; }) - out);
}

}  // namespace symsgd
