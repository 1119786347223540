// The Vowpal Wabbit reader: the same rows in any pieces and line by line, in range and finite.
#include "symsgd/text/vowpal.hpp"

#include <cmath>

#include "common.hpp"

namespace symsgd::fuzz {
namespace {

template <class V>
void check(std::string_view text, const VowpalOptions& options, int threads) {
    Collisions of_whole(options.bits), of_pieces(options.bits);
    const VowpalText<V> whole = read_vowpal<V>(text, options, &of_whole, 1, std::size_t{1} << 20);
    const VowpalText<V> pieces = read_vowpal<V>(text, options, &of_pieces, threads, 7);
    require_same(whole.error, pieces.error);
    if (whole.error) {
        require_place(*whole.error, text);
        return;
    }
    const Joined<V> rows(whole.parts);
    require(rows == Joined<V>(pieces.parts), "the same rows for any pieces");
    require(whole.facts.lines == pieces.facts.lines && whole.facts.unlabelled == pieces.facts.unlabelled &&
                whole.facts.based == pieces.facts.based,
            "the same facts for any pieces");
    require(of_whole.count().used == of_pieces.count().used && of_whole.count().shared == of_pieces.count().shared,
            "the same collisions for any pieces");
    for (const std::int64_t index : rows.indices)
        require(index >= 0 && index < std::int64_t{1} << options.bits, "indices are in range");
    for (const V value : rows.values) require(std::isfinite(value), "values are finite");
    for (const double weight : rows.weight) require(std::isfinite(weight) && weight >= 0, "weights are weights");

    std::size_t row = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        begin = end + 1;
        if (line.find('|') == std::string_view::npos) continue;
        const VowpalText<V> alone = read_vowpal<V>(line, options, nullptr, 1, std::size_t{1} << 20);
        require(!alone.error, "a line that is right is right alone");
        const Joined<V> one(alone.parts);
        require(one.y.size() == 1 && one.lengths[0] == rows.lengths[row], "a line with a bar is a row");
        require(std::memcmp(&one.y[0], &rows.y[row], sizeof(double)) == 0, "its label is the same alone");
        ++row;
    }
    require(row == rows.y.size(), "a row is a line with a bar");
}

}  // namespace
}  // namespace symsgd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace symsgd;
    using Pairs = std::vector<std::string>;
    static const Crosses crosses[] = {Crosses(), Crosses(Pairs{"ab"}), Crosses(Pairs{"ba"}),
                                      Crosses(Pairs{"ba", "::"})};
    if (size > 4096) return 0;  // crosses grow with the square of it
    const fuzz::Input input(data, size);
    const VowpalOptions options{input.bit(3) ? 4 : 10, crosses[input.bit(0) + 2 * input.bit(1)], input.bit(4)};
    const int threads = input.bit(2) ? 2 : 1;
    if (input.bit(5))
        fuzz::check<double>(input.text(), options, threads);
    else
        fuzz::check<float>(input.text(), options, threads);
    return 0;
}
