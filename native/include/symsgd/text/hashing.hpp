// Vowpal Wabbit's hashes of names, so that a feature has the index it has there.
#pragma once

#include <cstdint>
#include <string_view>

namespace symsgd {

// MurmurHash3 for 32 bits (Appleby 2011).
std::uint32_t murmur3(std::string_view bytes, std::uint32_t seed);

// Of a namespace or a feature, by `--hash strings`, the default: names of digits alone are numbers, added to the seed;
// control characters and blanks around a name do not count. Modulo 2³², to which masks of up to 32 bits look.
std::uint32_t hash_name(std::string_view name, std::uint32_t seed);

// Of a feature of one namespace with a feature of another (the order matters).
constexpr std::uint32_t hash_cross(std::uint32_t first, std::uint32_t second) {
    return 16777619u * first ^ second;
}

constexpr std::uint32_t constant_hash = 11650396;  // of the feature that every example has there

// Tells names apart that a hash does not: depends on all bytes of names of up to 16, and on a hash of those besides.
std::uint32_t fingerprint(std::string_view name, std::uint32_t hash, std::uint32_t seed);
std::uint32_t fingerprint_cross(std::uint32_t first, std::uint32_t second);

}  // namespace symsgd
