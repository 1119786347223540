#include "symsgd/text/vowpal.hpp"

#include <cmath>

#include "symsgd/text/hashing.hpp"
#include "symsgd/text/numbers.hpp"
#include "symsgd/text/pieces.hpp"

namespace symsgd {

Crosses::Crosses(const std::vector<std::string>& pairs) {
    const auto matches = [](char asked, unsigned char name) {
        return static_cast<unsigned char>(asked) == name || (asked == ':' && name >= ' ' && name <= '~');
    };
    for (const std::string& pair : pairs)
        for (unsigned i = 0; i < 256; ++i)
            for (unsigned j = 0; j < 256; ++j)
                if (matches(pair[0], static_cast<unsigned char>(i)) && matches(pair[1], static_cast<unsigned char>(j)))
                    asked_.set(256 * i + j);
}

namespace {

struct Feature {
    std::uint32_t hash;
    std::uint32_t fingerprint;
    double value;
};

template <class V>
struct VowpalBuffer {
    RowBuffer<V> rows;
    std::array<std::vector<Feature>, 256> spaces;  // the features of a row, where they will be crossed
    std::bitset<256> present;
    std::vector<std::string_view> words;
};

template <class V>
struct PieceResult {
    ParsedRows<V> rows;
    VowpalFacts counts;
    Mark error;
    std::string reason;
};

constexpr bool ends_word(char c) {  // a feature, or the number behind it
    return c == ' ' || c == '\t' || c == '|' || c == '\n' || c == '\r';
}

// Reads one piece, which ends with '\n'.
template <class V>
class Reading {
public:
    Reading(const VowpalOptions& options, Collisions* collisions, VowpalBuffer<V>& buffer, std::string_view piece)
        : options_(options),
          collisions_(collisions),
          buffer_(buffer),
          rows_(buffer.rows),
          mask_(static_cast<std::uint32_t>((std::uint64_t{1} << options.bits) - 1)),
          crossing_(!options.crosses.empty()),
          text_end_(piece.data() + piece.size()),
          line_begin_(piece.data()) {
        rows_.clear();
    }

    PieceResult<V> run() {
        while (line_begin_ < text_end_) {
            ++line_;
            const auto rest = static_cast<std::size_t>(text_end_ - line_begin_);
            const auto* const line_end = static_cast<const char*>(std::memchr(line_begin_, '\n', rest));
            end_ = line_end - (line_end > line_begin_ && line_end[-1] == '\r');
            const char* const p = skip_mark(line_begin_);
            if (std::any_of(p, end_, [](char c) { return !is_blank(c); }) && !read_row(p)) return std::move(result_);
            line_begin_ = line_end + 1;
        }
        result_.counts.lines = line_;
        if (!weighted_) rows_.weight.clear();
        result_.rows = ParsedRows<V>(rows_, mask_);
        return std::move(result_);
    }

private:
    // The mark that some editors put before text in UTF-8.
    const char* skip_mark(const char* p) const {
        return end_ - p >= 3 && std::memcmp(p, "\xef\xbb\xbf", 3) == 0 ? p + 3 : p;
    }

    bool read_row(const char* p) {
        const auto* const bar = static_cast<const char*>(std::memchr(p, '|', static_cast<std::size_t>(end_ - p)));
        if (bar == nullptr)
            return fail(p, quoted(p) + " begins a line without '|'; accepted is [LABEL] | FEATURES, as in 1 | a b:2");
        if (!read_label(p, bar)) return false;
        if (crossing_) clear_spaces();
        for (p = bar; p < end_;) {
            p = read_namespace(p + 1);
            if (p == nullptr) return false;
            if (p < end_ && *p == '\r') return fail(p, "a carriage return within a line is not accepted");
        }
        if (crossing_ && !cross(bar)) return false;
        if (options_.constant) push(constant_hash, 1, bar);
        rows_.weight.push_back(weight_);
        rows_.end_row(label_);
        return true;
    }

