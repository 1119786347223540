// What must hold of the caller's arrays before a kernel may read them.
#pragma once

#include <cstdint>
#include <string>

#include "symsgd/rows.hpp"

namespace symsgd {

struct Checked {
    bool finite = true;
    bool increasing = true;  // every row's indices strictly increase: sorted and none repeated
    std::string damage;      // empty, or what is wrong with the structure and where
};

template <class V>
bool all_finite(const V* values, std::int64_t count, int threads);

// `entries` is the length of the index and value arrays.
template <class V, class I>
Checked check(const SparseRows<V, I>& rows, std::int64_t entries, int threads);

}  // namespace symsgd
