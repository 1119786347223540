// Vectors of the compiler's (GCC and Clang), as wide as SYMSGD_VECTOR_BYTES says for the instruction set at hand.
//
// Every -inl file here is compiled once per instruction set. All of it lies in an anonymous namespace: were two sets
// to share an inline function, the linker would keep one of the two bodies for both.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#ifndef SYMSGD_VECTOR_BYTES
#error "compiled without SYMSGD_VECTOR_BYTES"
#endif

#define SYMSGD_INLINE [[gnu::always_inline]] inline

// Keeps the compiler from fusing the multiplication that made this double into an addition that uses it.
#if defined(__x86_64__)
#define SYMSGD_ROUND(x) __asm__("" : "+x"(x))
#elif defined(__aarch64__)
#define SYMSGD_ROUND(x) __asm__("" : "+w"(x))
#else
#define SYMSGD_ROUND(x) static_cast<void>(x)
#endif

namespace symsgd {
namespace {

template <class V, int N>
struct VectorType {
    typedef V type __attribute__((vector_size(N * sizeof(V))));
};

template <class V, int N>
using Vector = typename VectorType<V, N>::type;

template <class V>
constexpr int vector_lanes = SYMSGD_VECTOR_BYTES / static_cast<int>(sizeof(V));

constexpr int smallest(int a, int b) {
    return a < b ? a : b;
}

template <class V, int N>
SYMSGD_INLINE Vector<V, N> load(const V* from) {
    Vector<V, N> v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

template <class V, int N>
SYMSGD_INLINE void store(V* to, Vector<V, N> v) {
    std::memcpy(to, &v, sizeof v);
}

// Adds the lanes up by halves, so that the sum waits for log2 N additions and no more.
template <class V, int N>
SYMSGD_INLINE V sum(Vector<V, N> v) {
    if constexpr (N == 2) {
        return v[0] + v[1];
    } else {
        Vector<V, N / 2> low, high;
        std::memcpy(&low, &v, sizeof low);
        std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
        return sum<V, N / 2>(low + high);
    }
}

template <class V, class I, std::size_t... J>
SYMSGD_INLINE Vector<V, sizeof...(J)> gather(const V* w, const I* index, std::index_sequence<J...>) {
    return Vector<V, sizeof...(J)>{w[index[J]]...};
}

}  // namespace
}  // namespace symsgd
