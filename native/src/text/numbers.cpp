#include "symsgd/text/numbers.hpp"

#include <locale.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include <charconv>
#include <string>
#include <system_error>

namespace symsgd {
namespace {

// strtod wants a zero behind the number, and would look for the point that the user's language writes.
double by_strtod(const char* begin, const char* end) {
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t{});
    return strtod_l(std::string(begin, end).c_str(), nullptr, plain);
}

}  // namespace

double nearest_double(const char* begin, const char* end) {
#if defined(__cpp_lib_to_chars)  // some standard libraries have it for integers alone
    double value;
    // out of range does not say whether zero or infinity is nearest
    if (std::from_chars(begin, end, value).ec == std::errc{}) return value;
#endif
    return by_strtod(begin, end);
}

}  // namespace symsgd
