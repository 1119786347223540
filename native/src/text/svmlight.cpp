#include "symsgd/text/svmlight.hpp"

#include <cmath>

#include "symsgd/text/numbers.hpp"
#include "symsgd/text/pieces.hpp"

namespace symsgd {
namespace {

constexpr const char* type_name(float) {
    return "float32";
}
constexpr const char* type_name(double) {
    return "float64";
}

constexpr bool ends_word(char c) {
    return c == ' ' || c == '\n' || c == '#' || is_blank(c);
}

constexpr std::size_t least_bytes = 4;  // of an entry and the blank before the next

template <class V>
struct PieceResult {
    ParsedRows<V> rows;
    SvmlightFacts counts;
    Mark zero;
    Mark widest;
    Mark error;
    std::string reason;
};

// Reads one piece, which ends with '\n'.
template <class V>
class Reading {
public:
    Reading(const SvmlightOptions& options, RowBuffer<V>& rows, std::string_view piece)
        : options_(options), rows_(rows), end_(piece.data() + piece.size()) {
        rows_.clear();
        line_begin_ = piece.data();
    }

    PieceResult<V> run() {
        while (line_begin_ < end_) {
            ++line_;
            const auto rest = static_cast<std::size_t>(end_ - line_begin_);
            const auto* const line_end = static_cast<const char*>(std::memchr(line_begin_, '\n', rest));
            const char* const p = skip_blanks(line_begin_);
            if (*p != '\n' && *p != '#' && !read_row(p, line_end)) return std::move(result_);
            line_begin_ = line_end + 1;
        }
        result_.counts.lines = line_;
        result_.rows = ParsedRows<V>(rows_, result_.counts.greatest);
        return std::move(result_);
    }

private:
    static const char* skip_blanks(const char* p) {
        while (is_blank(*p)) ++p;
        return p;
    }

    // From the label to the end of the line or its comment; false after an error.
    bool read_row(const char* p, const char* line_end) {
        const Decimal label = read_decimal(p, end_);
        if (label.end == p || !ends_word(*label.end)) return bad_label(p, label.end);
        if (!std::isfinite(label.value)) return fail(p, quoted(p) + " is too large for a label");
        p = skip_blanks(label.end);
        if (*p == 'q') {
            p = read_query_id(p);
            if (p == nullptr) return false;
        }
        const auto most = static_cast<std::size_t>(line_end - p) / least_bytes + 1;
        std::int64_t* index_out = rows_.indices.room_for(most);
        V* value_out = rows_.values.room_for(most);
        std::int64_t previous = -1;
        bool ordered = true;
        while (*p != '\n' && *p != '#') {
            const Digits digits = read_digits(p, end_);
            if (*digits.end != ':' || digits.end == p) return bad_entry(p, digits.end);
            if (digits.end - p > detail::most_digits && too_long(p, digits.end)) return bad_index(p);
            const char* const at = digits.end + 1;
            const Decimal number = read_decimal(at, end_);
            if (number.end == at || !ends_word(*number.end)) return bad_value(at, number.end);
            const auto value = static_cast<V>(number.value);
            if (!std::isfinite(value)) return fail(at, quoted(at) + " is too large for " + type_name(V{}));
            const auto index = static_cast<std::int64_t>(digits.value);  // negative where it does not fit
            if (index >= options_.first && index <= options_.last) {
                *index_out++ = index - options_.base;
                *value_out++ = value;
                if (index > result_.counts.greatest) widen(index, p);
                if (index == 0 && !result_.zero) result_.zero = mark(p);
            } else if (!options_.skip_beyond_last || index <= options_.last) {
                return bad_index(p);
            } else {
                ++result_.counts.beyond_last;
            }
            ordered &= index > previous;
            previous = index;
            p = *number.end == ' ' ? number.end + 1 : number.end;
            if (is_blank(*p)) p = skip_blanks(p);
        }
        rows_.indices.end_at(index_out);
        rows_.values.end_at(value_out);
        rows_.end_row(label.value);
        result_.counts.unordered_rows += !ordered;
        return true;
    }

    void widen(std::int64_t index, const char* p) {
        result_.counts.greatest = index;
        result_.widest = mark(p);
    }

