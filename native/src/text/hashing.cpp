#include "symsgd/text/hashing.hpp"

#include <algorithm>
#include <bit>

namespace symsgd {
namespace {

// Little-endian wherever it runs: hashes go into files.
template <class T>
T load(const char* p, std::size_t count = sizeof(T)) {
    T value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= static_cast<T>(static_cast<unsigned char>(p[i])) << (8 * i);
    return value;
}

constexpr std::uint32_t scramble(std::uint32_t k) {
    return std::rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15;
    return (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
}

}  // namespace

std::uint32_t murmur3(std::string_view bytes, std::uint32_t seed) {
    std::uint32_t h = seed;
    const char* p = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 4; p += 4, left -= 4) h = std::rotl(h ^ scramble(load<std::uint32_t>(p)), 13) * 5 + 0xe6546b64u;
    if (left > 0) h ^= scramble(load<std::uint32_t>(p, left));
    h ^= static_cast<std::uint32_t>(bytes.size());
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

std::uint32_t hash_name(std::string_view name, std::uint32_t seed) {
    const auto is_space = [](char c) { return static_cast<unsigned char>(c) <= 0x20; };
    while (!name.empty() && is_space(name.front())) name.remove_prefix(1);
    while (!name.empty() && is_space(name.back())) name.remove_suffix(1);
    std::uint32_t number = 0;
    for (const char c : name) {
        if (c < '0' || c > '9') return murmur3(name, seed);
        number = 10 * number + static_cast<std::uint32_t>(c - '0');
    }
    return number + seed;
}

std::uint32_t fingerprint(std::string_view name, std::uint32_t hash, std::uint32_t seed) {
    const std::size_t part = std::min<std::size_t>(8, name.size());
    const auto first = load<std::uint64_t>(name.data(), part);
    const auto last = load<std::uint64_t>(name.data() + name.size() - part, part);
    const std::uint64_t both = std::uint64_t{seed} << 32 | hash;
    return static_cast<std::uint32_t>(mix(mix(mix(both ^ name.size()) ^ first) ^ last) >> 32);
}

std::uint32_t fingerprint_cross(std::uint32_t first, std::uint32_t second) {
    return static_cast<std::uint32_t>(mix(std::uint64_t{first} << 32 | second) >> 32);
}

}  // namespace symsgd
