// By how much merges change the loss, from the checks of blocks of one size.
//
// One check says little: where labels can nearly be told apart, few rows have most of the loss, and from one round to
// the next its change is now more, now less. What adds up is the mean, with the signs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace symsgd {

class LossDrift {
public:
    // What a check of blocks of so many rows has found, as a share of the loss.
    void add(double change, std::int64_t rows, bool swept) {
        if (2 * rows > 3 * rows_ || 3 * rows < 2 * rows_ || swept != swept_) checks_ = mean_ = 0.0;
        rows_ = rows;
        swept_ = swept;
        if (!std::isfinite(change)) return;
        checks_ = std::min(checks_ + 1.0, most_checks);
        mean_ += (change - mean_) / checks_;
    }

    double size() const { return std::abs(mean_); }

private:
    static constexpr double most_checks = 8.0;  // that count

    std::int64_t rows_ = 0;
    bool swept_ = false;
    double checks_ = 0.0, mean_ = 0.0;
};

}  // namespace symsgd
