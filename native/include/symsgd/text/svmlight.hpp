// The svmlight/LIBSVM format: LABEL [qid:ID] INDEX:VALUE INDEX:VALUE … [# comment], a row a line.
//
// Blank lines and lines that are a comment hold no row. Labels and values are the nearest double of what is written,
// then rounded to the type of the rows; both must be finite in it. Indices of a row may come in any order and
// repeatedly.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "symsgd/text/parsed.hpp"

namespace symsgd {

struct SvmlightOptions {
    std::int64_t first = 0;                                            // the least index accepted
    std::int64_t last = std::numeric_limits<std::int64_t>::max() - 1;  // the greatest, less than the greatest integer
    bool skip_beyond_last = false;                                     // and count, instead of an error
    std::int64_t base = 0;                                             // taken off each index
};

// What was met on the way. Counts add up over pieces, places are those of the first.
struct SvmlightFacts {
    std::int64_t lines = 0;
    std::int64_t query_ids = 0;
    std::int64_t beyond_last = 0;     // entries skipped
    std::int64_t unordered_rows = 0;  // rows in which an index is not greater than the one before
    Place zero;                       // of the first index 0
    Place widest;                     // of the first index as great as `greatest`
    std::int64_t greatest = -1;       // index as written, of those kept; −1: none
};

template <class V>
struct SvmlightText {
    std::vector<ParsedRows<V>> parts;  // in order
    SvmlightFacts facts;
    std::optional<TextError>
        error;  // the first in the text; then parts and facts are those before it, not all complete
};

// Reads the text on up to `threads` threads. The result does not depend on how many; `piece` bytes at a time.
template <class V>
SvmlightText<V> read_svmlight(std::string_view text, const SvmlightOptions& options, int threads, std::size_t piece);

}  // namespace symsgd
