// The first bytes of a .genesis file. format.h checks whether the rest can be read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace genesis::file {

// The first byte is not text, so that a transfer that rewrites text files is detected at once.
inline constexpr std::array<unsigned char, 8> kMagic = {0x89, 'G', 'E', 'N', 'E', 'S', 'I', 'S'};

// Returns true if `start` begins with the magic. `start` has at least the magic's bytes, or all bytes of a shorter file; then
// those are compared with the beginning of the magic.
inline bool has_magic(std::span<const std::byte> start) {
  const size_t known = std::min(start.size(), kMagic.size());
  return known > 0 && std::memcmp(start.data(), kMagic.data(), known) == 0;
}

}  // namespace genesis::file
