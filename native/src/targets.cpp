#include "symsgd/targets.hpp"

namespace symsgd {

namespace {

template <class T>
void read_as(const void* data, const std::int64_t* rows, std::size_t count, double* out) {
    const T* values = static_cast<const T*>(data);
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<double>(values[rows[i]]);
}

void read_column(const Column& column, const std::int64_t* rows, std::size_t count, double* out) {
    if (column.data == nullptr) {
        for (std::size_t i = 0; i < count; ++i) out[i] = 1.0;
        return;
    }
    switch (column.type) {
        case Number::int8:
            return read_as<std::int8_t>(column.data, rows, count, out);
        case Number::uint8:
            return read_as<std::uint8_t>(column.data, rows, count, out);
        case Number::int16:
            return read_as<std::int16_t>(column.data, rows, count, out);
        case Number::int32:
            return read_as<std::int32_t>(column.data, rows, count, out);
        case Number::int64:
            return read_as<std::int64_t>(column.data, rows, count, out);
        case Number::float32:
            return read_as<float>(column.data, rows, count, out);
        case Number::float64:
            return read_as<double>(column.data, rows, count, out);
    }
}

}  // namespace

void Targets::read(const std::int64_t* rows, std::size_t count, double* target, double* weight) const {
    read_column(labels, rows, count, target);
    read_column(sample_weight, rows, count, weight);
    if (kind == TargetKind::real || positive_weight.size() > 1) return;
    const double plus = kind == TargetKind::binary ? positive : class_ids[0];
    const double sign[2] = {-1.0, 1.0};  // looked up: branches on labels would be predicted wrongly half the time
    const double factor[2] = {negative_weight[0], positive_weight[0]};
    for (std::size_t i = 0; i < count; ++i) {
        const bool is_positive = target[i] == plus;
        target[i] = sign[is_positive];
        weight[i] *= factor[is_positive];
    }
}

}  // namespace symsgd
