// A hash for words of few bytes. It is the same in every run and on every little-endian machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace genesis::text {

inline uint64_t mixed(uint64_t x) {
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 32;
}

// Processes 8 bytes at a time.
inline uint64_t hash_of_word(std::string_view word) {
  uint64_t hash = word.size();
  for (; word.size() > 8; word.remove_prefix(8)) {
    uint64_t part;
    std::memcpy(&part, word.data(), 8);
    hash = mixed(hash ^ part);
  }
  uint64_t part = 0;
  std::memcpy(&part, word.data(), word.size());
  return mixed(hash ^ part);
}

}  // namespace genesis::text
