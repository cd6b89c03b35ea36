// Row types of the tables in newer_tables.h.
#pragma once

#include <cstdint>

namespace genesis::text {

struct CharacterRange {
  uint32_t first = 0, last = 0;
};

// `code` replaces each of the characters first to last. All versions of the libraries give it the class that `tokenizers` gives
// those characters, and it has the same number of bytes in UTF-8.
struct StandIn {
  uint32_t first = 0, last = 0, code = 0;
};

}  // namespace genesis::text
