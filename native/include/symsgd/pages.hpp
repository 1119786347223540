// Pages of large arrays: huge ones where the system has them at hand.
//
// A model of a few megabytes is read at random, and with small pages most reads would miss the first-level TLB; and 2
// MB in one page are made in .03 ms, in small ones in .35 to 1.3. But where memory is in fragments the system has to
// put each huge page together first, and a virtual machine that gives free memory back to its host, huge pages first,
// has to ask for it again: 2.4 to 4.5 ms a page. A training makes dozens before it has learned anything. So huge pages
// are asked for as long as they come quickly.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace symsgd {

class HugePages {
public:
    static constexpr std::size_t size = std::size_t{2} << 20;  // bytes, and what they begin at a multiple of
    using Clock = std::chrono::steady_clock;

    static bool are_dear() {
        return Clock::now().time_since_epoch().count() < dear_until_.load(std::memory_order_relaxed);
    }
    static void found_dear() {
        const auto until = Clock::now() + std::chrono::seconds(10);  // then they may have become cheap
        dear_until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
    }

    // Whether an array of so many whole pages, not yet used, is to be of huge ones. Its last pages, which are the least
    // used ones, are made to find out; the others are left to whoever uses them first. One that takes long may be
    // chance.
    static bool are_worth_it([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t pages) {
        if (are_dear()) return false;
#if defined(__linux__)
        if (pages < 3) return true;
        for (std::size_t page = pages - 1; page >= pages - 2; --page) {
            char* const begin = static_cast<char*>(memory) + page * size;
            madvise(begin, size, MADV_HUGEPAGE);
            if (make(begin, size) <= slow) return true;
        }
        found_dear();
        return false;
#else
        return true;
#endif
    }

    // How long it takes to make pages, of whatever kind they are to be. Where that is refused they are made as they are
    // written.
    static std::chrono::nanoseconds make([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
        const auto begin = Clock::now();
#if defined(__linux__)
        constexpr int populate = 23;  // MADV_POPULATE_WRITE
        madvise(memory, bytes, populate);
#endif
        return Clock::now() - begin;
    }

private:
    static constexpr std::chrono::microseconds slow{1000};

    inline static std::atomic<Clock::rep> dear_until_{0};
};

// Pages of a copy that is written once, each made just before it is. The system clears every page: with small ones that
// took four times as long as the copying (232 MB on two threads: 55 ms, with huge ones 11).
class PagesOfCopy {
public:
    // Makes the huge page that begins at `memory`, or what the array has of it. Several threads may, each its own
    // pages.
    void make([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
        const bool whole = bytes == HugePages::size && !HugePages::are_dear();
        if (whole) madvise(memory, bytes, MADV_HUGEPAGE);
        const auto took = HugePages::make(memory, bytes);
        if (!whole) return;
        const std::int64_t made = made_.fetch_add(1, std::memory_order_relaxed) + 1;
        if (took_.fetch_add(took.count(), std::memory_order_relaxed) + took.count() >
            (made + spared) * small_pages_take)
            HugePages::found_dear();
#endif
    }

private:
    static constexpr std::int64_t small_pages_take = 500'000;  // nanoseconds, for as many bytes
    static constexpr std::int64_t spared = 8;                  // pages that may take longer by chance

    std::atomic<std::int64_t> made_{0}, took_{0};  // huge pages, and nanoseconds
};

}  // namespace symsgd
