// The svmlight reader, in any pieces, against a reader that splits words and calls strtod.
#include "symsgd/text/svmlight.hpp"

#include <cmath>

#include "common.hpp"

namespace symsgd::fuzz {
namespace {

bool all_digits(std::string_view word) {
    return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_decimal(std::string_view word) {
    if (!word.empty() && (word[0] == '+' || word[0] == '-')) word.remove_prefix(1);
    const std::size_t e = word.find_first_of("eE");
    if (e != std::string_view::npos) {
        std::string_view power = word.substr(e + 1);
        if (!power.empty() && (power[0] == '+' || power[0] == '-')) power.remove_prefix(1);
        if (!all_digits(power)) return false;
        word = word.substr(0, e);
    }
    std::string digits(word);
    if (const std::size_t point = digits.find('.'); point != std::string::npos) digits.erase(point, 1);
    return all_digits(digits);
}

// Reads one line; false if it is wrong.
template <class V>
bool read_plainly(std::string_view line, const SvmlightOptions& options, Joined<V>& rows) {
    line = line.substr(0, line.find('#'));
    std::vector<std::string> words;
    for (std::size_t begin = 0; (begin = line.find_first_not_of(" \t\r\v\f", begin)) != std::string_view::npos;) {
        const std::size_t end = std::min(line.find_first_of(" \t\r\v\f", begin), line.size());
        words.emplace_back(line.substr(begin, end - begin));
        begin = end;
    }
    if (words.empty()) return true;
    if (!is_decimal(words[0])) return false;
    rows.y.push_back(std::strtod(words[0].c_str(), nullptr));
    rows.lengths.push_back(0);
    if (!std::isfinite(rows.y.back())) return false;
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (i == 1 && word[0] == 'q') {
            if (word.substr(0, 4) != "qid:" || !all_digits(word.substr(word.size() > 4 && word[4] == '-' ? 5 : 4)))
                return false;
            continue;
        }
        const std::size_t colon = word.find(':');
        if (colon == std::string::npos || !all_digits(word.substr(0, colon)) || !is_decimal(word.substr(colon + 1)))
            return false;
        const std::string index = word.substr(std::min(word.find_first_not_of('0'), colon - 1));
        const long double number = std::strtold(index.c_str(), nullptr);
        if (number < static_cast<long double>(options.first)) return false;
        const auto value = static_cast<V>(std::strtod(word.c_str() + colon + 1, nullptr));
        if (!std::isfinite(value)) return false;
        if (number > static_cast<long double>(options.last)) {
            if (!options.skip_beyond_last || number >= 0x1p63L) return false;
            continue;
        }
        rows.indices.push_back(std::strtoll(index.c_str(), nullptr, 10) - options.base);
        rows.values.push_back(value);
        ++rows.lengths.back();
    }
    return true;
}

template <class V>
void check(std::string_view text, const SvmlightOptions& options, int threads) {
    const SvmlightText<V> whole = read_svmlight<V>(text, options, 1, std::size_t{1} << 20);
    const SvmlightText<V> pieces = read_svmlight<V>(text, options, threads, 7);
    require_same(whole.error, pieces.error);
    if (whole.error) require_place(*whole.error, text);

    Joined<V> plain({});
    bool fine = true;
    std::int64_t lines = 0;
    for (std::size_t begin = 0; fine && begin < text.size(); ++lines) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        fine = read_plainly(text.substr(begin, end - begin), options, plain);
        begin = end + 1;
    }
    require(fine == !whole.error.has_value(), "what is wrong is refused, what is right is read");
    if (!fine) {
        require(whole.error->place.line == lines, "the error is on the line that is wrong");
        return;
    }
    require(Joined<V>(whole.parts) == Joined<V>(pieces.parts), "the same rows for any pieces");
    require(Joined<V>(whole.parts) == plain, "the rows that strtod reads");
    require(whole.facts.lines == lines && pieces.facts.lines == lines, "as many lines as there are");
    require(whole.facts.greatest == pieces.facts.greatest && whole.facts.widest.column == pieces.facts.widest.column &&
                whole.facts.zero.line == pieces.facts.zero.line &&
                whole.facts.unordered_rows == pieces.facts.unordered_rows &&
                whole.facts.query_ids == pieces.facts.query_ids && whole.facts.beyond_last == pieces.facts.beyond_last,
            "the same facts for any pieces");
}

}  // namespace
}  // namespace symsgd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace symsgd;
    const fuzz::Input input(data, size);
    SvmlightOptions options;
    if (input.bit(0)) options.first = options.base = 1;
    if (input.bit(1)) options.last = 100;
    options.skip_beyond_last = input.bit(2);
    const int threads = input.bit(4) ? 2 : 1;
    if (input.bit(3))
        fuzz::check<double>(input.text(), options, threads);
    else
        fuzz::check<float>(input.text(), options, threads);
    return 0;
}
