#include "symsgd/read_ahead.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace symsgd {

namespace {

constexpr std::int64_t most_ahead = std::int64_t{64} << 20;  // bytes
constexpr std::int64_t ahead_share = 16;                     // of the memory, one in so many
constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
constexpr std::int64_t gap_rows = 8;  // fewer rows between two stretches than this are asked for along with them

enum class Need : std::uint8_t { soon, now, at_random, as_usual };

std::uintptr_t page_bytes() {
#if defined(__unix__) || defined(__APPLE__)
    static const auto bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    return bytes;
#else
    return 4096;
#endif
}

// All of it is advice: where the system takes none, the training reads the pages itself.
void advise(const char* begin, const char* end, Need need) {
#if defined(__unix__) || defined(__APPLE__)
    const std::uintptr_t page = page_bytes();
    const auto first = reinterpret_cast<std::uintptr_t>(begin) / page * page;
    const auto last = (reinterpret_cast<std::uintptr_t>(end) + page - 1) / page * page;
    if (first == last) return;
    auto* const address = reinterpret_cast<void*>(first);
#if defined(MADV_POPULATE_READ)
    if (need == Need::now && madvise(address, last - first, MADV_POPULATE_READ) == 0) return;
#endif
    madvise(address, last - first,
            need == Need::at_random  ? MADV_RANDOM
            : need == Need::as_usual ? MADV_NORMAL
                                     : MADV_WILLNEED);
#else
    (void)begin, (void)end, (void)need;
#endif
}

}  // namespace

ReadAhead::ReadAhead(std::vector<MappedArray> arrays, std::int64_t rows, std::int64_t memory)
    : arrays_(std::move(arrays)), rows_(rows), fits_(bytes() <= memory / 2) {
    const std::int64_t row = 1 + bytes() / std::max<std::int64_t>(1, rows);
    ahead_ = std::max(2 * Order::window_rows, std::min(most_ahead, memory / ahead_share) / row);
    if (fits_) return;
    for (const MappedArray& array : arrays_) advise(array.first, array.row(rows_), Need::at_random);
}

ReadAhead::~ReadAhead() {
    if (fits_) return;
    for (const MappedArray& array : arrays_) advise(array.first, array.row(rows_), Need::as_usual);
}

std::int64_t ReadAhead::bytes() const {
    std::int64_t sum = 0;
    for (const MappedArray& array : arrays_) sum += array.row(rows_) - array.first;
    return sum;
}

void ReadAhead::begin_pass(const Order& order) {
    if (fits_ && read_) return;
    if (!fits_ && !order.in_stretches()) return;  // a call for every row would cost more than it saves
    begun_ = 0;
    ended_ = false;
    try {
        thread_ = std::thread([this, &order] { fits_ ? read_all() : follow(order); });
    } catch (const std::system_error&) {
        // no more threads are to be had: the training reads for itself
    }
}

void ReadAhead::end_pass() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
}

void ReadAhead::read_all() {
    const MappedArray& longest = *std::max_element(
        arrays_.begin(), arrays_.end(),
        [this](const auto& a, const auto& b) { return a.row(rows_) - a.first < b.row(rows_) - b.first; });
    const std::int64_t pieces = 1 + (longest.row(rows_) - longest.first) / piece_bytes;
    for (std::int64_t piece = 0; piece < pieces && !ended_; ++piece)
        for (const MappedArray& array : arrays_)
            advise(array.row(rows_ * piece / pieces), array.row(rows_ * (piece + 1) / pieces), Need::now);
    read_ = !ended_;
}

void ReadAhead::follow(const Order& order) {
    for (std::int64_t reached = 0; !ended_ && reached < rows_;) {
        const std::int64_t begun = begun_.load(std::memory_order_relaxed);
        if (reached < begun + ahead_) {
            const std::int64_t end = std::min(rows_, reached + order.rows_together());
            if (end > begun) ask(order, reached, end);  // what is being trained needs nobody to ask for it
            reached = end;
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }
}

void ReadAhead::ask(const Order& order, std::int64_t begin, std::int64_t end) {
    asked_.resize(static_cast<std::size_t>(end - begin));
    asked_.resize(order.write(begin, end, asked_.data()));
    std::sort(asked_.begin(), asked_.end());
    for (std::size_t i = 0; i < asked_.size();) {
        const std::int64_t first = asked_[i];
        std::int64_t last = first;
        for (; i < asked_.size() && asked_[i] - last <= gap_rows; ++i) last = asked_[i];
        for (const MappedArray& array : arrays_) advise(array.row(first), array.row(last + 1), Need::soon);
    }
}

}  // namespace symsgd
