// Declares what a language model keeps of the texts that it has read, so that they need not be read again. A state of role kCache
// declares which of its axes are texts and tokens; the declaration travels in the file. The sizes of these two axes are no property
// of the model: with_cache_size() (passes/core/cache_size.h) gives any model a cache of another size. schema/graph/caches.h answers
// questions about a model's caches.
//
// An attention layer declares two states [rows, positions, heads, head_size] of the kinds "keys" and "values". A kind that keeps
// a fixed amount per text, such as a recurrent state or the last inputs of a convolution, has no axis of positions.
#pragma once

#include <cstdint>
#include <string>

namespace genesis {

struct CacheLayout {
  std::string kind;         // "keys", "values"; readers treat an unknown kind by its axes
  int rows_axis = 0;        // the axis of texts
  int positions_axis = -1;  // the axis of tokens; -1: the state has the same size for every length of a text
  bool operator==(const CacheLayout&) const = default;
};

// The number of texts that a cache holds, and of tokens of each.
struct CacheSize {
  int64_t rows = 1, positions = 0;
  bool operator==(const CacheSize&) const = default;
};

}  // namespace genesis
