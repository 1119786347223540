// Threads that stay on one core each, if SYMSGD_PIN_THREADS is set to 1. By default the operating system moves them as
// it sees fit, which is best on a machine that does other work too.
#pragma once

#include <cstdlib>
#include <string_view>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace symsgd {

// The calling thread stays on the number-th of the cores that it may use, counted around, as long as this lives.
class Pinned {
public:
    explicit Pinned([[maybe_unused]] int number) {
#if defined(__linux__)
        const char* wanted = std::getenv("SYMSGD_PIN_THREADS");
        if (wanted == nullptr || std::string_view(wanted) != "1") return;
        if (pthread_getaffinity_np(pthread_self(), sizeof before_, &before_) != 0) return;
        const int cores = CPU_COUNT(&before_);
        if (cores == 0) return;
        int left = number % cores, core = 0;
        while (!CPU_ISSET(core, &before_) || left-- > 0) ++core;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        pinned_ = pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
#endif
    }

    ~Pinned() {
#if defined(__linux__)
        if (pinned_) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
#endif
    }

    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

private:
#if defined(__linux__)
    cpu_set_t before_;
    bool pinned_ = false;
#endif
};

}  // namespace symsgd
