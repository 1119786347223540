// Twins of tables of categories, flags, numbers and bags of tokens (symsgd/data/twins/onehot.py has the model).
#pragma once

#include <cstdint>
#include <vector>

#include "symsgd/memory.hpp"
#include "symsgd/twins/loadings.hpp"
#include "symsgd/twins/rows.hpp"

namespace symsgd {

// The line, cut into intervals that each have a feature, or none: what a position means to a field. A grid of equal
// cells says where to begin a search, which mostly ends there or at the next interval.
class Intervals {
public:
    static constexpr std::int32_t missing = -1;
    struct Interval {
        double upper;  // belongs to it
        std::int32_t feature;
        float planted;
    };

    // `cuts` are the upper ends, increasing, of all intervals but the last, which has none.
    Intervals(const double* cuts, const std::int32_t* features, std::size_t n_intervals);

    // A position's interval is the first of its cell or one that follows: that with the first upper end not below it.
    const std::uint32_t* cell(double position) const { return &first_[cell_number(position)]; }
    const Interval* first(const std::uint32_t* cell) const { return &intervals_[*cell]; }
    // The same, if there are but two.
    const Interval* of_two(double position) const { return intervals_.data() + (intervals_[0].upper < position); }
    double lowest_cut() const { return intervals_[0].upper; }
    void plant(const double* of_features);

private:
    static constexpr double reach = 4.5;  // positions are standard normal: hardly any is farther away

    std::size_t cell_number(double position) const {
        return static_cast<std::size_t>(std::min(std::max((position + reach) * cells_a_unit_, 0.0), last_cell_));
    }

    Array<Interval> intervals_;
    Array<std::uint32_t> first_;  // of each cell: the first interval that positions in it may be in
    double cells_a_unit_;
    double last_cell_;
};

// Fields of a row, one after the other, that are treated alike. Flags and numbers have two intervals each. Features
// increase from field to field, but for those of a bag, which share a vocabulary.
struct FieldRun {
    enum class Kind : std::uint8_t { flags, numbers, categories, bag };
    Kind kind;
    std::size_t begin;
    std::size_t end;
};

struct OneHotPopulation {
    std::vector<Intervals> intervals;
    std::vector<std::size_t> field_intervals;  // which of them each field has: those of a bag share theirs
    std::vector<FieldRun> runs;                // of all fields, in order
    Loadings<double> loadings;                 // of the fields
    std::vector<double> noise;                 // of the fields: what of a position is its own
    std::vector<double> label;                 // of the factors: what they add to the hidden score
};

TwinRows draw_one_hot(const OneHotPopulation& population, const RowSpan& span, int threads);

}  // namespace symsgd
