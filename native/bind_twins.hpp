#pragma once

#include <nanobind/nanobind.h>

// The populations of twins: their parameters in, rows out.
void bind_twins(nanobind::module_& m);
