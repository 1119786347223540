#pragma once

#include <nanobind/nanobind.h>

// The readers of text: bytes in, arrays out.
void bind_text(nanobind::module_& m);
