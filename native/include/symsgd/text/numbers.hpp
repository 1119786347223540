// Decimal numbers: the double nearest to what is written, as strtod and Python's float() give it.
#pragma once

#include <cstdint>

#include "symsgd/text/digits.hpp"

namespace symsgd {

struct Decimal {
    double value;
    const char* end;  // where the number was to begin, if there is none
};

// The number written in [begin, end): digits with a point and an exponent, without a sign. Infinite where it is too
// large.
double nearest_double(const char* begin, const char* end);

namespace detail {

constexpr std::uint64_t most_exact = std::uint64_t{1} << 53;  // every integer up to it is a double
constexpr double exact_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int most_digits = 19;  // that a 64-bit integer always holds

// How many of the digits in [begin, end), a point among them or not, are significant.
inline std::int64_t significant(const char* begin, const char* end, std::int64_t digits) {
    for (; begin < end && (*begin == '0' || *begin == '.'); ++begin) digits -= *begin == '0';
    return digits;
}

}  // namespace detail

// Reads an optional sign, digits with or without a point, and an optional exponent. What follows is the caller's to
// judge.
inline Decimal read_decimal(const char* p, const char* text_end) {
    const char* const begin = p;
    const bool negative = *p == '-';
    p += negative || *p == '+';
    const char* const unsigned_begin = p;
    // one digit before the point is the usual case
    Digits read = is_digit(p[0]) && p[1] == '.' ? Digits{static_cast<std::uint64_t>(p[0] - '0'), p + 1}
                                                : read_digits(p, text_end);
    std::int64_t digits = read.end - p;
    std::int64_t exponent = 0;
    if (*read.end == '.') {
        const char* const point = read.end;
        read = read_digits(point + 1, text_end, read.value);
        exponent = point + 1 - read.end;
        digits -= exponent;
    }
    if (digits == 0) return {0.0, begin};
    const char* end = read.end;
    if (*end == 'e' || *end == 'E') {
        p = end + 1;
        const bool smaller = *p == '-';
        p += smaller || *p == '+';
        if (!is_digit(*p)) return {0.0, begin};
        std::int64_t power = 0;
        for (; is_digit(*p); ++p)
            if (power < 1000000000) power = power * 10 + (*p - '0');
        exponent += smaller ? -power : power;
        end = p;
    }
    // One rounding of two exact numbers is the nearest double (Clinger 1990); that is nearly every number in a file.
    double value;
    if ((digits <= detail::most_digits ||
         detail::significant(unsigned_begin, read.end, digits) <= detail::most_digits) &&
        read.value <= detail::most_exact && exponent >= -22 && exponent <= 22) {
        value = static_cast<double>(read.value);
        value = exponent < 0 ? value / detail::exact_powers[-exponent] : value * detail::exact_powers[exponent];
    } else {
        value = nearest_double(unsigned_begin, end);
    }
    return {negative ? -value : value, end};
}

}  // namespace symsgd
