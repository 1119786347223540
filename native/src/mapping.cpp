#include "symsgd/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>

namespace symsgd {

namespace {

std::int64_t page_size() {
    static const auto size = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

[[noreturn]] void refuse(std::size_t i, const std::string& why) {
    throw std::invalid_argument("extent " + std::to_string(i) + " " + why);
}

// The sum of the lengths.
std::int64_t check_extents(const std::vector<Extent>& extents, std::int64_t file_size) {
    const std::int64_t page = page_size();
    std::int64_t total = 0;
    for (std::size_t i = 0; i < extents.size(); ++i) {
        const auto [offset, length] = extents[i];
        if (offset < 0 || length <= 0) refuse(i, "has a negative offset or no length");
        if (offset > file_size || length > file_size - offset) refuse(i, "ends beyond the end of the file");
        if (offset % page != 0) refuse(i, "does not begin on a page");
        if (length % page != 0 && i + 1 < extents.size()) refuse(i, "does not end on a page");
        if (length > std::numeric_limits<std::int64_t>::max() - page - total) refuse(i, "makes the array too long");
        total += length;
    }
    return total;
}

void* map(void* address, std::size_t size, int protection, int flags, int file, std::int64_t offset) {
    void* mapped = mmap(address, size, protection, flags, file, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return mapped;
}

}  // namespace

Mapping::Mapping(int file, const std::vector<Extent>& extents) {
    struct stat status{};
    if (fstat(file, &status) != 0) throw std::system_error(errno, std::generic_category(), "fstat");
    const std::int64_t total = check_extents(extents, static_cast<std::int64_t>(status.st_size));
    if (total == 0) return;
    size_ = static_cast<std::size_t>(total);
    // reserve first: the pieces then replace parts of a range that nobody else can be given meanwhile
    address_ = map(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    try {
        auto* next = static_cast<std::byte*>(address_);
        for (const auto [offset, length] : extents) {
            map(next, static_cast<std::size_t>(length), PROT_READ, MAP_SHARED | MAP_FIXED, file, offset);
            next += length;
        }
    } catch (...) {
        munmap(address_, size_);
        throw;
    }
}

Mapping::~Mapping() {
    if (address_ != nullptr) munmap(address_, size_);
}

void advise(const std::byte* data, std::size_t size, bool wanted) {
    const auto page = static_cast<std::uintptr_t>(page_size());
    auto begin = reinterpret_cast<std::uintptr_t>(data);
    auto end = begin + size;
    begin = wanted ? begin / page * page : (begin + page - 1) / page * page;  // let go only of pages that lie inside
    end = wanted ? (end + page - 1) / page * page : end / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, wanted ? MADV_WILLNEED : MADV_DONTNEED);
}

}  // namespace symsgd
