// Rows of the tables in newer_tables.h.
#pragma once

#include <cstdint>

namespace genesis::text {

struct CharacterRange {
  uint32_t first = 0, last = 0;
};

// `code` stands for each of first to last: all libraries give it the class that `tokenizers` gives those, and it has as
// many bytes in UTF-8.
struct StandIn {
  uint32_t first = 0, last = 0, code = 0;
};

}  // namespace genesis::text
