// What a round of the curvature combiner costs, by a count of nanoseconds for what training and merging read and write.
// Counted, not measured, so that it is the same in every run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "symsgd/strategy.hpp"

namespace symsgd {

struct RoundCosts {
    double threads = 1.0;
    double blocks = 1.0;    // a round
    double stride = 1.0;    // numbers that a feature has
    double features = 0.0;  // of a row
    double row = 0.0;       // of training
    double number = 0.0;    // that is read where another thread has written it; the more of them do, the longer
    double products = 0.0;  // with Q: of each block of a thread, and of the thread's slices for all blocks

    template <class Rows>
    static RoundCosts of(const Workspace<Rows>& work, std::int64_t blocks, int stride) {
        RoundCosts costs;
        costs.threads = work.spec.strategy.threads;
        costs.blocks = static_cast<double>(blocks);
        costs.stride = stride;
        costs.features = static_cast<double>(work.rows.features);
        const std::int64_t entries = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        // numbers that lie side by side come as fast as the memory has them
        costs.row = 40.0 + (Rows::sparse ? 1.4 : 0.5) * static_cast<double>(entries * stride);
        costs.number = 0.4 + 0.1125 * costs.threads;
        return costs;
    }

    void count_products(double places, double rank, int classes) {
        products = places * rank * classes * 2.0 * blocks / threads;
    }

    // Rows that take so many times as long as copying the model into every replica, and 0.1 milliseconds more.
    std::int64_t least_stretch(double times) const {
        return static_cast<std::int64_t>(times * (1e5 + number * features * stride) / row);
    }

    // Rows of a block with which a round is 1.4 times as fast as one thread: less would be lost again to threads that
    // are late. `due(rows)` are the features that a round of so many rows merges, on the mean. A sweep trains all
    // blocks once more, and takes a chain more, which writes where each of them starts.
    template <class Due>
    std::int64_t least_block(std::int64_t most, Due&& due, int sweeps = 0) const {
        const double chains = 1.0 + 0.2 * sweeps, trainings = (1.0 + sweeps) * blocks / threads;
        std::int64_t rows = 1;
        for (;; rows *= 2) {
            const double copies = number * due(rows) * stride * (1.0 + 2.0 / threads) * blocks / threads;
            const double merge = 10800.0 * threads - 14600.0 + copies + products / 8.0;
            if (rows > most || chains * merge / row <= static_cast<double>(rows) * (blocks / 1.4 - trainings))
                return rows;
        }
    }
};

}  // namespace symsgd
