// How many rows the blocks of the next round have: the measured error of the merge decides.
//
// One thread trains the first rows, while predictions change fast. Then blocks start small and double as long as the
// error stays below half of the tolerance (a quarter, if they were too large before); above the tolerance they are
// halved. Below a size at which a round is no longer worth it, one thread trains a stretch of rows alone before a round
// is tried again: a short one at first, since errors fall fast in the first pass, then four times as long every time in
// a row, up to eight passes, and a quarter of that after every error that is fine. Errors are measured (*checked*) in
// every round while the size changes, then ever more seldom. Everything is counted in rows, nothing in seconds, so that
// every run decides the same.
//
// Where rounds may be refined, one sweep a round is tried before rounds are given up, with blocks of a least size of
// their own. The error that a sweep leaves grows four times with blocks twice as large.
//
// Errors do not grow with blocks for ever. Where steps are long a model forgets, within some thousands of rows, where
// it came from, and of blocks longer than that less is wrong than of those that are about as long. So in rounds of two
// blocks, which no merge makes unstable, *long* blocks are tried once, each a half of what is left of the pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace symsgd {

class BlockControl {
public:
    static constexpr int fewest_between = 4;  // rounds from one check to the next

    // `fixed` rows a block, or 0 to follow the error; `least` is the smallest block that is worth a round, `most` the
    // largest that leaves a few rounds in a pass (with a `least` above it there are no rounds); `stretch` is the number
    // of rows worth training alone before rounds begin again, for which every replica has to be made anew, and `blocks`
    // that in blocks: the larger counts; `rows` are those of a pass.
    void begin(std::int64_t fixed, std::int64_t least, std::int64_t most, std::int64_t stretch, std::int64_t blocks,
               double tolerance, std::int64_t rows) {
        least_stretch_ = stretch;
        blocks_alone_ = blocks;
        adapts_ = fixed == 0;
        tolerance_ = tolerance;
        least_ = least;
        most_ = most;
        least_swept_ = none;
        longest_stretch_ = std::max(8 * rows, stretch);
        if (!adapts_)
            rows_ = fixed;
        else if (rows_ == 0) {
            rows_ = std::max<std::int64_t>(1, std::min(std::max(first, least), most));
            train_alone_until(std::min(rows / 16, most_at_first));
        }
        check_next();
    }

    // The rows of a block in a round of `blocks`, of `left` rows to come; 0 if one thread is to go on alone.
    std::int64_t block(std::int64_t rows_done, std::int64_t left, std::int64_t blocks) const {
        if (!worth_rounds() || rows_done < alone_until_ || left <= 1) return 0;
        if (long_ && left > blocks * rows_) return (left + blocks - 1) / blocks;
        if (!adapts_) return left > rows_ ? rows_ : 0;
        // what is left at the end of a pass is shared by all, if there is enough of it to share; its last rounds are
        // alike, or one of them would have hardly any rows
        const std::int64_t round = blocks * rows_;
        std::int64_t rounds = (left + round - 1) / round;
        if (rounds > last_rounds) return rows_;
        if (rounds > 1 && left <= (rounds - 1) * most_of(round)) --rounds;
        const std::int64_t share = (left + rounds * blocks - 1) / (rounds * blocks);
        return 2 * share > std::min(least(), rows_) && share > 1 ? share : 0;
    }

    std::int64_t alone(std::int64_t rows_done) const {
        return worth_rounds() ? std::max(alone_until_ - rows_done, rows_) : none;
    }
    // Errors count for less from now on.
    void try_again(std::int64_t rows_done) {
        alone_until_ = std::min(alone_until_, rows_done);
        stretch_ = 0;
    }
    void train_alone_until(std::int64_t rows_done) { alone_until_ = std::max(alone_until_, rows_done); }

    // Rounds may be refined by a sweep where blocks are `least` rows and more.
    void allow_sweeps(std::int64_t least) { least_swept_ = least <= most_ ? least : none; }
    bool may_sweep() const { return least_swept_ != none; }
    int sweeps() const { return swept_ ? 1 : 0; }

    // At the start of a pass: merges become better as the model settles, so that rounds without sweeps are tried again,
    // ever more seldom. With half of the rows: a sweep trains them twice, so that smaller ones would be no faster.
    void try_without_sweeps(std::int64_t rows_done, std::int64_t rows) {
        if (!swept_ || rows_done < plain_again_) return;
        plain_wait_ = std::min(plain_wait_ + 1, most_plain_wait);
        plain_again_ = rows_done + (rows << plain_wait_);
        rows_swept_ = rows_;
        swept_ = false;
        tries_ = true;
        rows_ = std::max(rows_ / 2, least_);
        strikes_ = 0;
        check_next();
    }

    // Blocks grow to the largest that leaves a few rounds in a pass, not only by doubling.
    void grow_in_part() { grows_in_part_ = true; }

    void check_next() {
        between_ = fewest_between;
        since_ = between_;
    }
    bool check_due() const { return since_ >= between_; }
    bool unproven() const { return between_ == fewest_between; }  // no check of blocks of this size has been fine
    bool adapts() const { return adapts_; }
    std::int64_t rows() const { return rows_; }  // of a block, if nothing else is said
    // Rows of blocks that may be had where these are asked for: a few more.
    static std::int64_t most_of(std::int64_t rows) { return rows + rows / 16; }
    // An error with which a round is undone. Blocks of a given size are the caller's choice, as long as they leave
    // something of the predictions; of those that find their own size, a round that is off by twice the tolerance does
    // less harm than its rows cost one thread.
    double undone_above() const { return adapts_ ? 2.0 * tolerance_ : std::max(tolerance_, hopeless); }
    void end_round() { ++since_; }

