// Sparse rows that somebody made: what the check lets through can be read, and no more; it is as a plain check says.
#include "symsgd/rows.hpp"

#include <cmath>

#include "common.hpp"
#include "symsgd/check.hpp"

namespace symsgd::fuzz {
namespace {

// So many numbers from the front of the text, in memory of their own that ends where they do.
template <class T>
std::vector<T> numbers(std::string_view& text, std::size_t count) {
    std::vector<T> found(count);
    const std::size_t bytes = std::min(count * sizeof(T), text.size());
    if (bytes > 0) std::memcpy(found.data(), text.data(), bytes);
    text.remove_prefix(bytes);
    return found;
}

template <class V, class I, class S>
void check_one(std::string_view text, std::size_t rows, std::size_t entries, std::int64_t features, int threads) {
    const std::vector<S> starts = numbers<S>(text, rows + 1);
    const std::vector<I> indices = numbers<I>(text, entries);
    const std::vector<V> values = numbers<V>(text, entries);
    const SparseRows<V, I> view{RowStarts(starts.data()), indices.data(), values.data(),
                                static_cast<std::int64_t>(rows), features};
    const Checked checked = check(view, static_cast<std::int64_t>(entries), threads);

    bool sound = starts[0] == 0 && static_cast<std::int64_t>(starts[rows]) <= static_cast<std::int64_t>(entries);
    for (std::size_t r = 0; r < rows; ++r) sound = sound && starts[r] <= starts[r + 1];
    bool finite = true;
    bool increasing = true;
    for (std::size_t r = 0; sound && r < rows; ++r) {
        for (S j = starts[r]; j < starts[r + 1]; ++j) {
            const auto at = static_cast<std::size_t>(j);
            sound = sound && indices[at] >= 0 && static_cast<std::int64_t>(indices[at]) < features;
            increasing = increasing && (j == starts[r] || indices[at - 1] < indices[at]);
            finite = finite && std::isfinite(values[at]);
        }
    }
    require(sound == checked.damage.empty(), "damage is found, and only damage");
    if (!sound) return;
    require(finite == checked.finite, "values that are not finite are found");
    require(increasing == checked.increasing, "rows out of order are found");
}

template <class V>
void check_all(const Input& input, std::string_view text, std::size_t rows, std::size_t entries,
               std::int64_t features) {
    const int threads = input.bit(1) ? 2 : 1;
    if (input.bit(2))
        check_one<V, std::int64_t, std::int64_t>(text, rows, entries, features, threads);
    else if (input.bit(3))
        check_one<V, std::int32_t, std::int64_t>(text, rows, entries, features, threads);
    else
        check_one<V, std::int32_t, std::int32_t>(text, rows, entries, features, threads);
}

}  // namespace
}  // namespace symsgd::fuzz

// A byte each for rows and entries, eight for the number of features, then starts, indices and values.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace symsgd;
    const fuzz::Input input(data, size);
    std::string_view text = input.text();
    const std::size_t rows = fuzz::numbers<std::uint8_t>(text, 1)[0];
    const std::size_t entries = fuzz::numbers<std::uint8_t>(text, 1)[0];
    const std::int64_t features = fuzz::numbers<std::int64_t>(text, 1)[0];
    if (features < 0) return 0;  // no array has such a shape
    if (input.bit(0))
        fuzz::check_all<double>(input, text, rows, entries, features);
    else
        fuzz::check_all<float>(input, text, rows, entries, features);
    return 0;
}
