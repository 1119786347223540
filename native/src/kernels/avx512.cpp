#include "learn-inl.hpp"

namespace symsgd {

extern const Kernels kernels_avx512;
constinit const Kernels kernels_avx512 = all_kernels("avx512");

}  // namespace symsgd
