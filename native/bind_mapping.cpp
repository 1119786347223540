// Mapped extents of a file as one NumPy array.
#include "bind_mapping.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "symsgd/mapping.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace symsgd;

namespace {

using Bytes = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

std::unique_ptr<Mapping> map_or_raise(int file, const std::vector<Extent>& extents) {
    try {
        return std::make_unique<Mapping>(file, extents);
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
}

// The array keeps the mapping alive, and so do views of it.
Bytes map_extents(int file, const std::vector<std::pair<std::int64_t, std::int64_t>>& pieces) {
    std::vector<Extent> extents;
    for (const auto& [offset, length] : pieces) extents.push_back({offset, length});
    std::unique_ptr<Mapping> mapping = map_or_raise(file, extents);
    const auto* data = reinterpret_cast<const std::uint8_t*>(mapping->data());
    const std::size_t size = mapping->size();
    const nb::capsule owner(mapping.release(), [](void* owned) noexcept { delete static_cast<Mapping*>(owned); });
    return Bytes(data, {size}, owner);
}

void advise_mapped(const AnyArray& array, bool wanted) {
    const nb::gil_scoped_release release;
    advise(static_cast<const std::byte*>(array.data()), array.nbytes(), wanted);
}

}  // namespace

void bind_mapping(nb::module_& m) {
    m.def("map_extents", &map_extents, "file"_a, "extents"_a);
    m.def("advise", &advise_mapped, "array"_a, "wanted"_a);
}
