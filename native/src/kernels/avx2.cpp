#include "learn-inl.hpp"

namespace symsgd {

extern const Kernels kernels_avx2;
constinit const Kernels kernels_avx2 = all_kernels("avx2");

}  // namespace symsgd
