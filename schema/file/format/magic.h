// What a .genesis file begins with. Whether the rest can be read is for format.h to say.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace genesis::file {

// The first byte is not text, so that a transfer that rewrites text files is noticed at once.
inline constexpr std::array<unsigned char, 8> kMagic = {0x89, 'G', 'E', 'N', 'E', 'S', 'I', 'S'};

// `start`: at least the magic's bytes, or all of a shorter file, of which what is left is looked at.
inline bool has_magic(std::span<const std::byte> start) {
  const size_t known = std::min(start.size(), kMagic.size());
  return known > 0 && std::memcmp(start.data(), kMagic.data(), known) == 0;
}

}  // namespace genesis::file
