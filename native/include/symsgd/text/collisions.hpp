// Which indices stand for more than one feature, in memory that depends on the width alone.
//
// For each index the table keeps 31 bits of the fingerprint of the first feature that had it, and one bit that says
// whether another one came. Whichever comes first, the bit is the same in the end; so threads may note features in any
// order. Two features with the same index and the same 31 bits are taken for one: one pair in two thousand million.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace symsgd {

class Collisions {
public:
    explicit Collisions(int bits) : size_(std::size_t{1} << bits), slots_(new std::atomic<std::uint32_t>[size_]()) {}

    void note(std::uint32_t index, std::uint32_t fingerprint) {
        const std::uint32_t mine = fingerprint >> 1 | (fingerprint >> 1 == 0);
        std::atomic<std::uint32_t>& slot = slots_[index];
        std::uint32_t there = slot.load(std::memory_order_relaxed);
        if (there == 0 && slot.compare_exchange_strong(there, mine, std::memory_order_relaxed)) return;
        if ((there & ~shared) != mine && (there & shared) == 0) slot.fetch_or(shared, std::memory_order_relaxed);
    }

    struct Counts {
        std::int64_t used = 0;
        std::int64_t shared = 0;
    };
    Counts count() const {
        Counts counts;
        for (std::size_t i = 0; i < size_; ++i) {
            const std::uint32_t slot = slots_[i].load(std::memory_order_relaxed);
            counts.used += slot != 0;
            counts.shared += (slot & shared) != 0;
        }
        return counts;
    }

private:
    static constexpr std::uint32_t shared = std::uint32_t{1} << 31;

    std::size_t size_;
    std::unique_ptr<std::atomic<std::uint32_t>[]> slots_;
};

}  // namespace symsgd
