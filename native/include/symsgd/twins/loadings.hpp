// What hidden factors add to the numbers of a row: out += factors · loadings, in the order of the factors.
#pragma once

#include <cstddef>
#include <cstring>

#include "symsgd/memory.hpp"

namespace symsgd {

template <class V>
class Loadings {
public:
    // `rows` is n_factors × width.
    Loadings(const V* rows, std::size_t n_factors, std::size_t width)
        : n_factors_(n_factors), tiles_((width + tile - 1) / tile), packed_(tiles_ * n_factors * tile) {
        for (std::size_t k = 0; k < n_factors; ++k)
            for (std::size_t j = 0; j < width; ++j)
                packed_[(j / tile * n_factors + k) * tile + j % tile] = rows[k * width + j];
    }

    std::size_t n_factors() const { return n_factors_; }
    std::size_t padded_width() const { return tiles_ * tile; }

    // `out` has the padded width.
    void add(const V* factors, V* out) const {
        const V* loading = packed_.data();
        for (std::size_t t = 0; t < tiles_; ++t, out += tile) {
            Lanes a = load(out), b = load(out + lanes), c = load(out + 2 * lanes), d = load(out + 3 * lanes);
            for (std::size_t k = 0; k < n_factors_; ++k, loading += tile) {
                a += factors[k] * load(loading);
                b += factors[k] * load(loading + lanes);
                c += factors[k] * load(loading + 2 * lanes);
                d += factors[k] * load(loading + 3 * lanes);
            }
            store(out, a);
            store(out + lanes, b);
            store(out + 2 * lanes, c);
            store(out + 3 * lanes, d);
        }
    }

private:
    using Lanes [[gnu::vector_size(16)]] = V;  // which every processor has; left to itself the compiler takes none
    static constexpr std::size_t lanes = 16 / sizeof(V);
    static constexpr std::size_t tile = 4 * lanes;  // sums in registers

    static Lanes load(const V* from) {
        Lanes value;
        std::memcpy(&value, from, sizeof value);
        return value;
    }
    static void store(V* to, Lanes value) { std::memcpy(to, &value, sizeof value); }

    std::size_t n_factors_;
    std::size_t tiles_;
    Array<V> packed_;  // tiles × n_factors × tile
};

}  // namespace symsgd
