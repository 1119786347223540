// Bytes in, arrays out. What is wrong with a text is part of the result; symsgd.data says it with the file's name.
#include "bind_text.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>
#include <utility>
#include <variant>

#include "symsgd/text/svmlight.hpp"
#include "symsgd/text/vowpal.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace symsgd;

namespace {

using Text = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string_view view(const Text& text) {
    return {reinterpret_cast<const char*>(text.data()), text.size()};
}

template <class T>
nb::object array_of(Grown<T>&& column) {
    T* const data = column.data.release();
    const nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data, {column.size}, owner));
}

// (y, weight or None, starts, indices, values) of each part
template <class V>
nb::list arrays_of(std::vector<ParsedRows<V>>&& parts) {
    nb::list arrays;
    for (ParsedRows<V>& part : parts) {
        nb::object weight = part.weight.size > 0 ? array_of(std::move(part.weight)) : nb::none();
        nb::object indices = std::visit([](auto&& column) { return array_of(std::move(column)); }, part.indices);
        arrays.append(nb::make_tuple(array_of(std::move(part.y)), weight, array_of(std::move(part.starts)), indices,
                                     array_of(std::move(part.values))));
    }
    return arrays;
}

nb::object error_of(std::optional<TextError>&& error) {
    return error ? nb::cast(std::move(*error)) : nb::none();
}

template <class V>
nb::tuple parse_svmlight(const Text& text, const SvmlightOptions& options, int threads, std::size_t piece) {
    SvmlightText<V> whole;
    {
        const nb::gil_scoped_release release;
        whole = read_svmlight<V>(view(text), options, threads, piece);
    }
    return nb::make_tuple(arrays_of(std::move(whole.parts)), whole.facts, error_of(std::move(whole.error)));
}

template <class V>
nb::tuple parse_vowpal(const Text& text, const VowpalOptions& options, Collisions* collisions, int threads,
                       std::size_t piece) {
    VowpalText<V> whole;
    {
        const nb::gil_scoped_release release;
        whole = read_vowpal<V>(view(text), options, collisions, threads, piece);
    }
    return nb::make_tuple(arrays_of(std::move(whole.parts)), whole.facts, error_of(std::move(whole.error)));
}

}  // namespace

void bind_text(nb::module_& m) {
    nb::class_<TextError>(m, "TextError")
        .def_prop_ro("line", [](const TextError& error) { return error.place.line; })
        .def_prop_ro("column", [](const TextError& error) { return error.place.column; })
        .def_ro("reason", &TextError::reason);
    nb::class_<Place>(m, "Place").def_ro("line", &Place::line).def_ro("column", &Place::column);
    nb::class_<SvmlightFacts>(m, "SvmlightFacts")
        .def_ro("lines", &SvmlightFacts::lines)
        .def_ro("query_ids", &SvmlightFacts::query_ids)
        .def_ro("beyond_last", &SvmlightFacts::beyond_last)
        .def_ro("unordered_rows", &SvmlightFacts::unordered_rows)
        .def_ro("zero", &SvmlightFacts::zero)
        .def_ro("widest", &SvmlightFacts::widest)
        .def_ro("greatest", &SvmlightFacts::greatest);
    m.def(
        "parse_svmlight",
        [](const Text& text, bool single, std::int64_t first, std::int64_t last, bool skip_beyond_last,
           std::int64_t base, int n_threads, std::size_t piece_bytes) {
            const SvmlightOptions options{first, last, skip_beyond_last, base};
            return single ? parse_svmlight<float>(text, options, n_threads, piece_bytes)
                          : parse_svmlight<double>(text, options, n_threads, piece_bytes);
        },
        nb::sig(
            "def parse_svmlight(text: bytes | bytearray | memoryview, *, single: bool, first: int, last: int, "
            "skip_beyond_last: bool, base: int, n_threads: int, piece_bytes: int) -> "
            "tuple[list[tuple[NDArray, NDArray | None, NDArray, NDArray, NDArray]], SvmlightFacts, TextError | None]"),
        "text"_a, nb::kw_only(), "single"_a, "first"_a, "last"_a, "skip_beyond_last"_a, "base"_a, "n_threads"_a,
        "piece_bytes"_a);

    nb::class_<Collisions>(m, "Collisions")
        .def(nb::init<int>(), "bits"_a)
        .def("count", [](const Collisions& collisions) {
            const Collisions::Counts counts = collisions.count();
            return std::make_pair(counts.used, counts.shared);
        });
    nb::class_<VowpalFacts>(m, "VowpalFacts")
        .def_ro("lines", &VowpalFacts::lines)
        .def_ro("unlabelled", &VowpalFacts::unlabelled)
        .def_ro("based", &VowpalFacts::based);
    m.def(
        "parse_vowpal",
        [](const Text& text, bool single, int bits, const std::vector<std::string>& quadratic, bool constant,
           Collisions* collisions, int n_threads, std::size_t piece_bytes) {
            const VowpalOptions options{bits, Crosses(quadratic), constant};
            return single ? parse_vowpal<float>(text, options, collisions, n_threads, piece_bytes)
                          : parse_vowpal<double>(text, options, collisions, n_threads, piece_bytes);
        },
        nb::sig(
            "def parse_vowpal(text: bytes | bytearray | memoryview, *, single: bool, bits: int, "
            "quadratic: Sequence[str], constant: bool, collisions: Collisions | None, n_threads: int, "
            "piece_bytes: int) -> "
            "tuple[list[tuple[NDArray, NDArray | None, NDArray, NDArray, NDArray]], VowpalFacts, TextError | None]"),
        "text"_a, nb::kw_only(), "single"_a, "bits"_a, "quadratic"_a, "constant"_a, "collisions"_a.none(),
        "n_threads"_a, "piece_bytes"_a);
}
