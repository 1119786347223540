// Targets and weights of the rows, read in place whatever their type: the label of a binary problem is compared
// with the positive label as it is read, so that no ±1 copy of y is ever made.
#pragma once

#include <cstdint>

namespace symsgd {

enum class Number : std::uint8_t { int8, uint8, int16, int32, int64, float32, float64 };

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
    double positive = 1.0;              // binary: the label that means +1
    const double* class_ids = nullptr;  // classes: which class each lane trains
    Column sample_weight;
    const double* positive_weight = nullptr;  // per class: factor of rows with y = +1
    const double* negative_weight = nullptr;  // per class: factor of rows with y = −1
};

}  // namespace symsgd
