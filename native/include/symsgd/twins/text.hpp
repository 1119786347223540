// Twins of text: documents as mixtures of topics (symsgd/data/twins/text.py has the model).
//
// Words, those that can occur, are numbered twice over in the order of their features: the frequent ones, then the
// rest. So what is read and written for most of them is together.
#pragma once

#include <cstdint>
#include <vector>

#include "symsgd/memory.hpp"
#include "symsgd/twins/rows.hpp"

namespace symsgd {

struct TextLaw {
    int topics_per_row;
    double concentration;
    double background;  // the share of the words that come from no topic
    double mean_tokens;
    double tokens_spread;  // of the logarithm
    double min_tokens;
};

struct WordFacts {
    std::int32_t feature;
    float weight;  // of what its count makes of it: its idf, or 1
    float planted;
};

// Draws words as often as their frequencies ask, which are out of `total`. A list of `total` words, each as often as
// its frequency, would need one look-up a draw, but no cache would hold it. So the frequencies are split into their
// digits: most draws fall into the short lists that count words by the 256 or by the 16.
class WordTable {
public:
    static std::size_t size(const std::uint32_t* frequencies, std::size_t n_words);
    // Writes as many words as `size` says.
    WordTable(const std::uint32_t* frequencies, std::size_t n_words, std::uint32_t* words);

    // Where the word is that u draws, which is uniform below the total.
    const std::uint32_t* find(std::uint32_t u) const {
        const int level = (u >= begin_[1]) + (u >= begin_[2]);
        return list_[level] + ((u - begin_[level]) >> shift[level]);
    }

private:
    static constexpr int levels = 3;
    static constexpr int shift[levels] = {8, 4, 0};

    static std::uint32_t copies(std::uint32_t frequency, int level) {
        return level == 0 ? frequency >> shift[0] : (frequency >> shift[level]) % 16;
    }

    const std::uint32_t* list_[levels];
    std::uint32_t begin_[levels];
};

struct TextPopulation {
    TextPopulation() = default;
    TextPopulation(TextPopulation&&) = default;
    TextPopulation(const TextPopulation&) = delete;  // it is large

    TextLaw law{};
    Array<std::uint32_t> lists;     // of the tables: together, so that they are on huge pages
    std::vector<WordTable> tables;  // the background's, then those of the topics
    std::uint32_t table_total = 0;
    std::vector<double> popularity;  // of the topics, summed up: the last is 1
    std::vector<double> affinity;    // of the topics: what they add to the hidden score
    Array<WordFacts> words;
    std::size_t n_frequent = 0;  // words
    bool tf_idf = false;         // counts n are 1 + log n to the weights, else n
};

TwinRows draw_text(const TextPopulation& population, const RowSpan& span, int threads);

// How many words the documents have, each counted as often as it comes up.
std::int64_t count_tokens(const TextPopulation& population, const RowSpan& span);

}  // namespace symsgd
