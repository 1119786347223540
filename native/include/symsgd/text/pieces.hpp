// Text cut at line ends, so that several threads read it at once and the result does not depend on how many.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "symsgd/team.hpp"
#include "symsgd/text/parsed.hpp"

namespace symsgd {

constexpr std::size_t piece_bytes = std::size_t{1} << 19;  // a piece and its rows stay in a core's cache

// Whole lines, about `bytes` each, in order. Each piece ends with '\n'; a last line without one is copied, to get it.
class Pieces {
public:
    explicit Pieces(std::string_view text, std::size_t bytes = piece_bytes) {
        std::size_t begin = 0;
        while (begin < text.size()) {
            const std::size_t at = text.size() - begin > bytes ? begin + bytes - 1 : text.size() - 1;
            const std::size_t line_end = text.find('\n', at);
            if (line_end == std::string_view::npos) {
                cut_last_line(text.substr(begin));
                break;
            }
            pieces_.push_back(text.substr(begin, line_end + 1 - begin));
            begin = line_end + 1;
        }
    }
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;

    std::size_t size() const { return pieces_.size(); }
    std::string_view operator[](std::size_t i) const { return pieces_[i]; }

private:
    void cut_last_line(std::string_view rest) {
        const std::size_t line_end = rest.rfind('\n');
        const std::size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
        if (begin > 0) pieces_.push_back(rest.substr(0, begin));
        last_line_ = std::string(rest.substr(begin)) + '\n';
        pieces_.push_back(last_line_);
    }

    std::vector<std::string_view> pieces_;
    std::string last_line_;
};

// Where a pointer into a piece is, once the lines before the piece are known.
struct Mark {
    const char* at = nullptr;
    const char* line_begin = nullptr;
    std::int64_t line = 0;  // from 1, in the piece

    explicit operator bool() const { return at != nullptr; }
    Place place(std::int64_t lines_before) const { return {lines_before + line, at - line_begin + 1}; }
};

// Reads every piece by read(buffer, piece), on up to `threads` threads that keep a Buffer each; the results in order.
template <class Buffer, class Result, class Read>
std::vector<Result> read_pieces(const Pieces& pieces, int threads, Read&& read) {
    std::vector<Result> results(pieces.size());
    std::atomic<std::size_t> next{0};
    run_team(static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(threads), pieces.size())), [&](int) {
        Buffer buffer;
        for (std::size_t i = next++; i < pieces.size(); i = next++) results[i] = read(buffer, pieces[i]);
    });
    return results;
}

// The word at p for an error message: up to a blank or the line's end, unprintable bytes escaped, not too long.
std::string quoted(const char* p);

constexpr bool is_blank(char c) {  // within a line, as Python's split() has it
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

}  // namespace symsgd