    // Blocks of half a pass from the next round on, for as long as their errors let them be. Once in a training, and in
    // passes of so many rows that they are much longer than blocks are now.
    void try_long(std::int64_t rows) {
        if (!adapts_ || long_tried_ || !worth_rounds() || rows < many_blocks * rows_) return;
        long_ = long_tried_ = true;
        check_next();
    }
    bool are_long() const { return long_; }

    void steer(double error, std::int64_t rows_done) {
        since_ = 0;
        const bool fine = error <= tolerance_;
        if (fine) between_ = std::min(2 * between_, most_between);
        if (!adapts_) return;
        if (fine) return grow(error);
        // one error that is too large may be chance, where few rows have most of the curvature
        ++strikes_;
        fine_ = 0;
        const bool can_shrink = rows_ / 2 >= least();
        between_ = fewest_between;
        if (strikes_ < 2 && error <= undone_above()) return;
        strikes_ = 0;
        check_next();
        if (tries_ && may_sweep()) {
            sweep(rows_done);
        } else if (can_shrink) {
            too_large_ = rows_;
            failures_ = std::min(failures_ + 1, most_failures);
            // the error grows with the blocks, so that far too much of it asks for more than one half
            for (double left = error; left > tolerance_ && rows_ / 2 >= least(); left /= growth()) rows_ /= 2;
        } else if (!swept_ && may_sweep()) {
            sweep(rows_done);
        } else {
            stretch_ = std::min(std::max({4 * stretch_, blocks_alone_ * rows_, least_stretch_}), longest_stretch_);
            train_alone_until(rows_done + stretch_);
        }
    }

    // The same of long blocks, of whose rounds there are few: they go on, or are not tried again.
    void steer_long(bool fine) {
        since_ = 0;
        long_ = fine;
        if (fine)
            between_ = std::clamp(2 * between_, fewest_between_long, most_between);
        else
            check_next();
    }

    // A merge has done harm: its rows, up to this one, are trained alone, and blocks are halved where that may be.
    void harmed(std::int64_t until) {
        long_ = false;
        train_alone_until(until);
        check_next();
        if (adapts_ && rows_ / 2 >= least()) rows_ /= 2;
    }

    template <class State>
    void archive(State& state) {
        state(rows_, alone_until_, stretch_, since_, between_, too_large_, strikes_, fine_, failures_, long_,
              long_tried_, swept_, tries_, rows_swept_, plain_again_, plain_wait_);
    }

    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

private:
    std::int64_t least() const { return swept_ ? least_swept_ : least_; }
    double growth() const { return swept_ ? 4.0 : 2.0; }  // of the error, with blocks twice as large

    // No blocks are merged well enough: rounds are refined from now on.
    void sweep(std::int64_t rows_done) {
        swept_ = true;
        tries_ = false;
        plain_again_ = std::max(plain_again_, rows_done);
        rows_ = std::max(rows_swept_, least_swept_);
        too_large_ = none;
        check_next();
    }

    bool worth_rounds() const { return !adapts_ || least_ <= most_; }

    void grow(double error) {
        tries_ = false;
        strikes_ = 0;
        stretch_ /= 4;
        ++fine_;
        if (rows_ >= too_large_) too_large_ = none;
        // the more often blocks were too large, the more checks have to be fine before they are so large again
        if (2 * rows_ >= too_large_ && fine_ < 1 << failures_) return;
        if (!(error * growth() * (2 * rows_ < too_large_ ? 1.0 : 2.0) < tolerance_)) return;
        stretch_ = 0;
        const std::int64_t next = std::min(2 * rows_, most_);
        if (next < 2 * rows_ && (!grows_in_part_ || 4 * next < 5 * rows_)) return;
        rows_ = next;
        fine_ = 0;
        check_next();
    }

    static constexpr std::int64_t first = 32, most_at_first = 16384;
    static constexpr std::int64_t last_rounds = 8;   // of a pass
    static constexpr std::int64_t many_blocks = 32;  // of a pass
    static constexpr int fewest_between_long = 16;   // checks take a quarter of the time of two passes
    static constexpr int most_plain_wait = 3;        // doublings
    static constexpr int most_failures = 3;          // that make it longer
    static constexpr int most_between = 64;
    static constexpr double hopeless = 0.5;

    bool adapts_ = true, grows_in_part_ = false;
    double tolerance_ = 0.0;
    std::int64_t rows_ = 0, least_ = 1, most_ = 1;
    std::int64_t alone_until_ = 0, stretch_ = 0, least_stretch_ = 0, longest_stretch_ = 0, blocks_alone_ = 0;
    std::int64_t too_large_ = none;  // blocks of so many rows had too large an error
    int strikes_ = 0;                // checks in a row with too large an error
    int fine_ = 0;                   // and without, of blocks of this size
    int failures_ = 0;               // of blocks that were too large
    int since_ = 0, between_ = fewest_between;
    std::int64_t least_swept_ = none;
    bool swept_ = false;
    bool tries_ = false;            // rounds without sweeps again, and no check has been fine yet
    std::int64_t rows_swept_ = 0;   // of a block, when rounds were refined last
    std::int64_t plain_again_ = 0;  // rows done when rounds without sweeps are tried again
    int plain_wait_ = 1;            // doublings of a pass until then
    bool long_ = false, long_tried_ = false;
};

}  // namespace symsgd
