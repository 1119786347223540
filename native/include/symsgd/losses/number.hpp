// What the losses need to be written once for numbers and for vectors of numbers.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

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

// The number x in every lane of R.
template <class R>
[[gnu::always_inline]] inline R all(double x) {
    return R{} + static_cast<Element<R>>(x);
}

}  // namespace symsgd
