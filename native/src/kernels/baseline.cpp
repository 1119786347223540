#include "learn-inl.hpp"

namespace symsgd {

extern const Kernels kernels_baseline;
constinit const Kernels kernels_baseline = all_kernels("baseline");

}  // namespace symsgd
