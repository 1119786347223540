// Threads that work through phases together.
//
// Every thread of a crew calls `phase` with the same work in the same order. A thread begins with its own share of the
// tasks, the same in every phase of as many, so that what they work on stays in its cache; then it takes what others
// have not begun. Each task is done once, and nobody goes on before all of them are: between two phases all threads see
// the same memory, and may decide by it, each for itself, what comes next. So a straggler costs the others its own task
// at most, and the code reads as if there were one thread.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>

#include "symsgd/pin.hpp"
#include "symsgd/team.hpp"

namespace symsgd {

class Crew {
public:
    class Member;

    Crew() = default;
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;
    ~Crew() {
        call({});
        for (std::thread& helper : helpers_) helper.join();
    }

    // Runs work(member) on up to `threads` threads, of which the caller is one; fewer where no more are to be had. The
    // others sleep between two runs and end with the crew.
    template <class Work>
    void run(int threads, Work&& work) {
        hire(threads - 1);
        members_ = std::min(threads, 1 + static_cast<int>(helpers_.size()));
        away_ = static_cast<int>(helpers_.size());
        arrived_ = 0;
        patience_ =
            std::chrono::microseconds(members_ <= static_cast<int>(std::thread::hardware_concurrency()) ? 250 : 10);
        if (shares_.size() < static_cast<std::size_t>(members_))
            shares_ = std::vector<Share>(static_cast<std::size_t>(members_));
        deal(0);
        turn_ = 0;
        failed_ = false;
        failure_ = nullptr;
        const auto join_in = [&](int number) {
            Member member{*this, number};
            attempt([&] {
                try {
                    work(member);
                } catch (const Left&) {
                }
            });
        };
        call({[](void* context, int number) { (*static_cast<decltype(join_in)*>(context))(number); },
              const_cast<void*>(static_cast<const void*>(&join_in))});
        {
            const Pinned pinned(0);
            join_in(0);
        }
        for (int away = away_; away > 0; away = away_) away_.wait(away);
        if (failure_) std::rethrow_exception(failure_);
    }

    // One thread's place in the crew.
    class Member {
    public:
        Member(Crew& crew, int number) : number(number), crew_(crew) {}

        // Does tasks 0 … count − 1, then, once and by one thread, `after`.
        template <class Task, class After>
        void phase(std::int64_t count, Task&& task, After&& after) {
            crew_.attempt([&] {
                const int members = crew_.members_;
                for (int k = 0; k < members; ++k) {
                    const int whose = (number + k) % members;
                    const std::int64_t begin = whose * count / members, end = (whose + 1) * count / members;
                    std::atomic<std::int64_t>& begun = crew_.shares_[static_cast<std::size_t>(whose)].begun;
                    if (begin + begun.load(std::memory_order_relaxed) >= end) continue;
                    for (std::int64_t i = begin + begun++; i < end; i = begin + begun++) task(i);
                }
            });
            const std::uint64_t turn = turn_++;
            if (crew_.arrive()) {
                crew_.attempt(after);
                crew_.begin_next(turn + 1);
            } else {
                crew_.wait_for(turn);
            }
            if (crew_.failed_) throw Left{};
        }

        template <class Task>
        void phase(std::int64_t count, Task&& task) {
            phase(count, task, [] {});
        }

        template <class Work>
        void alone(Work&& work) {
            phase(0, [](std::int64_t) {}, work);
        }

        int members() const { return crew_.members_; }
        std::chrono::microseconds patience() const { return crew_.patience_; }  // of one that waits for another
        bool failed() const { return crew_.failed_; }

        const int number;  // 0 is the thread that called run

    private:
        Crew& crew_;
        std::uint64_t turn_ = 0;
    };

private:
    struct Left {};  // thrown in every thread once one has failed

    // Of a member's share of the tasks, so many are begun.
    struct alignas(64) Share {
        std::atomic<std::int64_t> begun{0};
    };

    void deal(std::int64_t begun) {
        for (Share& share : shares_) share.begun.store(begun, std::memory_order_relaxed);
    }

    struct Job {
        void (*work)(void* context, int number) = nullptr;  // null: go home
        void* context = nullptr;
    };

    void hire(int wanted) {
        while (static_cast<int>(helpers_.size()) < wanted) {
            const int number = 1 + static_cast<int>(helpers_.size());
            try {
                helpers_.emplace_back([this, number, calls = calls_.load()] { serve(number, calls); });
            } catch (const std::system_error&) {
                return;
            }
        }
    }

    void call(const Job& job) {
        job_ = job;
        ++calls_;
        calls_.notify_all();
    }

    // What a helper does for life.
    void serve(int number, std::uint64_t calls) {
        const Pinned pinned(number);
        while (true) {
            calls_.wait(calls);
            ++calls;
            if (job_.work == nullptr) return;
            if (number < members_) job_.work(job_.context, number);
            if (--away_ == 0) away_.notify_all();  // nobody writes another job before all have said so
        }
    }

    template <class Work>
    void attempt(Work&& work) {
        try {
            work();
        } catch (...) {
            const std::lock_guard lock(failing_);
            if (!failure_) failure_ = std::current_exception();
            failed_ = true;
            deal(std::int64_t{1} << 62);  // nobody begins another task
            turn_ = ~std::uint64_t{0};    // and nobody waits any longer
            turn_.notify_all();
        }
    }

    bool arrive() { return arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_; }

    void begin_next(std::uint64_t turn) {
        arrived_.store(0, std::memory_order_relaxed);
        if (failed_) return;
        deal(0);
        turn_.store(turn, std::memory_order_release);
        turn_.notify_all();
    }

    // Until the phase has ended: spins for about as long as waking up would take, then sleeps. A thread that spun on
    // would keep the core from those that still work, where there are more threads than cores; there it hardly spins.
    void wait_for(std::uint64_t turn) {
        const auto ended = [&] { return turn_.load(std::memory_order_acquire) > turn; };
        const auto begin = std::chrono::steady_clock::now();
        while (!ended()) {
            for (int tries = 0; tries < 64 && !ended(); ++tries) pause_briefly();
            if (std::chrono::steady_clock::now() - begin > patience_) break;
        }
        while (!ended()) turn_.wait(turn, std::memory_order_acquire);
    }

    std::vector<std::thread> helpers_;
    Job job_;
    std::atomic<std::uint64_t> calls_{0};
    std::atomic<int> members_{0};
    std::atomic<int> away_{0};  // helpers that are not through with the job
    std::atomic<int> arrived_{0};
    std::vector<Share> shares_;
    std::chrono::microseconds patience_{0};  // of a thread that waits, before it sleeps
    std::atomic<std::uint64_t> turn_{0};
    std::atomic<bool> failed_{false};
    std::mutex failing_;
    std::exception_ptr failure_;
};

}  // namespace symsgd