    const char* read_query_id(const char* p) {
        const bool named = end_ - p > 4 && std::memcmp(p, "qid:", 4) == 0;
        const char* const at = named ? p + 4 + (p[4] == '-') : p;
        const Digits id = read_digits(at, end_);
        if (id.end == at || !ends_word(*id.end))
            return fail(p, quoted(p) + " is not a query; accepted is qid:INTEGER, as in qid:3"), nullptr;
        ++result_.counts.query_ids;
        return skip_blanks(id.end);
    }

    static bool too_long(const char* begin, const char* end) {
        return detail::significant(begin, end, end - begin) > detail::most_digits;
    }

    bool bad_label(const char* p, const char* end) {
        if (*end == ':') return fail(p, quoted(p) + " stands where the label should be; a row begins with its label");
        if (*end == ',')
            return fail(p, quoted(p) +
                               " are several labels; accepted is one number a row, files of several labels a "
                               "row are not read");
        return fail(p, quoted(p) + " is not a label; accepted is a finite number");
    }

    bool bad_entry(const char* p, const char* end) {
        if (*p == '-' && is_digit(p[1]) && *read_digits(p + 1, end_).end == ':') return bad_index(p);
        if (std::memcmp(p, "qid:", static_cast<std::size_t>(std::min<std::ptrdiff_t>(4, end_ - p))) == 0)
            return fail(p, quoted(p) + " is not accepted here; a query comes right after the label");
        if (end != p && ends_word(*end))
            return fail(p, quoted(p) + " has no value; accepted is INDEX:VALUE, as in 7:0.25");
        return fail(p, quoted(p) + " is not a feature; accepted is INDEX:VALUE, as in 7:0.25");
    }

    bool bad_index(const char* p) {
        std::string accepted = std::to_string(options_.first) + " to " + std::to_string(options_.last);
        return fail(p, "index " + std::string(p, std::find(p, end_, ':')).substr(0, 40) +
                           " is out of range; accepted are " + accepted);
    }

    bool bad_value(const char* p, const char* end) {
        if (ends_word(*p)) return fail(p, "a value is missing after ':'; accepted is INDEX:VALUE, as in 7:0.25");
        if (end != p && *end == ':') return fail(p, quoted(p) + " is not a value: there is a second ':'");
        return fail(p, quoted(p) + " is not a value; accepted is a finite number");
    }

    Mark mark(const char* p) const { return {p, line_begin_, line_}; }

    bool fail(const char* p, std::string reason) {
        result_.error = mark(p);
        result_.reason = std::move(reason);
        return false;
    }

    const SvmlightOptions& options_;
    RowBuffer<V>& rows_;
    const char* const end_;
    const char* line_begin_;
    std::int64_t line_ = 0;
    PieceResult<V> result_;
};

template <class V>
void append(SvmlightText<V>& text, PieceResult<V>&& piece) {
    SvmlightFacts& facts = text.facts;
    if (piece.error) {
        text.error = TextError{piece.error.place(facts.lines), std::move(piece.reason)};
        return;
    }
    if (piece.zero && facts.zero.line == 0) facts.zero = piece.zero.place(facts.lines);
    if (piece.counts.greatest > facts.greatest) {
        facts.greatest = piece.counts.greatest;
        facts.widest = piece.widest.place(facts.lines);
    }
    facts.lines += piece.counts.lines;
    facts.query_ids += piece.counts.query_ids;
    facts.beyond_last += piece.counts.beyond_last;
    facts.unordered_rows += piece.counts.unordered_rows;
    text.parts.push_back(std::move(piece.rows));
}

}  // namespace

template <class V>
SvmlightText<V> read_svmlight(std::string_view text, const SvmlightOptions& options, int threads, std::size_t piece) {
    const Pieces pieces(text, piece);
    auto results = read_pieces<RowBuffer<V>, PieceResult<V>>(
        pieces, threads,
        [&](RowBuffer<V>& rows, std::string_view lines) { return Reading<V>(options, rows, lines).run(); });
    SvmlightText<V> whole;
    for (PieceResult<V>& result : results) {
        append(whole, std::move(result));
        if (whole.error) break;
    }
    return whole;
}

template SvmlightText<float> read_svmlight(std::string_view, const SvmlightOptions&, int, std::size_t);
template SvmlightText<double> read_svmlight(std::string_view, const SvmlightOptions&, int, std::size_t);

}  // namespace symsgd
