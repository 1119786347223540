#include "symsgd/twins/text.hpp"

#include <array>
#include <bit>

namespace symsgd {

std::size_t WordTable::size(const std::uint32_t* frequencies, std::size_t n_words) {
    std::size_t size = 0;
    for (std::size_t word = 0; word < n_words; ++word)
        for (int level = 0; level < levels; ++level) size += copies(frequencies[word], level);
    return size;
}

WordTable::WordTable(const std::uint32_t* frequencies, std::size_t n_words, std::uint32_t* words) {
    std::uint32_t drawn_by = 0;  // u below this
    for (int level = 0; level < levels; ++level) {
        list_[level] = words;
        begin_[level] = drawn_by;
        for (std::size_t word = 0; word < n_words; ++word)
            words = std::fill_n(words, copies(frequencies[word], level), static_cast<std::uint32_t>(word));
        drawn_by += static_cast<std::uint32_t>(words - list_[level]) << shift[level];
    }
}

namespace {

constexpr std::size_t word_bits = 64;

std::size_t words_for(std::size_t bits) {
    return (bits + word_bits - 1) / word_bits;
}

// How often each word came up in a document. Words that did are found in their order through two levels of bits, the
// upper one a bit for every 64 of the lower.
class Tally {
public:
    explicit Tally(std::size_t n_words)
        : counts_(n_words), present_(words_for(n_words)), groups_(words_for(present_.size())) {}

    void prepare(std::size_t word) const { prefetch(&counts_[word]); }

    void add(std::size_t word) {
        ++counts_[word];
        const std::size_t group = word / word_bits;
        present_[group] |= std::uint64_t{1} << (word % word_bits);
        groups_[group / word_bits] |= std::uint64_t{1} << (group % word_bits);
    }

    // Calls visit(word, count) in order, and forgets all.
    template <class Visit>
    void take(Visit&& visit) {
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            for (std::uint64_t groups = groups_[g]; groups != 0; groups &= groups - 1) {
                const std::size_t group = g * word_bits + static_cast<std::size_t>(std::countr_zero(groups));
                std::uint64_t words = present_[group];
                do {
                    const std::size_t word = group * word_bits + static_cast<std::size_t>(std::countr_zero(words));
                    visit(word, counts_[word]);
                    counts_[word] = 0;
                    words &= words - 1;
                } while (words != 0);
                present_[group] = 0;
            }
            groups_[g] = 0;
        }
    }

private:
    Array<std::uint32_t> counts_;
    std::vector<std::uint64_t> present_;
    std::vector<std::uint64_t> groups_;
};

// 1 + log n, from a table for the counts that are common.
class DampedCounts {
public:
    DampedCounts() {
        for (std::size_t n = 1; n < table_.size(); ++n) table_[n] = 1 + std::log(static_cast<float>(n));
    }
    float operator[](std::uint32_t n) const {
        return n < table_.size() ? table_[n] : 1 + std::log(static_cast<float>(n));
    }

private:
    std::array<float, 64> table_{};
};

// The first that is drawn of a document.
std::int64_t draw_length(const TextLaw& law, Random& random) {
    const double spread = law.tokens_spread;
    const double drawn = law.mean_tokens * std::exp(spread * random.normal() - spread * spread / 2);
    return static_cast<std::int64_t>(std::max(std::nearbyint(drawn), law.min_tokens));
}

class Documents {
public:
    explicit Documents(const TextPopulation& population)
        : population_(population),
          law_(population.law),
          tally_(population.words.size()),
          tables_(static_cast<std::size_t>(population.law.topics_per_row) + 1, population.tables.data()),
          cuts_(tables_.size() - 1),
          shares_(cuts_.size()),
          counts_(tables_.size()) {}

    void draw(Random random, std::int64_t i, std::int64_t n, SparseRows& rows, RowScores& scores) {
        const std::int64_t tokens = draw_length(law_, random);
        const double hidden = mix(random);
        words_.resize(std::max(words_.size(), static_cast<std::size_t>(tokens)));
        values_.resize(words_.size());
        share_out(tokens, random);
        for (std::size_t t = 0; t < tables_.size(); ++t) look_up(*tables_[t], counts_[t], random);
        count_waiting();
        scores.set(n, hidden, write(i, rows), random.logistic());
    }

private:
    static constexpr std::size_t batch = 256;

    // Draws the topics of a document and their shares; returns its hidden score.
    double mix(Random& random) {
        double sum = 0.0, score = 0.0, share = law_.background;
        for (double& gamma : shares_) sum += gamma = random.gamma(law_.concentration);
        for (std::size_t j = 0; j < shares_.size(); ++j) {
            const double u = random.uniform();
            const auto topic = static_cast<std::size_t>(
                std::lower_bound(population_.popularity.begin(), population_.popularity.end() - 1, u) -
                population_.popularity.begin());
            tables_[j + 1] = &population_.tables[topic + 1];
            cuts_[j] = static_cast<std::int32_t>(std::min(share, 1.0) * (0x1p32 - 1) - 0x1p31);
            share += (1 - law_.background) * shares_[j] / sum;
            score += population_.affinity[topic] * shares_[j] / sum;
        }
        return score;
    }

