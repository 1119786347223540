// The readers of text on several threads, of which a sanitizer sees what they share: pieces, results, the collisions.
#pragma once

#include <cstring>
#include <string>

#include "symsgd/text/svmlight.hpp"
#include "symsgd/text/vowpal.hpp"

namespace symsgd::tests {

template <class V>
std::string bytes_of(const std::vector<ParsedRows<V>>& parts) {
    std::string bytes;
    for (const ParsedRows<V>& part : parts) {
        bytes.append(reinterpret_cast<const char*>(part.y.data.get()), part.y.size * sizeof(double));
        bytes.append(reinterpret_cast<const char*>(part.starts.data.get()), part.starts.size * sizeof(std::int64_t));
        bytes.append(reinterpret_cast<const char*>(part.values.data.get()), part.values.size * sizeof(V));
    }
    return bytes;
}

// Whether four threads read what one does.
inline bool readers_agree() {
    std::string rows, examples;
    for (int i = 0; i < 2000; ++i) {
        rows += "1 " + std::to_string(i + 1) + ":0." + std::to_string(i) + " 9999:1e-3\n";
        examples += "1 2 |a f" + std::to_string(i % 300) + ":2 g |b h" + std::to_string(i) + '\n';
    }
    const auto one = read_svmlight<float>(rows, {}, 1, 100), four = read_svmlight<float>(rows, {}, 4, 100);
    const VowpalOptions options{8, Crosses(std::vector<std::string>{"ab"}), true};
    Collisions alone(8), shared(8);
    const auto single = read_vowpal<double>(examples, options, &alone, 1, 100);
    const auto several = read_vowpal<double>(examples, options, &shared, 4, 100);
    return bytes_of(one.parts) == bytes_of(four.parts) && bytes_of(single.parts) == bytes_of(several.parts) &&
           alone.count().shared == shared.count().shared && alone.count().used == shared.count().used;
}

}  // namespace symsgd::tests
