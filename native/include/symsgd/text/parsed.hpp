// What a piece of text holds: rows in CSR form, and where reading them had to stop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace symsgd {

// An array that grows; what is new in it is not written before the caller does.
template <class T>
class Growing {
public:
    void push_back(T value) {
        if (size_ == capacity_) grow(1);
        data_[size_++] = value;
    }
    // Where to write up to `count` more; `end_at` says how many they were.
    T* room_for(std::size_t count) {
        if (capacity_ - size_ < count) grow(count);
        return data_.get() + size_;
    }
    void end_at(const T* end) { size_ = static_cast<std::size_t>(end - data_.get()); }
    void clear() { size_ = 0; }
    std::size_t size() const { return size_; }
    const T* data() const { return data_.get(); }
    T operator[](std::size_t i) const { return data_[i]; }

private:
    void grow(std::size_t count) {
        const std::size_t wider = std::max(size_ + count, std::max<std::size_t>(1024, 2 * capacity_));
        std::unique_ptr<T[]> data(new T[wider]);
        if (size_ > 0) std::memcpy(data.get(), data_.get(), size_ * sizeof(T));
        data_ = std::move(data);
        capacity_ = wider;
    }

    std::unique_ptr<T[]> data_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

// An array of its final size, to be handed on.
template <class T>
struct Grown {
    Grown() = default;
    explicit Grown(std::size_t size) : data(new T[size]), size(size) {}

    template <class From>
    explicit Grown(const Growing<From>& from) : Grown(from.size()) {
        std::transform(from.data(), from.data() + size, data.get(), [](From x) { return static_cast<T>(x); });
    }

    std::unique_ptr<T[]> data{new T[0]};
    std::size_t size = 0;
};

struct Place {
    std::int64_t line = 0;    // from 1, in the text that was given; 0: nowhere
    std::int64_t column = 0;  // from 1, in bytes
};

struct TextError {
    Place place;
    std::string reason;
};

// The rows that a thread is reading, in memory that it uses again for the next piece.
template <class V>
struct RowBuffer {
    Growing<double> y;
    Growing<double> weight;  // as many as rows, or none
    Growing<std::int64_t> starts;
    Growing<std::int64_t> indices;
    Growing<V> values;

    void clear() {
        y.clear();
        weight.clear();
        starts.clear();
        starts.push_back(0);
        indices.clear();
        values.clear();
    }

    void end_row(double label) {
        y.push_back(label);
        starts.push_back(static_cast<std::int64_t>(indices.size()));
    }
};

// The rows of a piece, complete.
template <class V>
struct ParsedRows {
    ParsedRows() = default;
    ParsedRows(const RowBuffer<V>& rows, std::int64_t greatest_index)
        : y(rows.y), weight(rows.weight), starts(rows.starts), values(rows.values) {
        if (greatest_index <= std::numeric_limits<std::int32_t>::max())
            indices = Grown<std::int32_t>(rows.indices);
        else
            indices = Grown<std::int64_t>(rows.indices);
    }

    Grown<double> y;
    Grown<double> weight;
    Grown<std::int64_t> starts;
    std::variant<Grown<std::int32_t>, Grown<std::int64_t>> indices;
    Grown<V> values;
};

}  // namespace symsgd
