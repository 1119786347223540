// Populations in, rows and what decides their labels out; symsgd.data.twins draws the populations.
#include "bind_twins.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "symsgd/twins/factors.hpp"
#include "symsgd/twins/onehot.hpp"
#include "symsgd/twins/text.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace symsgd;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::object array_of(Array<T>&& array, std::initializer_list<std::size_t> shape) {
    auto* const kept = new Array<T>(std::move(array));
    const nb::capsule owner(kept, [](void* memory) noexcept { delete static_cast<Array<T>*>(memory); });
    return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

template <class T>
nb::object array_of(Array<T>&& array) {
    const std::size_t size = array.size();
    return array_of(std::move(array), {size});
}

nb::tuple scores_of(RowScores&& scores) {
    return nb::make_tuple(array_of(std::move(scores.hidden)), array_of(std::move(scores.linear)),
                          array_of(std::move(scores.noise)));
}

template <class Numbers>
auto vector_of(const Numbers& array) {
    return std::vector<std::remove_const_t<typename Numbers::Scalar>>(array.data(), array.data() + array.size());
}

template <class Draw>
nb::tuple sparse(Draw&& draw) {
    std::optional<TwinRows> drawn;
    {
        const nb::gil_scoped_release release;
        drawn = draw();
    }
    SparseRows& rows = drawn->rows;
    nb::tuple arrays =
        nb::make_tuple(array_of(std::move(rows.starts)), array_of(std::move(rows.indices), {rows.entries}),
                       array_of(std::move(rows.values), {rows.entries}));
    return nb::make_tuple(arrays, scores_of(std::move(drawn->scores)));
}

void make_text(TextPopulation* self, const Matrix<std::uint32_t>& frequencies, const Vector<double>& popularity,
               const Vector<double>& affinity, const Vector<std::int32_t>& features,
               const std::optional<Vector<float>>& idf, const Vector<float>& planted, std::size_t n_frequent,
               int topics_per_row, double concentration, double background, double mean_tokens, double tokens_spread,
               double min_tokens) {
    const std::size_t n_words = features.size();
    TextPopulation population;
    population.law = {topics_per_row, concentration, background, mean_tokens, tokens_spread, min_tokens};
    std::vector<std::size_t> sizes;
    for (std::size_t table = 0; table < frequencies.shape(0); ++table)
        sizes.push_back(WordTable::size(frequencies.data() + table * n_words, n_words));
    population.lists =
        Array<std::uint32_t>(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), Uninitialised{});
    std::uint32_t* list = population.lists.data();
    for (std::size_t table = 0; table < sizes.size(); list += sizes[table++])
        population.tables.emplace_back(frequencies.data() + table * n_words, n_words, list);
    population.table_total = std::accumulate(frequencies.data(), frequencies.data() + n_words, std::uint32_t{0});
    population.popularity = vector_of(popularity);
    population.affinity = vector_of(affinity);
    population.words = Array<WordFacts>(n_words, Uninitialised{});
    for (std::size_t w = 0; w < n_words; ++w)
        population.words[w] = {features.data()[w], idf ? idf->data()[w] : 1.0F, planted.data()[w]};
    population.n_frequent = n_frequent;
    population.tf_idf = idf.has_value();
    new (self) TextPopulation(std::move(population));
}

using RunTuple = std::tuple<std::string, std::size_t, std::size_t>;
using IntervalArrays = std::tuple<Vector<double>, Vector<std::int32_t>>;

FieldRun::Kind kind_named(const std::string& name) {
    if (name == "flags") return FieldRun::Kind::flags;
    if (name == "numbers") return FieldRun::Kind::numbers;
    if (name == "categories") return FieldRun::Kind::categories;
    if (name == "bag") return FieldRun::Kind::bag;
    throw nb::value_error(("no run of fields is called " + name).c_str());
}

void make_one_hot(OneHotPopulation* self, const std::vector<IntervalArrays>& arrays,
                  const std::vector<std::size_t>& field_intervals, const std::vector<RunTuple>& tuples,
                  const Matrix<double>& loadings, const Vector<double>& noise, const Vector<double>& label) {
    std::vector<Intervals> intervals;
    for (const auto& [cuts, features] : arrays) intervals.emplace_back(cuts.data(), features.data(), features.size());
    std::vector<FieldRun> runs;
    for (const auto& [kind, begin, end] : tuples) runs.push_back({kind_named(kind), begin, end});
    new (self)
        OneHotPopulation{std::move(intervals), field_intervals,
                         std::move(runs),      Loadings<double>(loadings.data(), loadings.shape(0), loadings.shape(1)),
                         vector_of(noise),     vector_of(label)};
}

