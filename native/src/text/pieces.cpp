#include "symsgd/text/pieces.hpp"

namespace symsgd {

std::string quoted(const char* p) {
    constexpr std::size_t longest = 40;
    constexpr char hex[] = "0123456789abcdef";
    std::string word = "'";
    for (; *p != '\n' && !is_blank(*p); ++p) {
        if (word.size() > longest) return word + "…'";
        const auto byte = static_cast<unsigned char>(*p);
        if (byte >= 0x20 && byte < 0x7f && byte != '\\' && byte != '\'') {
            word += *p;
        } else {
            word += "\\x";
            word += hex[byte >> 4];
            word += hex[byte & 15];
        }
    }
    return word + "'";
}

}  // namespace symsgd
