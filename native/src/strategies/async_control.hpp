// How many rows a block has that is merged when it ends, and when one thread had better go on alone: the measured error
// of merges decides, as in rounds (block_control.hpp), counted in merges instead of rounds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace symsgd {

class AsyncControl {
public:
    // `fixed` rows a block, or 0 to follow the error; `least` and `most` bound what is chosen. Without `checks` nothing
    // is measured.
    void begin(std::int64_t fixed, std::int64_t least, std::int64_t most, double tolerance, int threads, bool checks) {
        adapts_ = fixed == 0;
        checks_ = checks;
        tolerance_ = tolerance;
        threads_ = threads;
        most_ = std::max<std::int64_t>(1, most);
        least_ = std::min(least, most_);
        rows_ = adapts_ ? std::clamp(first, least_, most_) : fixed;
        checking_ = false;
        check_next();
    }

    // The rows of the next block, of `left` to come. What is left at the end of a pass is shared by all.
    std::int64_t block(std::int64_t left) const {
        if (!adapts_) return std::min(rows_, left);
        const std::int64_t share = std::max((left + threads_ - 1) / threads_, (std::min(least_, rows_) + 1) / 2);
        return std::min({rows_, share, left});
    }

    // Whether a block of `rows` that is about to be merged is to be checked; one at a time.
    bool begin_check(std::int64_t rows) {
        if (!checks_ || checking_ || since_ < between_ || rows < rows_) return false;
        return checking_ = true;
    }
    void give_up_check() { checking_ = false; }
    void merged() { ++since_; }

    // After a check. Returns whether one thread is to go on alone.
    bool steer(double error, std::int64_t rows_done) {
        checking_ = false;
        since_ = 0;
        if (!(error <= tolerance_)) {
            if (adapts_) return shrink(rows_done);
            return !(error <= far * tolerance_) && go_alone(rows_done, fewest_between * threads_ * rows_);
        }
        between_ = std::min(2 * between_, most_between * threads_);
        if (!(error < 0.5 * tolerance_)) return false;
        stretch_ = 0;
        if (!adapts_ || 2 * rows_ > most_) return false;
        rows_ *= 2;
        check_next();
        return false;
    }

    // Blocks half as large, or one thread alone.
    bool shrink(std::int64_t rows_done) {
        if (!adapts_) return false;
        if (rows_ / 2 < least_) return go_alone(rows_done, 64 * rows_);
        rows_ /= 2;
        check_next();
        return false;
    }

    std::int64_t alone_until() const { return alone_until_; }

private:
    static constexpr std::int64_t first = 32;
    static constexpr double far = 8.0;  // tolerances, beyond which even given blocks are not merged
    static constexpr std::int64_t fewest_between = 8, most_between = 64;  // blocks of each thread between two checks

    // For `rows`, and twice as many each time until an error is small again.
    bool go_alone(std::int64_t rows_done, std::int64_t rows) {
        stretch_ = std::min(std::max(2 * stretch_, rows), 64 * rows);
        alone_until_ = rows_done + stretch_;
        check_next();
        return true;
    }

    void check_next() {
        between_ = fewest_between * threads_;
        since_ = between_;
    }

    bool adapts_ = true, checks_ = true, checking_ = false;
    double tolerance_ = 0.0;
    std::int64_t threads_ = 1, rows_ = 1, least_ = 1, most_ = 1;
    std::int64_t alone_until_ = 0, stretch_ = 0;
    std::int64_t since_ = 0, between_ = 0;
};

}  // namespace symsgd
