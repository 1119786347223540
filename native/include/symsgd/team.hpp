// Threads: for work that is cut into independent pieces (predictions, checks of the input), and for strategies.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace symsgd {

// Calls work(0) on the calling thread and work(1) … work(threads − 1) on others, or on fewer where no more are to be
// had. The first exception is thrown again once all have ended; `work` sees to it that they do.
template <class Work>
void run_team(int threads, Work&& work) {
    std::exception_ptr failure;
    std::mutex failing;
    const auto attempt = [&](int worker) {
        try {
            work(worker);
        } catch (...) {
            const std::lock_guard lock(failing);
            if (!failure) failure = std::current_exception();
        }
    };
    {
        struct Joined {  // std::jthread is not in every standard library yet
            std::vector<std::thread> threads;
            ~Joined() {
                for (std::thread& thread : threads) thread.join();
            }
        } helpers;
        for (int worker = 1; worker < threads; ++worker) {
            try {
                helpers.threads.emplace_back(attempt, worker);
            } catch (const std::system_error&) {
                break;
            }
        }
        attempt(0);
    }
    if (failure) std::rethrow_exception(failure);
}

// Calls work(begin, end) for pieces of [0, count), `piece` long at most, on up to `threads` threads of which the caller
// is one. Pieces are taken as threads become free.
template <class Work>
void in_pieces(std::int64_t count, std::int64_t piece, int threads, Work&& work) {
    const std::int64_t pieces = (count + piece - 1) / piece;
    std::atomic<std::int64_t> next{0};
    run_team(static_cast<int>(std::min<std::int64_t>(threads, pieces)), [&](int) {
        try {
            for (std::int64_t p = next++; p < pieces; p = next++) work(p * piece, std::min(count, (p + 1) * piece));
        } catch (...) {
            next = pieces;
            throw;
        }
    });
}

inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Waits until ready() says so: spins, since what strategies wait for is mostly near, then lets other threads run, then
// sleeps. `patience` is for how long it spins: not for long where there are more threads than cores, of which one that
// others wait for may have none. Where each has a core of its own, sleep is dear: on 16 cores, meeting every some tens
// of microseconds takes 2 where all spin, and took 60 where they gave up after 50 and slept past the time.
template <class Ready>
void wait_until(Ready&& ready, std::chrono::microseconds patience = std::chrono::microseconds(10)) {
    constexpr int at_once = 64, yields = 100;
    if (ready()) return;
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < patience) {
        for (int tries = 0; tries < at_once; ++tries) {
            pause_briefly();
            if (ready()) return;
        }
    }
    for (int tries = 0; !ready(); ++tries) {
        if (tries < yields)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

}  // namespace symsgd