    // Everything before the bar: a label, an importance and a base, or fewer, and a tag if the last word touches the
    // bar or begins with a quote. What comes before a tab is skipped, as there.
    bool read_label(const char* p, const char* bar) {
        const auto* const tab = static_cast<const char*>(std::memchr(p, '\t', static_cast<std::size_t>(bar - p)));
        split(tab != nullptr ? tab + 1 : p, bar);
        auto& words = buffer_.words;
        if (!words.empty() && (words.back().data() + words.back().size() == bar || words.back().front() == '\''))
            words.pop_back();
        if (words.size() > 3)
            return fail(words[3].data(), quoted(words[3].data()) +
                                             " is one word too many; accepted is [LABEL "
                                             "[IMPORTANCE [BASE]]] ['TAG]|");
        double numbers[3] = {std::numeric_limits<double>::quiet_NaN(), 1, 0};
        constexpr const char* names[] = {"a label", "an importance", "a base"};
        for (std::size_t i = 0; i < words.size(); ++i) {
            const Decimal number = read_decimal(words[i].data(), text_end_);
            if (number.end != words[i].data() + words[i].size() || !std::isfinite(number.value))
                return fail(words[i].data(),
                            quoted(words[i].data()) + " is not " + names[i] + "; accepted is a finite number");
            numbers[i] = number.value;
        }
        if (numbers[1] < 0)
            return fail(words[1].data(), quoted(words[1].data()) + " is not an importance; accepted are numbers >= 0");
        label_ = numbers[0];
        weight_ = numbers[1];
        weighted_ |= words.size() > 1;
        result_.counts.unlabelled += words.empty();
        result_.counts.based += numbers[2] != 0;
        return true;
    }

    void split(const char* p, const char* bar) {
        buffer_.words.clear();
        while (p < bar) {
            const char* const end = std::find(p, bar, ' ');
            if (end > p) buffer_.words.emplace_back(p, static_cast<std::size_t>(end - p));
            p = end + (end < bar);
        }
    }

    // From behind a bar to the next one or the line's end; null after an error.
    const char* read_namespace(const char* p) {
        scale_ = 1;
        anonymous_ = 0;
        if (p == end_ || ends_word(*p)) {
            space_ = ' ';
            space_hash_ = 0;
        } else {
            if (*p == ':') return fail(p, "a namespace is missing before ':'"), nullptr;
            space_ = static_cast<unsigned char>(*p);
            const char* const end = name_end(p);
            space_hash_ = hash_name({p, static_cast<std::size_t>(end - p)}, 0);
            p = end;
            if (p < end_ && *p == ':') {
                const Decimal scale = read_decimal(p + 1, text_end_);
                if (scale.end == p + 1 || !ends_word(*scale.end) || !std::isfinite(scale.value))
                    return fail(p + 1, quoted(p + 1) + " is not a scale; accepted is |NAMESPACE:NUMBER"), nullptr;
                scale_ = scale.value;
                p = scale.end;
            }
        }
        while (p < end_ && (*p == ' ' || *p == '\t')) {
            ++p;
            if (p == end_ || ends_word(*p)) continue;
            p = read_feature(p);
            if (p == nullptr) return nullptr;
        }
        return p;
    }

    const char* name_end(const char* p) const {
        while (p < end_ && *p != ':' && !ends_word(*p)) ++p;
        return p;
    }

