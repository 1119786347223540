// Arrays for the model: aligned to cache lines, on huge pages where they are large enough to need them and those are to
// be had (pages.hpp).
//
// Large arrays are the system's own pages, which are zeros without being written: a page is made when it is first used,
// by whoever uses it. Sixteen replicas of a model of millions of weights took a thread longer to fill with zeros than a
// pass over the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "symsgd/pages.hpp"

namespace symsgd {

struct Uninitialised {};  // for arrays that their first user fills, and so brings near the core it runs on

// What a large array is read like.
enum class Pages : std::uint8_t {
    huge,          // at random
    as_they_come,  // mostly in order, or near its beginning: huge ones where the system has them at hand (pages.hpp)
    small          // made as a copy is (PagesOfCopy)
};

template <class T>
class Array {
public:
    Array() = default;

    // `size` zeros.
    explicit Array(std::size_t size, Pages pages = Pages::huge) : Array(size, Uninitialised{}, pages) {
        if (!data_.get_deleter().mapped)
            for (std::size_t i = 0; i < size; ++i) data_[i] = T{};
    }

    Array(std::size_t size, Uninitialised, [[maybe_unused]] Pages pages = Pages::huge) : size_(size) {
        if (size == 0) return;
        constexpr std::size_t line = 64;
        constexpr std::size_t huge = HugePages::size;
        if (size > (SIZE_MAX - huge) / sizeof(T)) throw std::bad_alloc();
        const std::size_t bytes = size * sizeof(T);
#if defined(__linux__)
        if (bytes >= huge) {
            map((bytes + huge - 1) / huge * huge, huge);
            if (pages == Pages::huge ||
                (pages == Pages::as_they_come && HugePages::are_worth_it(data_.get(), bytes / huge)))
                madvise(data_.get(), data_.get_deleter().mapped, MADV_HUGEPAGE);  // failing costs only speed
            return;
        }
#endif
        void* memory = std::aligned_alloc(line, (bytes + line - 1) / line * line);
        if (memory == nullptr) throw std::bad_alloc();
        data_.reset(static_cast<T*>(memory));
    }

    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

private:
    struct Free {
        std::size_t mapped = 0;  // bytes; 0: from the heap
        void operator()(T* memory) const {
#if defined(__linux__)
            if (mapped > 0) {
                munmap(memory, mapped);
                return;
            }
#endif
            std::free(memory);
        }
    };
    using Memory = std::unique_ptr<T[], Free>;

#if defined(__linux__)
    // `bytes` of pages that begin where a huge one does: a little more is asked for, and what is too much given back.
    void map(std::size_t bytes, std::size_t huge) {
        void* memory = mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        char* const from = static_cast<char*>(memory);
        const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(from) % huge) % huge;
        if (before > 0) munmap(from, before);
        munmap(from + before + bytes, huge - before);
        data_ = Memory(static_cast<T*>(static_cast<void*>(from + before)), Free{bytes});
    }
#endif

    Memory data_;
    std::size_t size_ = 0;
};

}  // namespace symsgd
