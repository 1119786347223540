// Extents of a file, mapped as one array: whatever they are, they are refused, or hold what the file holds.
#include "symsgd/mapping.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "common.hpp"

namespace symsgd::fuzz {
namespace {

constexpr std::int64_t longest = 1 << 16;  // of the file

// A file in which every byte is told from its neighbours, made once; its end is cut to where an input says.
int file_of(std::int64_t size) {
    static const int file = [] {
        std::FILE* made = std::tmpfile();
        require(made != nullptr, "there is room for a file");
        return fileno(made);
    }();
    static std::int64_t written = 0;
    if (written < size) {
        std::vector<char> bytes(static_cast<std::size_t>(longest));
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
        require(pwrite(file, bytes.data(), bytes.size(), 0) == longest, "the file can be written");
    }
    written = size;
    require(ftruncate(file, size) == 0, "the file can be cut");
    return file;
}

// Without overflow, and without the order of the checks that the mapping has.
bool can_be_mapped(const std::vector<Extent>& extents, std::int64_t size) {
    const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t i = 0; i < extents.size(); ++i) {
        const auto [offset, length] = extents[i];
        if (offset < 0 || length <= 0 || offset % page != 0 || (length % page != 0 && i + 1 < extents.size()))
            return false;
        if (static_cast<__int128>(offset) + length > size) return false;
    }
    return true;
}

void check(const std::vector<Extent>& extents, std::int64_t size) {
    const int file = file_of(size);
    const bool fine = can_be_mapped(extents, size);
    try {
        const Mapping mapping(file, extents);
        require(fine, "what cannot be mapped is refused");
        std::size_t at = 0;
        for (const auto [offset, length] : extents) {
            std::vector<std::byte> held(static_cast<std::size_t>(length));
            require(pread(file, held.data(), held.size(), offset) == length, "the file has the extent");
            require(std::equal(held.begin(), held.end(), mapping.data() + at), "the bytes of the file");
            at += held.size();
        }
        require(at == mapping.size(), "as many bytes as the extents have");
        if (at > 0) {
            advise(mapping.data() + at / 3, at - at / 3, true);
            advise(mapping.data() + at / 3, at - at / 3, false);
        }
    } catch (const std::invalid_argument&) {
        require(!fine, "what can be mapped is mapped");
    }
}

}  // namespace
}  // namespace symsgd::fuzz

// The length of the file in two bytes, then offset and length of each extent: in pages if they have one byte, or as
// they are in eight.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace symsgd;
    const fuzz::Input input(data, size);
    std::string_view rest = input.text();
    const auto take = [&](std::size_t bytes) {
        std::uint64_t number = 0;
        std::memcpy(&number, rest.data(), std::min(bytes, rest.size()));
        rest.remove_prefix(std::min(bytes, rest.size()));
        return static_cast<std::int64_t>(number);
    };
    const std::int64_t length = take(2);
    const std::int64_t page = input.bit(1) ? 1000 : 4096;
    std::vector<Extent> extents;
    while (!rest.empty() && extents.size() < 64) {
        const std::int64_t offset = input.bit(0) ? take(8) : take(1) * page;
        extents.push_back({offset, input.bit(0) ? take(8) : take(1) * page - (input.bit(2) ? 5 : 0)});
    }
    fuzz::check(extents, length);
    return 0;
}