    // FEATURE, FEATURE:NUMBER, FEATURE:WORD or :NUMBER
    const char* read_feature(const char* p) {
        const char* const begin = p;
        p = name_end(p);
        const std::string_view name(begin, static_cast<std::size_t>(p - begin));
        if (p == end_ || *p != ':') return named(name, scale_, begin) ? p : nullptr;
        ++p;
        if (p == end_ || ends_word(*p)) return fail(p, "a value is missing after ':'"), nullptr;
        const Decimal number = read_decimal(p, text_end_);
        if (number.end != p && ends_word(*number.end)) {
            if (!std::isfinite(number.value)) return too_large(p), nullptr;
            return named(name, scale_ * number.value, begin) ? number.end : nullptr;
        }
        if (is_numeric(p))
            return fail(p, quoted(p) + " is not a value; accepted is a finite number or a word"), nullptr;
        const char* const end = std::find_if(p, end_, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
        const std::string_view word(p, static_cast<std::size_t>(end - p));
        const std::uint32_t name_hash = hash_name(name, space_hash_);
        Feature feature{hash_name(word, name_hash), 0, 1};  // which the scale does not change, as there
        if (collisions_ != nullptr)
            feature.fingerprint = fingerprint(word, fingerprint(name, name_hash, space_hash_), name_hash);
        return keep(feature, begin) ? end : nullptr;
    }

    // What Vowpal Wabbit takes for a number although it is not written as one: those words would mean another thing
    // there.
    bool is_numeric(const char* p) const {
        p += *p == '-' || *p == '+';
        if (is_digit(*p) || (*p == '.' && is_digit(p[1]))) return true;
        const auto begins = [&](const char* word) {
            return end_ - p >= 3 && (p[0] | 32) == word[0] && (p[1] | 32) == word[1] && (p[2] | 32) == word[2];
        };
        if (begins("inf") || begins("nan")) return true;
        p += *p == '.';
        if ((*p | 32) == 'e') {
            ++p;
            p += *p == '-';
            while (is_digit(*p)) ++p;
        }
        return ends_word(*p);
    }

    bool named(std::string_view name, double value, const char* at) {
        const std::uint32_t hash = name.empty() ? space_hash_ + anonymous_++ : hash_name(name, space_hash_);
        return keep({hash, collisions_ != nullptr ? fingerprint(name, hash, space_hash_) : 0, value}, at);
    }

    bool keep(const Feature& feature, const char* at) {
        if (static_cast<V>(feature.value) == 0) return true;
        if (crossing_) {
            buffer_.spaces[space_].push_back(feature);
            buffer_.present.set(space_);
        }
        if (collisions_ != nullptr) collisions_->note(feature.hash & mask_, feature.fingerprint);
        return push(feature.hash, feature.value, at);
    }

    bool push(std::uint32_t hash, double value, const char* at) {
        const auto rounded = static_cast<V>(value);
        if (!std::isfinite(rounded)) return too_large(at);
        rows_.indices.push_back(hash & mask_);
        rows_.values.push_back(rounded);
        return true;
    }

    void clear_spaces() {
        for (unsigned i = 0; i < 256; ++i)
            if (buffer_.present[i]) buffer_.spaces[i].clear();
        buffer_.present.reset();
    }

    bool cross(const char* at) {
        for (unsigned i = 0; i < 256; ++i) {
            for (unsigned j = i; buffer_.present[i] && j < 256; ++j) {
                if (!buffer_.present[j]) continue;
                const auto way = options_.crosses.way(static_cast<unsigned char>(i), static_cast<unsigned char>(j));
                if (way == Crosses::Way::forward && !cross(buffer_.spaces[i], buffer_.spaces[j], at)) return false;
                if (way == Crosses::Way::backward && !cross(buffer_.spaces[j], buffer_.spaces[i], at)) return false;
            }
        }
        return true;
    }

    // Each feature of one with each of the other; within one namespace each pair once, a feature with itself included.
    bool cross(const std::vector<Feature>& first, const std::vector<Feature>& second, const char* at) {
        for (std::size_t i = 0; i < first.size(); ++i) {
            for (std::size_t j = &first == &second ? i : 0; j < second.size(); ++j) {
                const std::uint32_t hash = hash_cross(first[i].hash & mask_, second[j].hash & mask_);
                const double value = first[i].value * second[j].value;
                if (collisions_ != nullptr)
                    collisions_->note(hash & mask_, fingerprint_cross(first[i].fingerprint, second[j].fingerprint));
                if (!push(hash, value, at)) return false;
            }
        }
        return true;
    }

    bool too_large(const char* p) {
        return fail(p, quoted(p) + " is too large for " + (sizeof(V) == 4 ? "float32" : "float64"));
    }

    bool fail(const char* p, std::string reason) {
        result_.error = {p, line_begin_, line_};
        result_.reason = std::move(reason);
        return false;
    }

    const VowpalOptions& options_;
    Collisions* const collisions_;
    VowpalBuffer<V>& buffer_;
    RowBuffer<V>& rows_;
    const std::uint32_t mask_;
    const bool crossing_;
    const char* const text_end_;
    const char* line_begin_;
    const char* end_ = nullptr;  // of the line, without its end
    std::int64_t line_ = 0;
    double label_ = 0;
    double weight_ = 1;
    bool weighted_ = false;
    unsigned char space_ = 0;
    std::uint32_t space_hash_ = 0;
    std::uint32_t anonymous_ = 0;  // features without a name in the namespace so far
    double scale_ = 1;
    PieceResult<V> result_;
};

}  // namespace

template <class V>
VowpalText<V> read_vowpal(std::string_view text, const VowpalOptions& options, Collisions* collisions, int threads,
                          std::size_t piece) {
    const Pieces pieces(text, piece);
    auto results = read_pieces<VowpalBuffer<V>, PieceResult<V>>(
        pieces, threads, [&](VowpalBuffer<V>& buffer, std::string_view lines) {
            return Reading<V>(options, collisions, buffer, lines).run();
        });
    VowpalText<V> whole;
    for (PieceResult<V>& result : results) {
        if (result.error) {
            whole.error = TextError{result.error.place(whole.facts.lines), std::move(result.reason)};
            break;
        }
        whole.facts.lines += result.counts.lines;
        whole.facts.unlabelled += result.counts.unlabelled;
        whole.facts.based += result.counts.based;
        whole.parts.push_back(std::move(result.rows));
    }
    return whole;
}

template VowpalText<float> read_vowpal(std::string_view, const VowpalOptions&, Collisions*, int, std::size_t);
template VowpalText<double> read_vowpal(std::string_view, const VowpalOptions&, Collisions*, int, std::size_t);

}  // namespace symsgd
