// Runs of decimal digits, eight bytes at a time.
//
// What reads text here relies on one promise: the text ends with '\n'. No loop over digits, blanks or names passes a
// line end, so none of them compares with the end of the text; only loads of eight bytes do.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace symsgd {

constexpr bool is_digit(char c) {
    return static_cast<unsigned char>(c - '0') < 10;
}

// A run of digits as a number modulo 2⁶⁴ (exact up to 19 digits), appended to `value`.
struct Digits {
    std::uint64_t value;
    const char* end;
};

namespace detail {

inline std::uint64_t load_eight(const char* p) {
    std::uint64_t bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

// Eight bytes of value 0 to 9, the first one lowest in memory, as one number: neighbours are joined to pairs, pairs to
// fours, fours to eights.
constexpr std::uint64_t join_eight(std::uint64_t digits) {
    digits = digits * 10 + (digits >> 8);
    return (((digits & 0x000000FF000000FF) * (100 + (std::uint64_t{1000000} << 32))) +
            (((digits >> 16) & 0x000000FF000000FF) * (1 + (std::uint64_t{10000} << 32)))) >>
           32;
}

constexpr std::uint64_t small_powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

}  // namespace detail

// Reads the digits at p, none or more.
inline Digits read_digits(const char* p, const char* text_end, std::uint64_t value = 0) {
    if constexpr (std::endian::native == std::endian::little) {
        while (text_end - p >= 8) {
            const std::uint64_t digits = detail::load_eight(p) ^ 0x3030303030303030;
            // a byte's top bit is set where it is no digit
            const std::uint64_t others = ((digits + 0x7676767676767676) | digits) & 0x8080808080808080;
            if (others != 0) {  // as many digits as there are, none included, moved to the end of the eight
                const int count = std::countr_zero(others) / 8;
                const std::uint64_t moved = digits << (56 - 8 * count) << 8;
                return {value * detail::small_powers[count] + detail::join_eight(moved), p + count};
            }
            value = value * 100000000 + detail::join_eight(digits);
            p += 8;
        }
    }
    for (; is_digit(*p); ++p) value = value * 10 + static_cast<std::uint64_t>(*p - '0');
    return {value, p};
}

}  // namespace symsgd
