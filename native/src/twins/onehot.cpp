#include "symsgd/twins/onehot.hpp"

#include <bit>
#include <limits>

namespace symsgd {

Intervals::Intervals(const double* cuts, const std::int32_t* features, std::size_t n_intervals)
    : intervals_(n_intervals, Uninitialised{}), first_(std::bit_ceil(2 * n_intervals)) {
    cells_a_unit_ = static_cast<double>(first_.size()) / (2 * reach);
    last_cell_ = static_cast<double>(first_.size() - 1);
    for (std::size_t i = 0; i + 1 < n_intervals; ++i) intervals_[i] = {cuts[i], features[i], 0.0F};
    intervals_[n_intervals - 1] = {std::numeric_limits<double>::infinity(), features[n_intervals - 1], 0.0F};
    // An end in an earlier cell is below every position of this one, as `cell_number` rounds both alike.
    std::size_t i = 0;
    for (std::size_t c = 0; c < first_.size(); ++c) {
        while (i + 1 < n_intervals && cell_number(intervals_[i].upper) < c) ++i;
        first_[c] = static_cast<std::uint32_t>(i);
    }
}

void Intervals::plant(const double* of_features) {
    for (std::size_t i = 0; i < intervals_.size(); ++i) {
        const std::int32_t feature = intervals_[i].feature;
        if (feature != missing) intervals_[i].planted = static_cast<float>(of_features[feature]);
    }
}

namespace {

class TableRows {
public:
    explicit TableRows(const OneHotPopulation& population)
        : population_(population),
          factors_(population.loadings.n_factors()),
          positions_(population.loadings.padded_width()),
          cells_(population.noise.size()),
          found_(population.noise.size()) {
        for (const std::size_t which : population.field_intervals) intervals_.push_back(&population.intervals[which]);
        for (const FieldRun& run : population.runs)
            for (std::size_t j = run.begin; j < run.end; ++j)
                if (run.kind == FieldRun::Kind::categories || run.kind == FieldRun::Kind::bag) searched_.push_back(j);
    }

    void draw(Random random, std::int64_t i, std::int64_t n, SparseRows& rows, RowScores& scores) {
        const double hidden = place(random);
        look_up();
        index_ = rows.next_indices();
        value_ = rows.next_values();
        length_ = 0;
        squares_ = product_ = 0.0;
        for (const FieldRun& run : population_.runs) {
            switch (run.kind) {
                case FieldRun::Kind::flags:
                case FieldRun::Kind::categories:
                    ones(run);
                    break;
                case FieldRun::Kind::numbers:
                    numbers(run);
                    break;
                case FieldRun::Kind::bag:
                    bag(run);
                    break;
            }
        }
        rows.end_row(i, length_, squares_);
        scores.set(n, hidden, product_ / std::sqrt(squares_), random.logistic());
    }

private:
    // Draws the factors and where they and noise put each field; returns the hidden score.
    double place(Random& random) {
        Random own = random;  // stays in registers
        double score = 0.0;
        for (std::size_t k = 0; k < factors_.size(); ++k) {
            factors_[k] = own.normal();
            score += population_.label[k] * factors_[k];
        }
        for (std::size_t j = 0; j < population_.noise.size(); ++j) positions_[j] = population_.noise[j] * own.normal();
        random = own;
        population_.loadings.add(factors_.data(), positions_.data());
        return score;
    }

    // Finds the interval of each field. Large tables are in no cache: what is read of them is asked for first, for all
    // fields.
    void look_up() {
        for (const FieldRun& run : population_.runs) {
            if (run.kind == FieldRun::Kind::flags || run.kind == FieldRun::Kind::numbers) {
                for (std::size_t j = run.begin; j < run.end; ++j) found_[j] = intervals(j).of_two(positions_[j]);
            } else {
                for (std::size_t j = run.begin; j < run.end; ++j)
                    prefetch(cells_[j] = intervals(j).cell(positions_[j]));
            }
        }
        for (const std::size_t j : searched_) prefetch(found_[j] = intervals(j).first(cells_[j]));
        for (const std::size_t j : searched_) {
            const Intervals::Interval* in = found_[j];
            while (in->upper < positions_[j]) ++in;
            found_[j] = in;
        }
    }

    const Intervals& intervals(std::size_t field) const { return *intervals_[field]; }

    void ones(const FieldRun& run) {
        for (std::size_t field = run.begin; field < run.end; ++field) add(*found_[field], 1.0F);
    }

    void numbers(const FieldRun& run) {
        for (std::size_t field = run.begin; field < run.end; ++field) {
            const double above = positions_[field] - intervals(field).lowest_cut();
            add(*found_[field], static_cast<float>(above / (1 + above)));
        }
    }

    // A feature or, if the field is missing, one that the next overwrites: which it is can hardly be foreseen.
    void add(const Intervals::Interval& in, float x) {
        const bool present = in.feature != Intervals::missing;
        index_[length_] = in.feature;
        value_[length_] = x;
        length_ += present;
        x = present ? x : 0.0F;
        squares_ += static_cast<double>(x) * x;
        product_ += static_cast<double>(x) * in.planted;
    }

    void bag(const FieldRun& run) {
        const auto begin = found_.begin() + static_cast<std::ptrdiff_t>(run.begin);
        const auto end = found_.begin() + static_cast<std::ptrdiff_t>(run.end);
        std::sort(begin, end, [](const auto* a, const auto* b) { return a->feature < b->feature; });
        std::int32_t last = Intervals::missing;
        for (auto in = begin; in != end; ++in) {
            if ((*in)->feature != last) add(**in, 1.0F);
            last = (*in)->feature;
        }
    }

    const OneHotPopulation& population_;
    std::vector<double> factors_;
    std::vector<double> positions_;
    std::vector<const Intervals*> intervals_;  // of the fields
    std::vector<std::size_t> searched_;        // fields of many intervals
    std::vector<const std::uint32_t*> cells_;
    std::vector<const Intervals::Interval*> found_;
    // the row that is being written
    std::int32_t* index_ = nullptr;
    float* value_ = nullptr;
    std::size_t length_ = 0;
    double squares_ = 0.0;
    double product_ = 0.0;
};

}  // namespace

TwinRows draw_one_hot(const OneHotPopulation& population, const RowSpan& span, int threads) {
    const auto most_entries = [&](std::int64_t from, std::int64_t to) {
        return static_cast<std::size_t>(to - from) * population.noise.size();
    };
    return draw_in_pieces(span.count, threads, most_entries, [&] {
        return [&, table = TableRows(population)](std::int64_t i, std::int64_t n, SparseRows& rows,
                                                  RowScores& scores) mutable {
            table.draw(span.random(n), i, n, rows, scores);
        };
    });
}

}  // namespace symsgd
