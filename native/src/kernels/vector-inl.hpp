// Vectors of the compiler's (GCC and Clang), as wide as SYMSGD_VECTOR_BYTES says for the instruction set at hand.
//
// Every -inl file here is compiled once per instruction set. All of it lies in an anonymous namespace: were two sets
// to share an inline function, the linker would keep one of the two bodies for both.
#pragma once

#include <bit>
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

// The number x in every lane. (Zero plus x would be an addition: it makes 0 of −0.)
template <class V, int N>
SYMSGD_INLINE Vector<V, N> broadcast(V x) {
    return x - Vector<V, N>{};
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

// The even numbers of a, then of b, plus the odd ones: sums of neighbours, half of them a's.
template <class V, int N, int... K>
SYMSGD_INLINE Vector<V, N> add_neighbours(Vector<V, N> a, Vector<V, N> b, std::integer_sequence<int, K...>) {
    return __builtin_shufflevector(a, b, (2 * K)...) + __builtin_shufflevector(a, b, (2 * K + 1)...);
}

// The sums of N vectors of N numbers, side by side: a few shuffles for each rather than log2 N.
template <class V, int N, int count = N>
SYMSGD_INLINE Vector<V, N> sums(const Vector<V, N>* v) {
    if constexpr (count == 1)
        return v[0];
    else
        return add_neighbours<V, N>(sums<V, N, count / 2>(v), sums<V, N, count / 2>(v + count / 2),
                                    std::make_integer_sequence<int, N>());
}

// Weights that belong to one thread.
template <class V>
struct Plain {
    V* weights;

    SYMSGD_INLINE V get(std::int64_t i) const { return weights[i]; }
    SYMSGD_INLINE void set(std::int64_t i, V value) const { weights[i] = value; }
    template <int N>
    SYMSGD_INLINE Vector<V, N> get_vector(std::int64_t i) const {
        return load<V, N>(weights + i);
    }
    template <int N>
    SYMSGD_INLINE void set_vector(std::int64_t i, Vector<V, N> v) const {
        store<V, N>(weights + i, v);
    }
};

// Weights that belong to one thread, of which those from `held` on keep their values.
template <class V>
struct Held {
    V* weights;
    std::int64_t held;
    V* nowhere;

    SYMSGD_INLINE V get(std::int64_t i) const { return weights[i]; }
    // without a branch: which entries of a row are held is as good as random
    SYMSGD_INLINE void set(std::int64_t i, V value) const { *(i < held ? weights + i : nowhere) = value; }
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SYMSGD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SYMSGD_SANITIZER 1
#endif
#endif

// Weights that several threads read and write at once, each number by itself: relaxed atomics. What the compilers make
// of those for floating point is a detour through the integer registers, and for vectors the language has none; so on
// x86 the moves, atomic by number and no more, are written as such. Elsewhere, and under sanitizers, which see nothing
// of such moves, they are the language's.
#if defined(__x86_64__) && !defined(SYMSGD_SANITIZER)
#if defined(__AVX__)
#define SYMSGD_MOVE(kind) "vmov" kind " %1, %0"
#else
#define SYMSGD_MOVE(kind) "mov" kind " %1, %0"
#endif
#endif

template <class V>
struct Relaxed {
    V* weights;

#if defined(SYMSGD_MOVE)
    SYMSGD_INLINE V get(std::int64_t i) const {
        V value;
        if constexpr (sizeof(V) == 4)
            __asm__(SYMSGD_MOVE("ss") : "=x"(value) : "m"(weights[i]));
        else
            __asm__(SYMSGD_MOVE("sd") : "=x"(value) : "m"(weights[i]));
        return value;
    }
    SYMSGD_INLINE void set(std::int64_t i, V value) const {
        if constexpr (sizeof(V) == 4)
            __asm__(SYMSGD_MOVE("ss") : "=m"(weights[i]) : "x"(value));
        else
            __asm__(SYMSGD_MOVE("sd") : "=m"(weights[i]) : "x"(value));
    }
    template <int N>
    SYMSGD_INLINE Vector<V, N> get_vector(std::int64_t i) const {
        Vector<V, N> v;
        __asm__(SYMSGD_MOVE("ups") : "=x"(v) : "m"(*reinterpret_cast<const char (*)[sizeof v]>(weights + i)));
        return v;
    }
    template <int N>
    SYMSGD_INLINE void set_vector(std::int64_t i, Vector<V, N> v) const {
        __asm__(SYMSGD_MOVE("ups") : "=m"(*reinterpret_cast<char (*)[sizeof v]>(weights + i)) : "x"(v));
    }
#else
    SYMSGD_INLINE V get(std::int64_t i) const {
        V value;
        __atomic_load(weights + i, &value, __ATOMIC_RELAXED);
        return value;
    }
    SYMSGD_INLINE void set(std::int64_t i, V value) const { __atomic_store(weights + i, &value, __ATOMIC_RELAXED); }
    template <int N>
    SYMSGD_INLINE Vector<V, N> get_vector(std::int64_t i) const {
        Vector<V, N> v{};
        for (int k = 0; k < N; ++k) v[k] = get(i + k);
        return v;
    }
    template <int N>
    SYMSGD_INLINE void set_vector(std::int64_t i, Vector<V, N> v) const {
        for (int k = 0; k < N; ++k) set(i + k, v[k]);
    }
#endif
};

// A whole number of so many bytes, wherever it lies.
template <class T>
SYMSGD_INLINE T read(const void* from) {
    T number;
    std::memcpy(&number, from, sizeof number);
    return number;
}

// N indices, several a load, because loads are what the loop over a sparse row has most of.
template <int N, class I>
SYMSGD_INLINE void read_indices(const I* from, std::int64_t* to) {
    constexpr bool little = std::endian::native == std::endian::little;
    if constexpr (sizeof(I) == 2 && little && N % 4 == 0) {
        for (int k = 0; k < N; k += 4) {
            const auto four = read<std::uint64_t>(from + k);
            for (int i = 0; i < 4; ++i) to[k + i] = static_cast<std::int64_t>(four >> 16 * i & 0xffff);
        }
    } else if constexpr (sizeof(I) == 4 && little) {
        for (int k = 0; k < N; k += 2) {
            const auto two = read<std::uint64_t>(from + k);
            to[k] = static_cast<std::uint32_t>(two);
            to[k + 1] = static_cast<std::int64_t>(two >> 32);
        }
    } else {
        for (int k = 0; k < N; ++k) to[k] = static_cast<std::int64_t>(from[k]);
    }
}

template <class W, class I, std::size_t... J>
SYMSGD_INLINE auto gather(const W& w, const I* index, std::index_sequence<J...>) {
    using V = decltype(w.get(0));
    std::int64_t at[sizeof...(J)];
    read_indices<sizeof...(J)>(index, at);
    return Vector<V, sizeof...(J)>{w.get(at[J])...};
}

}  // namespace
}  // namespace symsgd
