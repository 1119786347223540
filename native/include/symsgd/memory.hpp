// Arrays for the model: aligned to cache lines, on huge pages where they are large enough to need them. A model of
// a few megabytes is read at random, and with 4 KiB pages most of those reads would miss the first-level TLB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace symsgd {

struct Uninitialised {};  // for arrays that their first user fills, and so brings near the core it runs on
struct Streamed {};       // the same, read in order: small pages will do, and the system has them at hand

template <class T>
class Array {
public:
    Array() = default;

    // `size` zeros.
    explicit Array(std::size_t size) : Array(size, Uninitialised{}) {
        for (std::size_t i = 0; i < size; ++i) data_[i] = T{};
    }

    Array(std::size_t size, Uninitialised) : Array(size, true) {}
    Array(std::size_t size, Streamed) : Array(size, false) {}

    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

private:
    Array(std::size_t size, bool huge_pages) : size_(size) {
        if (size == 0) return;
        constexpr std::size_t line = 64;
        constexpr std::size_t huge = std::size_t{2} << 20;
        if (size > (SIZE_MAX - huge) / sizeof(T)) throw std::bad_alloc();
        const std::size_t bytes = size * sizeof(T);
        const std::size_t alignment = huge_pages && bytes >= huge ? huge : line;
        const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
        void* memory = std::aligned_alloc(alignment, rounded);
        if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
        if (alignment == huge) madvise(memory, rounded, MADV_HUGEPAGE);  // a hint: failing costs only speed
#endif
        data_.reset(static_cast<T*>(memory));
    }

    struct Free {
        void operator()(T* memory) const { std::free(memory); }
    };
    std::unique_ptr<T[], Free> data_;
    std::size_t size_ = 0;
};

}  // namespace symsgd
