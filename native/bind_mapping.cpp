// Mapped extents of a file as an object with the buffer protocol: NumPy's arrays look into it, and keep it alive.
#include "bind_mapping.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "symsgd/mapping.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace symsgd;

namespace {

void make_mapping(Mapping* self, int file, const std::vector<std::pair<std::int64_t, std::int64_t>>& pieces) {
    std::vector<Extent> extents;
    for (const auto& [offset, length] : pieces) extents.push_back({offset, length});
    try {
        new (self) Mapping(file, extents);
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const auto* mapping = nb::inst_ptr<Mapping>(self);
    auto* data = const_cast<std::byte*>(mapping->data());  // of a read-only buffer
    return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(mapping->size()), 1, flags);
}

// [begin, end) in bytes.
void advise_between(const Mapping& mapping, std::size_t begin, std::size_t end, bool wanted) {
    const nb::gil_scoped_release release;
    end = std::min(end, mapping.size());
    if (begin < end) advise(mapping.data() + begin, end - begin, wanted);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_mapping(nb::module_& m) {
    nb::class_<Mapping>(m, "Mapping", nb::type_slots(slots))
        .def("__init__", &make_mapping, "file"_a, "extents"_a)
        .def("advise", &advise_between, "begin"_a, "end"_a, "wanted"_a);
}
