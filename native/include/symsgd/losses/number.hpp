// What the losses need to be written once for numbers and for vectors of numbers.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace symsgd {

namespace detail {

template <class R>
struct Lanes {  // a compiler's vector type
    using element = std::remove_cvref_t<decltype(std::declval<R&>()[0])>;
    using bits = decltype(std::declval<R&>() < std::declval<R&>());
};
template <>
struct Lanes<float> {
    using element = float;
    using bits = std::int32_t;
};
template <>
struct Lanes<double> {
    using element = double;
    using bits = std::int64_t;
};

}  // namespace detail

template <class R>
using Element = typename detail::Lanes<R>::element;

// Integers as wide as R's elements, as many of them.
template <class R>
using BitsOf = typename detail::Lanes<R>::bits;

// The smaller and the larger of two numbers, without a branch. (Written as a < b ? a : b, the compiler may choose a
// branch, and a clamp that is hardly ever needed then costs more than its comparison.) If one is NaN, b is returned.
template <class R>
[[gnu::always_inline]] inline R lesser(R a, R b) {
#if defined(__SSE2__)
    if constexpr (std::is_same_v<R, float>) return _mm_cvtss_f32(_mm_min_ss(_mm_set_ss(a), _mm_set_ss(b)));
    if constexpr (std::is_same_v<R, double>) return _mm_cvtsd_f64(_mm_min_sd(_mm_set_sd(a), _mm_set_sd(b)));
#endif
    return a < b ? a : b;
}

template <class R>
[[gnu::always_inline]] inline R greater(R a, R b) {
#if defined(__SSE2__)
    if constexpr (std::is_same_v<R, float>) return _mm_cvtss_f32(_mm_max_ss(_mm_set_ss(a), _mm_set_ss(b)));
    if constexpr (std::is_same_v<R, double>) return _mm_cvtsd_f64(_mm_max_sd(_mm_set_sd(a), _mm_set_sd(b)));
#endif
    return a > b ? a : b;
}

// The number x in every lane of R.
template <class R>
[[gnu::always_inline]] inline R all(double x) {
    return R{} + static_cast<Element<R>>(x);
}

}  // namespace symsgd
