// Threads for work that is cut into independent pieces: predictions and checks of the input.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace symsgd {

// Calls work(begin, end) for pieces of [0, count), `piece` long at most, on up to `threads` threads of which the caller
// is one. Pieces are taken as threads become free. The first exception is thrown again once all have ended.
template <class Work>
void in_pieces(std::int64_t count, std::int64_t piece, int threads, Work&& work) {
    const std::int64_t pieces = (count + piece - 1) / piece;
    std::atomic<std::int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failing;
    const auto take = [&] {
        try {
            for (std::int64_t p = next++; p < pieces; p = next++) work(p * piece, std::min(count, (p + 1) * piece));
        } catch (...) {
            const std::lock_guard lock(failing);
            if (!failure) failure = std::current_exception();
            next = pieces;
        }
    };
    {
        struct Joined {  // std::jthread is not in every standard library yet
            std::vector<std::thread> threads;
            ~Joined() {
                for (std::thread& thread : threads) thread.join();
            }
        } helpers;
        const auto wanted = std::min<std::int64_t>(threads, pieces) - 1;
        for (std::int64_t t = 0; t < wanted; ++t) {
            try {
                helpers.threads.emplace_back(take);
            } catch (const std::system_error&) {
                break;  // no more threads to be had: those there are do the work
            }
        }
        take();
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace symsgd
