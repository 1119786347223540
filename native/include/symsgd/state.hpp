// The state of a training as bytes: written between two passes, read into a training that was set up in the same way.
//
// Whatever has a state says once what it consists of, `template <class State> void archive(State& state)`, and is
// written and read by the same line. The bytes are those of memory: they are for the same program on the same kind of
// machine, and whoever keeps them checks that.
#pragma once

#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "symsgd/memory.hpp"

namespace symsgd {

class StateWriter {
public:
    static constexpr bool reading = false;

    template <class... Parts>
    void operator()(const Parts&... parts) {
        (write(parts), ...);
    }

    std::string take() { return std::move(bytes_); }

private:
    template <class T>
    void write(const T& part) {
        if constexpr (requires { const_cast<T&>(part).archive(*this); }) {
            const_cast<T&>(part).archive(*this);  // which only reads what it is given
        } else {
            static_assert(std::is_trivially_copyable_v<T>);
            append(&part, sizeof part);
        }
    }

    template <class T>
    void write(const std::vector<T>& parts) {
        write(parts.size());
        if constexpr (std::is_trivially_copyable_v<T>)
            append(parts.data(), parts.size() * sizeof(T));
        else
            for (const T& part : parts) write(part);
    }

    template <class T>
    void write(const Array<T>& parts) {
        write(parts.size());
        append(parts.data(), parts.size() * sizeof(T));
    }

    void append(const void* from, std::size_t count) {
        if (count != 0) bytes_.append(static_cast<const char*>(from), count);
    }

    std::string bytes_;
};

class StateReader {
public:
    static constexpr bool reading = true;

    explicit StateReader(std::span<const char> bytes) : left_(bytes) {}

    template <class... Parts>
    void operator()(Parts&... parts) {
        (read(parts), ...);
    }

    void end() const {
        if (!left_.empty()) throw std::invalid_argument("the state of a training has bytes left over");
    }

private:
    template <class T>
    void read(T& part) {
        if constexpr (requires { part.archive(*this); })
            part.archive(*this);
        else
            take(&part, sizeof part);
    }

    template <class T>
    void read(std::vector<T>& parts) {
        const std::size_t count = size();
        if (count > left_.size()) cut_short();  // the smallest part has a byte
        parts.resize(count);
        if constexpr (std::is_trivially_copyable_v<T>)
            take(parts.data(), parts.size() * sizeof(T));
        else
            for (T& part : parts) read(part);
    }

    template <class T>
    void read(Array<T>& parts) {
        const std::size_t count = size();
        if (count * sizeof(T) > left_.size()) cut_short();
        if (parts.size() != count) parts = Array<T>(count, Uninitialised{});
        take(parts.data(), count * sizeof(T));
    }

    std::size_t size() {
        std::size_t count = 0;
        take(&count, sizeof count);
        return count;
    }

    void take(void* to, std::size_t count) {
        if (count > left_.size()) cut_short();
        if (count != 0) std::memcpy(to, left_.data(), count);
        left_ = left_.subspan(count);
    }

    [[noreturn]] static void cut_short() { throw std::invalid_argument("the state of a training is cut short"); }

    std::span<const char> left_;
};

}  // namespace symsgd
