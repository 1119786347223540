// e^x for numbers and vectors of numbers, to the last bit or two of its type, held to the range of finite results.
//
// e^x = 2^n 2^r with n = round(x log2 e) and |r| ≤ ½. The rounding adds and takes off a number so large that only
// the integer part survives; the low bits it leaves are n and, moved up, 2^n. 2^r is a polynomial, evaluated in pairs
// (Estrin) because its latency, not its cost, is what a row waits for.
#pragma once

#include <bit>
#include <type_traits>

#include "symsgd/losses/number.hpp"

namespace symsgd {

template <class R>
[[gnu::always_inline]] inline R exponential(R x) {
    using E = Element<R>;
    using B = BitsOf<R>;
    constexpr bool single = std::is_same_v<E, float>;
    constexpr E limit = single ? E(126) : E(1022);
    // 1.5 × 2^(mantissa bits), and the bias of exponents
    constexpr E shift = single ? E(12582912.0 + 127.0) : E(6755399441055744.0 + 1023.0);
    constexpr int mantissa = single ? 23 : 52;

    // the limits come first: of two numbers that do not compare, the second is kept, so that NaN stays NaN
    const R t = greater(all<R>(-limit), lesser(all<R>(limit), R(x * E(1.44269504088896340736))));
    const R shifted = t + shift;
    const R power = std::bit_cast<R>(std::bit_cast<B>(shifted) << mantissa);
    const R r = t - (shifted - shift);
    const R r2 = r * r;
    const R r4 = r2 * r2;
    if constexpr (single) {  // Taylor's coefficients of 2^r, the last two bent to halve the error at ±½
        const R a = r * E(0.693147180) + E(1.0);
        const R b = r * E(0.0555041087) + E(0.240226507);
        const R c = r * E(0.00133952626) + E(0.00961802021);
        const R low = b * r2 + a;
        const R high = r2 * E(0.000154343697) + c;
        return (high * r4 + low) * power;
    } else {
        const R a = r * 0.69314718055994530942 + 1.0;
        const R b = r * 0.055504108664821579953 + 0.24022650695910071233;
        const R c = r * 1.3333558146428443423e-3 + 9.6181291076284771619e-3;
        const R d = r * 1.5252733804059840280e-5 + 1.5403530393381609954e-4;
        const R e = r * 1.0178086009239699728e-7 + 1.3215486790144309488e-6;
        const R f = r * 4.4455382718708114976e-10 + 7.0549116208011233299e-9;
        const R g = r * 1.3691488853904124877e-12 + 2.5678435993488205142e-11;
        const R low = b * r2 + a;
        const R middle = d * r2 + c;
        const R high = f * r2 + e;
        return (((g * r4 + high) * r4 + middle) * r4 + low) * power;
    }
}

}  // namespace symsgd