    // Draws how many of the tokens each table gives: every token draws its table, but none is remembered.
    void share_out(std::int64_t tokens, Random& random) {
        std::fill(counts_.begin(), counts_.end(), 0);
        counts_[0] = tokens;
        Random own = random;  // stays in registers
        constexpr std::int64_t at_once = 128;
        std::array<std::int32_t, at_once> drawn;
        for (std::int64_t left = tokens; left > 0; left -= at_once) {
            for (std::size_t i = 0; i < drawn.size(); i += 2) {
                const std::uint64_t bits = own.bits();
                drawn[i] = static_cast<std::int32_t>(bits);
                drawn[i + 1] = static_cast<std::int32_t>(bits >> 32);
            }
            const auto some = static_cast<std::size_t>(std::min(left, at_once));
            for (std::size_t j = 0; j < cuts_.size(); ++j) {
                std::int32_t above = 0;
                for (std::size_t i = 0; i < some; ++i) above += drawn[i] >= cuts_[j];
                counts_[j] -= above;
                counts_[j + 1] += above;
            }
        }
        random = own;
    }

    // Draws words of a table, each from half of the bits: biased by 2⁻³² of the table at most. The tables and the tally
    // are megabytes, read and written anywhere: each place is asked for well before it is waited for.
    void look_up(const WordTable& table, std::int64_t count, Random& random) {
        Random own = random;
        const std::uint64_t total = population_.table_total;
        const auto ask = [&](std::uint64_t half) {
            prefetch(places_[waiting_++] = table.find(static_cast<std::uint32_t>((half * total) >> 32)));
        };
        for (std::int64_t i = 0; i < count; i += 2) {
            const std::uint64_t bits = own.bits();
            ask(bits >> 32);
            if (i + 1 < count) ask(bits & 0xffffffffU);
            if (waiting_ + 2 > places_.size()) count_waiting();
        }
        random = own;
    }

    void count_waiting() {
        std::array<std::uint32_t, batch> words;
        for (std::size_t i = 0; i < waiting_; ++i) tally_.prepare(words[i] = *places_[i]);
        for (std::size_t i = 0; i < waiting_; ++i) tally_.add(words[i]);
        waiting_ = 0;
    }

    // Writes the words of the tally as the next row; returns x·v.
    double write(std::int64_t i, SparseRows& rows) {
        std::int32_t* const word = words_.data();
        float* const x = values_.data();
        std::size_t length = 0;
        tally_.take([&](std::size_t number, std::uint32_t count) {
            word[length] = static_cast<std::int32_t>(number);
            x[length++] = population_.tf_idf ? damped_[count] : static_cast<float>(count);
        });
        std::size_t frequent = 0;
        double squares = 0.0, product = 0.0;
        const WordFacts* const all = population_.words.data();
        for (std::size_t k = 0; k < length; ++k) {
            constexpr std::size_t ahead = 16;
            if (k + ahead < length) prefetch(&all[word[k + ahead]]);
            const WordFacts& facts = all[word[k]];
            frequent += static_cast<std::size_t>(word[k]) < population_.n_frequent;
            word[k] = facts.feature;
            x[k] *= facts.weight;
            squares += static_cast<double>(x[k]) * x[k];
            product += static_cast<double>(x[k]) * facts.planted;
        }
        // Both the frequent words and the others are in order; the others are few.
        std::int32_t* index = rows.next_indices();
        float* value = rows.next_values();
        std::size_t first = 0;
        for (std::size_t second = frequent; second < length; ++second) {
            for (; first < frequent && word[first] < word[second]; ++first) {
                *index++ = word[first];
                *value++ = x[first];
            }
            *index++ = word[second];
            *value++ = x[second];
        }
        std::copy(word + first, word + frequent, index);
        std::copy(x + first, x + frequent, value);
        rows.end_row(i, length, squares);
        return product / std::sqrt(squares);
    }

    const TextPopulation& population_;
    const TextLaw& law_;
    const DampedCounts damped_;
    Tally tally_;
    std::vector<const WordTable*> tables_;  // of this document: the background, then its topics
    std::vector<std::int32_t> cuts_;        // between the tables' shares of the tokens, of all integers
    std::vector<double> shares_;
    std::vector<std::int64_t> counts_;  // of the tokens from each table
    std::array<const std::uint32_t*, batch> places_;
    std::size_t waiting_ = 0;          // places
    std::vector<std::int32_t> words_;  // of a document, later their features
    std::vector<float> values_;
};

}  // namespace

TwinRows draw_text(const TextPopulation& population, const RowSpan& span, int threads) {
    const auto most_entries = [&](std::int64_t from, std::int64_t to) {
        return static_cast<std::size_t>(count_tokens(population, {span.key, span.first + from, to - from}));
    };
    return draw_in_pieces(span.count, threads, most_entries, [&] {
        return [&, documents = Documents(population)](std::int64_t i, std::int64_t n, SparseRows& rows,
                                                      RowScores& scores) mutable {
            documents.draw(span.random(n), i, n, rows, scores);
        };
    });
}

std::int64_t count_tokens(const TextPopulation& population, const RowSpan& span) {
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < span.count; ++i) {
        Random random = span.random(i);
        tokens += draw_length(population.law, random);
    }
    return tokens;
}

}  // namespace symsgd
