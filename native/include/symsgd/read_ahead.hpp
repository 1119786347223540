// Rows that lie in a mapped file are brought into memory a little before they are trained.
//
// A thread of its own does that. Where the file fits in memory, it is read from its beginning to its end while the
// first pass trains, as disks like it best, and entered into the page tables in large pieces: a file that is in memory
// already costs no page faults. Where it does not, the thread goes through the order of every pass ahead of the
// training and asks for the rows that come next, without waiting for them, so that the disk has many requests to choose
// from. There the system is told not to read around what is asked for: what it reads too much pushes out what is
// needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "symsgd/order.hpp"
#include "symsgd/rows.hpp"
#include "symsgd/targets.hpp"

namespace symsgd {

// An array of the file. Row r begins at byte `bytes` × starts[r], or `bytes` × r where there are no starts.
struct MappedArray {
    const char* first;
    std::int64_t bytes;
    const RowStarts* starts = nullptr;

    const char* row(std::int64_t r) const { return first + bytes * (starts == nullptr ? r : (*starts)[r]); }
};

class ReadAhead {
public:
    // `memory`: bytes that there are.
    ReadAhead(std::vector<MappedArray> arrays, std::int64_t rows, std::int64_t memory);
    ~ReadAhead();
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;

    // A pass: as long as it lives, `order` is prepared for it and stays as it is. `ahead` may be null.
    class Pass {
    public:
        Pass(ReadAhead* ahead, const Order& order) : ahead_(ahead) {
            if (ahead_ != nullptr) ahead_->begin_pass(order);
        }
        ~Pass() {
            if (ahead_ != nullptr) ahead_->end_pass();
        }
        Pass(const Pass&) = delete;
        Pass& operator=(const Pass&) = delete;

    private:
        ReadAhead* ahead_;
    };

    // Whoever trains says so: that many rows more.
    void begin_rows(std::int64_t count) { begun_.fetch_add(count, std::memory_order_relaxed); }

private:
    void begin_pass(const Order& order);
    void end_pass();
    std::int64_t bytes() const;
    void read_all();
    void follow(const Order& order);
    void ask(const Order& order, std::int64_t begin, std::int64_t end);

    std::vector<MappedArray> arrays_;
    std::int64_t rows_;
    bool fits_;
    bool read_ = false;   // all of it
    std::int64_t ahead_;  // rows
    std::vector<std::int64_t> asked_;
    std::atomic<std::int64_t> begun_{0};
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

// The arrays that rows and targets consist of.
template <class Rows>
std::vector<MappedArray> arrays_of(const Rows& rows, const Targets& targets) {
    std::vector<MappedArray> arrays;
    const auto add = [&](const void* first, std::int64_t bytes, const RowStarts* starts = nullptr) {
        arrays.push_back({static_cast<const char*>(first), bytes, starts});
    };
    if constexpr (Rows::sparse) {
        add(rows.start.address(0), rows.start.width());
        add(rows.index, sizeof(typename Rows::Index), &rows.start);
        add(rows.value, sizeof(typename Rows::Value), &rows.start);
    } else {
        add(rows.value, rows.features * static_cast<std::int64_t>(sizeof(typename Rows::Value)));
    }
    for (const Column& column : {targets.labels, targets.sample_weight})
        if (column.data != nullptr) add(column.data, bytes_of(column.type));
    return arrays;
}

}  // namespace symsgd
