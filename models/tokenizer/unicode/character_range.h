// Row types of the tables in newer_tables.h and filter_tables.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace genesis::text {

struct CharacterRange {
  uint32_t first = 0, last = 0;
};

// `code` replaces each of the characters first to last. All versions of the libraries give it the class that `tokenizers` gives
// those characters, and it has the same number of bytes in UTF-8.
struct StandIn {
  uint32_t first = 0, last = 0, code = 0;
};

// Returns the row that contains `code`, or null. `rows` are sorted.
template <class Row>
const Row* find_row(std::span<const Row> rows, uint32_t code) {
  const auto row = std::ranges::lower_bound(rows, code, {}, &Row::last);
  return row != rows.end() && row->first <= code ? &*row : nullptr;
}

}  // namespace genesis::text
