// Runs a fuzz target where the compiler has no libFuzzer: on each seed, then on seeds changed at random, in the same
// order every time. It takes libFuzzer's arguments: folders and files of seeds, -max_total_time=SECONDS; and knows no
// coverage, so it finds less.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

void add_seeds(const std::filesystem::path& path, std::vector<Bytes>& seeds) {
    if (std::filesystem::is_directory(path)) {
        for (const auto& entry : std::filesystem::directory_iterator(path)) add_seeds(entry.path(), seeds);
        return;
    }
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Bytes changed(const std::vector<Bytes>& seeds, std::mt19937_64& random) {
    static const std::string telling = "0123456789 .:|#-+eE'\n\r\t,";
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    Bytes bytes = seeds[below(seeds.size())];
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) {
        const std::size_t at = below(bytes.size() + 1);
        const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        const Bytes& other = seeds[below(seeds.size())];
        switch (below(5)) {
            case 0:
                bytes.insert(place, static_cast<std::uint8_t>(telling[below(telling.size())]));
                break;
            case 1:
                bytes.insert(place, static_cast<std::uint8_t>(random()));
                break;
            case 2:
                if (at < bytes.size()) bytes[at] = static_cast<std::uint8_t>(telling[below(telling.size())]);
                break;
            case 3:
                bytes.erase(place, place + static_cast<std::ptrdiff_t>(below(bytes.size() - at + 1)));
                break;
            default:
                if (bytes.size() < 4096) bytes.insert(place, other.begin(), other.end());
        }
    }
    return bytes;
}

}  // namespace

int main(int count, char** arguments) {
    std::vector<Bytes> seeds{{}};
    double seconds = 0;
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        if (argument.rfind("-max_total_time=", 0) == 0) seconds = std::atof(argument.c_str() + 16);
        if (argument[0] != '-') add_seeds(argument, seeds);
    }
    std::printf("no libFuzzer in this compiler (clang has it): %zu seeds changed at random, without coverage\n",
                seeds.size());
    for (const Bytes& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
    std::mt19937_64 random(1);
    std::size_t runs = 0;
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
        const Bytes bytes = changed(seeds, random);
        std::ofstream("last-input", std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        ++runs;
    }
    std::printf("%zu runs, nothing found\n", runs);
}
