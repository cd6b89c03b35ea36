// Grapheme clusters (UAX #29): what a reader takes for one character, such as a letter with its accents.
#pragma once

#include <string_view>

namespace genesis::text {

// Returns the number of bytes of the first cluster of a text, which must be UTF-8 and not empty.
size_t first_cluster(std::string_view text);

}  // namespace genesis::text
