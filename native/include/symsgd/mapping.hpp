// Extents of a file as one array: mapped one after the other into one range of addresses, read-only and shared.
//
// A store writes its arrays side by side in one pass, so each of them is scattered over the file; training wants each
// in one piece. The page table joins them: nothing is copied, and memory is used only for page tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace symsgd {

struct Extent {
    std::int64_t offset;  // in the file, a multiple of the page size
    std::int64_t length;  // in bytes; a multiple of the page size for all but the last
};

class Mapping {
public:
    // `file` is a descriptor open for reading; it may be closed afterwards. Throws std::invalid_argument for extents
    // that are not aligned or lie beyond the end of the file, where a read would be a bus error, and std::system_error
    // for what the system refuses.
    Mapping(int file, const std::vector<Extent>& extents);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    const std::byte* data() const { return static_cast<const std::byte*>(address_); }
    std::size_t size() const { return size_; }

private:
    void* address_ = nullptr;
    std::size_t size_ = 0;
};

// Asks the system to read the pages of [data, data + size) ahead, or, where they are no longer `wanted`, to let them
// go. They must belong to a Mapping. A hint: nothing is said if it cannot be followed.
void advise(const std::byte* data, std::size_t size, bool wanted);

}  // namespace symsgd
