// What the fuzz targets share: how bytes choose options, and what it means that something is wrong.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "symsgd/text/parsed.hpp"

namespace symsgd::fuzz {

inline void require(bool truth, const char* what) {
    if (truth) return;
    std::fprintf(stderr, "not true: %s\n", what);
    std::abort();
}

// The first byte chooses, the rest is text, in memory of its own that ends where the text does.
class Input {
public:
    Input(const std::uint8_t* data, std::size_t size)
        : choice_(size > 0 ? data[0] : 0), size_(size > 0 ? size - 1 : 0), text_(new char[size_]) {
        if (size_ > 0) std::memcpy(text_.get(), data + 1, size_);
    }

    bool bit(int i) const { return (choice_ >> i & 1) != 0; }
    std::string_view text() const { return {text_.get(), size_}; }

private:
    std::uint8_t choice_;
    std::size_t size_;
    std::unique_ptr<char[]> text_;
};

// The rows of all parts together.
template <class V>
struct Joined {
    std::vector<double> y, weight;
    std::vector<std::int64_t> lengths, indices;
    std::vector<V> values;

    explicit Joined(const std::vector<ParsedRows<V>>& parts) {
        bool weighted = false;
        for (const ParsedRows<V>& part : parts) {
            require(part.starts.size == part.y.size + 1 && part.starts.data[0] == 0, "a start a row, from 0");
            require(part.weight.size == 0 || part.weight.size == part.y.size, "a weight a row, or none");
            weighted |= part.weight.size > 0;
            for (std::size_t i = 0; i < part.y.size; ++i) {
                y.push_back(part.y.data[i]);
                weight.push_back(part.weight.size > 0 ? part.weight.data[i] : 1);
                lengths.push_back(part.starts.data[i + 1] - part.starts.data[i]);
                require(lengths.back() >= 0, "rows end where they begin, or later");
            }
            std::visit(
                [&](const auto& column) {
                    indices.insert(indices.end(), column.data.get(), column.data.get() + column.size);
                },
                part.indices);
            values.insert(values.end(), part.values.data.get(), part.values.data.get() + part.values.size);
            require(part.starts.data[part.y.size] == static_cast<std::int64_t>(part.values.size),
                    "all entries are in a row");
            require(indices.size() == values.size(), "an index a value");
        }
        if (!weighted) weight.clear();
    }

    // to the bit, NaN included
    bool operator==(const Joined& other) const {
        return same(y, other.y) && same(weight, other.weight) && lengths == other.lengths && indices == other.indices &&
               same(values, other.values);
    }

private:
    template <class T>
    static bool same(const std::vector<T>& a, const std::vector<T>& b) {
        return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
    }
};

// An error lies in the text: on a line that there is, at a byte of it or right behind.
inline void require_place(const TextError& error, std::string_view text) {
    std::size_t begin = 0;
    for (std::int64_t line = 1; line < error.place.line; ++line) {
        const std::size_t end = text.find('\n', begin);
        require(end != std::string_view::npos, "the line of an error is in the text");
        begin = end + 1;
    }
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    require(error.place.column >= 1 && error.place.column <= static_cast<std::int64_t>(end - begin) + 1,
            "the column of an error is in its line");
}

inline void require_same(const std::optional<TextError>& a, const std::optional<TextError>& b) {
    require(a.has_value() == b.has_value(), "an error for any pieces");
    if (!a) return;
    require(a->place.line == b->place.line && a->place.column == b->place.column && a->reason == b->reason,
            "the same error for any pieces");
}

}  // namespace symsgd::fuzz