void plant(OneHotPopulation& population, const Vector<double>& planted) {
    for (Intervals& intervals : population.intervals) intervals.plant(planted.data());
}

nb::tuple draw_factors(const FactorPopulation& population, const RowSpan& span, int threads) {
    if (population.sparse()) return sparse([&] { return population.draw_sparse(span, threads); });
    const auto rows = static_cast<std::size_t>(span.count), width = population.n_features();
    Array<float> values(rows * width, Uninitialised{});
    std::optional<RowScores> scores;
    {
        const nb::gil_scoped_release release;
        scores = population.draw_dense(values.data(), span, threads);
    }
    return nb::make_tuple(array_of(std::move(values), {rows, width}), scores_of(std::move(*scores)));
}

template <class Population, class Draw>
void def_draw(nb::class_<Population>& population, Draw draw, const char* signature) {
    population.def(
        "draw",
        [draw](const Population& self, std::uint64_t key, std::int64_t first, std::int64_t count, int threads) {
            return draw(self, RowSpan{key, first, count}, threads);
        },
        nb::sig(signature), "key"_a, "first"_a, "count"_a, "n_threads"_a);
}

constexpr const char* draw_sparse =
    "def draw(self, key: int, first: int, count: int, n_threads: int) -> "
    "tuple[tuple[NDArray, NDArray, NDArray], tuple[NDArray, NDArray, NDArray]]";
constexpr const char* draw_either =
    "def draw(self, key: int, first: int, count: int, n_threads: int) -> "
    "tuple[tuple[NDArray, NDArray, NDArray] | NDArray, tuple[NDArray, NDArray, NDArray]]";

}  // namespace

void bind_twins(nb::module_& m) {
    auto text = nb::class_<TextPopulation>(m, "TextPopulation");
    text.def("__init__", &make_text, nb::kw_only(), "frequencies"_a, "popularity"_a, "affinity"_a, "features"_a,
             "idf"_a.none(), "planted"_a, "n_frequent"_a, "topics_per_row"_a, "concentration"_a, "background"_a,
             "mean_tokens"_a, "tokens_spread"_a, "min_tokens"_a)
        .def_prop_rw(
            "mean_tokens", [](const TextPopulation& self) { return self.law.mean_tokens; },
            [](TextPopulation& self, double mean_tokens) { self.law.mean_tokens = mean_tokens; })
        .def(
            "tokens",
            [](const TextPopulation& self, std::uint64_t key, std::int64_t first, std::int64_t count) {
                return count_tokens(self, {key, first, count});
            },
            "key"_a, "first"_a, "count"_a);
    def_draw(
        text,
        [](const TextPopulation& self, const RowSpan& span, int threads) {
            return sparse([&] { return draw_text(self, span, threads); });
        },
        draw_sparse);

    auto one_hot = nb::class_<OneHotPopulation>(m, "OneHotPopulation");
    one_hot
        .def("__init__", &make_one_hot, nb::kw_only(), "intervals"_a, "field_intervals"_a, "runs"_a, "loadings"_a,
             "noise"_a, "label"_a)
        .def("plant", &plant, "planted"_a);
    def_draw(
        one_hot,
        [](const OneHotPopulation& self, const RowSpan& span, int threads) {
            return sparse([&] { return draw_one_hot(self, span, threads); });
        },
        draw_sparse);

    auto factors = nb::class_<FactorPopulation>(m, "FactorPopulation");
    factors.def(
        "__init__",
        [](FactorPopulation* self, const Matrix<float>& loadings, double noise, const Vector<float>& planted,
           const std::optional<Vector<float>>& cuts) {
            new (self) FactorPopulation(static_cast<int>(loadings.shape(0)), loadings.shape(1), noise, loadings.data(),
                                        planted.data(), cuts ? cuts->data() : nullptr);
        },
        nb::kw_only(), "loadings"_a, "noise"_a, "planted"_a, "cuts"_a.none());
    def_draw(factors, &draw_factors, draw_either);
}
