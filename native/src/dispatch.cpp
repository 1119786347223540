// Chooses the kernels once per process.
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "symsgd/learn.hpp"

namespace symsgd {

extern const Kernels kernels_baseline;
#if defined(SYMSGD_X86)
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

namespace {

// The sets this machine can run, widest last.
std::vector<const Kernels*> available() {
    std::vector<const Kernels*> sets{&kernels_baseline};
#if defined(SYMSGD_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
        sets.push_back(&kernels_avx2);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
            sets.push_back(&kernels_avx512);
    }
#endif
    return sets;
}

const Kernels& choose() {
    const std::vector<const Kernels*> sets = available();
    const char* asked = std::getenv("SYMSGD_ISA");
    if (asked == nullptr || *asked == '\0') return *sets.back();
    std::string names;
    for (const Kernels* set : sets) {
        if (std::string(asked) == set->name) return *set;
        names += names.empty() ? set->name : std::string(", ") + set->name;
    }
    throw std::invalid_argument(std::string("SYMSGD_ISA=") + asked + " is not available here; this machine has " +
                                names);
}

}  // namespace

const Kernels& kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace symsgd
