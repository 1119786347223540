#include "symsgd/twins/factors.hpp"

namespace symsgd {

FactorPopulation::FactorPopulation(int n_factors, std::size_t n_features, double noise, const float* loadings,
                                   const float* planted, const float* cuts)
    : noise_(static_cast<float>(noise)),
      loadings_(loadings, static_cast<std::size_t>(n_factors), n_features),
      planted_(planted, planted + n_features) {
    if (cuts != nullptr) cuts_.assign(cuts, cuts + n_features);
}

// s_j for all features; `out` has the loadings' padded width.
void FactorPopulation::numbers(Random& random, float* factors, float* out) const {
    Random own = random;  // stays in registers
    for (std::size_t k = 0; k < loadings_.n_factors(); ++k) factors[k] = static_cast<float>(own.normal());
    for (std::size_t j = 0; j < n_features(); ++j) out[j] = noise_ * static_cast<float>(own.normal());
    random = own;
    loadings_.add(factors, out);
}

TwinRows FactorPopulation::draw_sparse(const RowSpan& span, int threads) const {
    const auto most_entries = [&](std::int64_t from, std::int64_t to) {
        return static_cast<std::size_t>(to - from) * n_features();
    };
    return draw_in_pieces(span.count, threads, most_entries, [&] {
        return [&, factors = std::vector<float>(loadings_.n_factors()),
                drawn = std::vector<float>(loadings_.padded_width())](std::int64_t i, std::int64_t n, SparseRows& rows,
                                                                      RowScores& scores) mutable {
            Random random = span.random(n);
            numbers(random, factors.data(), drawn.data());
            std::int32_t* const index = rows.next_indices();
            float* const value = rows.next_values();
            std::size_t length = 0;
            for (std::size_t j = 0; j < n_features(); ++j) {  // without branches: none would be foreseen
                index[length] = static_cast<std::int32_t>(j);
                value[length] = 1 + (drawn[j] - cuts_[j]);
                length += drawn[j] > cuts_[j];
            }
            double squares = 0.0, product = 0.0;
            for (std::size_t k = 0; k < length; ++k) {
                squares += static_cast<double>(value[k]) * value[k];
                product += static_cast<double>(value[k]) * planted_[static_cast<std::size_t>(index[k])];
            }
            rows.end_row(i, length, squares);
            scores.set(n, 0.0, product / std::sqrt(squares), random.logistic());
        };
    });
}

RowScores FactorPopulation::draw_dense(float* values, const RowSpan& span, int threads) const {
    RowScores scores(span.count);
    in_pieces(span.count, piece_rows(span.count, threads), threads, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> factors(loadings_.n_factors()), drawn(loadings_.padded_width());
        for (std::int64_t i = begin; i < end; ++i) {
            Random random = span.random(i);
            numbers(random, factors.data(), drawn.data());
            double squares = 0.0, product = 0.0;
            for (std::size_t j = 0; j < n_features(); ++j) {
                squares += static_cast<double>(drawn[j]) * drawn[j];
                product += static_cast<double>(drawn[j]) * planted_[j];
            }
            const auto scale = static_cast<float>(1 / std::sqrt(squares));
            float* const row = values + static_cast<std::size_t>(i) * n_features();
            for (std::size_t j = 0; j < n_features(); ++j) row[j] = scale * drawn[j];
            scores.set(i, 0.0, product / std::sqrt(squares), random.logistic());
        }
    });
    return scores;
}

}  // namespace symsgd
