// Pages of large arrays, made just before they are written.
//
// A copy of some hundred megabytes is written once, and the system clears every page of it before: with small pages
// that took four times as long as the copying (232 MB on two threads: 55 ms, with huge ones 11). But where memory is in
// fragments, the system puts each huge page together first, and that takes ten times as long as small pages do. So huge
// pages are asked for one by one, and no more of them once they have taken longer than small ones would.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace symsgd {

class Pages {
public:
    static constexpr std::size_t huge = std::size_t{2} << 20;  // bytes, and what they begin at a multiple of

    // Makes the page that begins at `memory`, or what the array has of it. Several threads may, each its own pages.
    void make([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
        constexpr int populate = 23;  // MADV_POPULATE_WRITE; where it is refused, pages are made as they are written
        const auto begin = std::chrono::steady_clock::now();
        const bool whole = bytes == huge && took_.load(std::memory_order_relaxed) <=
                                                (made_.load(std::memory_order_relaxed) + spared) * small_pages_take;
        if (whole) madvise(memory, bytes, MADV_HUGEPAGE);
        madvise(memory, bytes, populate);
        if (!whole) return;
        const auto took = std::chrono::steady_clock::now() - begin;
        made_.fetch_add(1, std::memory_order_relaxed);
        took_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count(), std::memory_order_relaxed);
#endif
    }

private:
    static constexpr std::int64_t small_pages_take = 500'000;  // nanoseconds, for as many bytes
    static constexpr std::int64_t spared = 8;                  // pages that may take longer by chance

    std::atomic<std::int64_t> made_{0}, took_{0};  // huge pages, and nanoseconds
};

}  // namespace symsgd
