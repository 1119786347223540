// Targets and weights of the rows, read in place whatever their type: the label of a binary problem is compared with
// the positive label as it is read, so that no ±1 copy of y is ever made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace symsgd {

enum class Number : std::uint8_t { int8, uint8, int16, int32, int64, float32, float64 };

constexpr std::int64_t bytes_of(Number type) {
    constexpr std::int64_t bytes[] = {1, 1, 2, 4, 8, 4, 8};
    return bytes[static_cast<int>(type)];
}

struct Column {
    const void* data = nullptr;  // null: a column of ones
    Number type = Number::float64;
};

enum class TargetKind : std::uint8_t {
    real,    // y is the number to predict
    binary,  // y == positive means +1, anything else −1
    classes  // y is a class number; the lane of class c sees +1 where y == c and −1 elsewhere
};

struct Targets {
    TargetKind kind = TargetKind::real;
    Column labels;
    Column sample_weight;
    double positive = 1.0;                // binary: the label that means +1
    std::vector<double> class_ids;        // classes: which class each lane trains
    std::vector<double> positive_weight;  // per lane: factor of rows with y = +1
    std::vector<double> negative_weight;  // per lane: factor of rows with y = −1

    // Targets and weights of the given rows. With one lane the target is what its loss sees and the weight is the whole
    // factor of the step; with several the target is the class number and the weight the row's own.
    void read(const std::int64_t* rows, std::size_t count, double* target, double* weight) const;
};

}  // namespace symsgd
