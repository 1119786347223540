#pragma once

#include <nanobind/nanobind.h>

void bind_mapping(nanobind::module_& m);
