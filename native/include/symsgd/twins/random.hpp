// Random numbers for the rows of a twin. Every row has a stream of its own, so that rows may be drawn in any order, by
// any thread, and a row is the same in every chunk and at every scale.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace symsgd {

// The normal density under a stack of layers of equal area, the lowest with the tail (Marsaglia and Tsang's ziggurat).
struct Ziggurat {
    static constexpr int layers = 256;
    static constexpr double tail = 3.6541528853610088;  // where the lowest layer ends, of 256
    Ziggurat();

    double width[layers + 1];   // of each layer, from the lowest to the tip, which has none
    double height[layers + 1];  // e^{−width²/2}
    double inner[layers];       // the share of a layer's width that is under the density in all of its height
};
extern const Ziggurat ziggurat;

// xoshiro256++, its state four numbers of a SplitMix64 that begins at `key`: row i has the i-th four.
class Random {
public:
    Random(std::uint64_t key, std::int64_t row) {
        constexpr std::uint64_t step = 0x9e3779b97f4a7c15ULL;
        std::uint64_t at = key + 4 * static_cast<std::uint64_t>(row) * step;
        for (std::uint64_t& word : state_) {
            at += step;
            std::uint64_t z = at;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
            word = z ^ (z >> 31);
        }
    }

    std::uint64_t bits() {
        const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }

    // In (0, 1): neither end, so that it has a logarithm on both sides.
    double uniform() { return (static_cast<double>(bits() >> 12) + 0.5) * 0x1p-52; }

    double normal() {
        const std::uint64_t drawn = bits();
        const auto layer = static_cast<int>(drawn % Ziggurat::layers);  // bits that the next line does not use
        const double u = static_cast<double>(static_cast<std::int64_t>(drawn) >> 11) * 0x1p-52;  // in [−1, 1)
        if (std::abs(u) < ziggurat.inner[layer]) return u * ziggurat.width[layer];
        return beyond_inner(layer, u);
    }

    double logistic() {
        const double u = uniform();
        return std::log(u / (1 - u));
    }

    double gamma(double shape);

private:
    double beyond_inner(int layer, double u);

    std::uint64_t state_[4];
};

}  // namespace symsgd
