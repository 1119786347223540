// Vowpal Wabbit's text: [LABEL [IMPORTANCE [BASE]]] ['TAG]|NAMESPACE[:SCALE] FEATURE[:VALUE] … |NAMESPACE …, a row a
// line.
//
// Features get the index that version 9 gives them (hashing.hpp), modulo 2^bits. What that program reads with a
// warning, or takes for something else without one, is an error here. A row without a label has a label that is not a
// number.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "symsgd/text/collisions.hpp"
#include "symsgd/text/parsed.hpp"

namespace symsgd {

// Which namespaces are crossed, by the first bytes of their names: `-q ab`. A ':' stands for every printable one.
class Crosses {
public:
    // `pairs` are two bytes each
    explicit Crosses(const std::vector<std::string>& pairs = {});

    bool empty() const { return asked_.none(); }

    // Whether two namespaces are crossed, and which one comes first: of two ways to cross them, that in the order of
    // their bytes.
    enum class Way { none, forward, backward };
    Way way(unsigned char lower, unsigned char higher) const {
        if (asked(lower, higher)) return Way::forward;
        return asked(higher, lower) ? Way::backward : Way::none;
    }

private:
    bool asked(unsigned char first, unsigned char second) const { return asked_[256u * first + second]; }

    std::bitset<65536> asked_;
};

struct VowpalOptions {
    int bits = 18;
    Crosses crosses;
    bool constant = false;  // whether each row gets the constant feature
};

// What was met on the way; adds up over pieces.
struct VowpalFacts {
    std::int64_t lines = 0;
    std::int64_t unlabelled = 0;  // rows
    std::int64_t based = 0;       // rows whose prediction was to start from a number other than 0
};

template <class V>
struct VowpalText {
    std::vector<ParsedRows<V>> parts;  // in order
    VowpalFacts facts;
    std::optional<TextError>
        error;  // the first in the text; then parts and facts are those before it, not all complete
};

// As read_svmlight. Features are noted in `collisions`, if any.
template <class V>
VowpalText<V> read_vowpal(std::string_view text, const VowpalOptions& options, Collisions* collisions, int threads,
                          std::size_t piece);

}  // namespace symsgd
