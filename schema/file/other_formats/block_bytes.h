// Reads numbers from the bytes of a block of GGUF's tensor types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "schema/core/float16.h"

namespace genesis {

template <class T>
T little_endian(const std::byte* at) {
  T number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}

inline float half_at(const std::byte* at) { return static_cast<float>(little_endian<f16>(at)); }
inline float half_of(uint16_t bits) { return half_at(reinterpret_cast<const std::byte*>(&bits)); }

inline int at(const std::byte* bytes, int i) { return std::to_integer<int>(bytes[i]); }
inline int low_nibble(std::byte b) { return std::to_integer<int>(b) & 15; }
inline int high_nibble(std::byte b) { return std::to_integer<int>(b) >> 4; }
// Returns nibble i of neighbors: the low nibble of a byte comes first.
inline int nibble_of(const std::byte* bytes, int i) {
  return i % 2 == 0 ? low_nibble(bytes[i / 2]) : high_nibble(bytes[i / 2]);
}

// Returns element i of 32 elements with four bits each in 16 bytes: the first 16 elements are the low nibbles, the others the
// high nibbles.
inline int nibble_at(const std::byte* bytes, int i) {
  return i < 16 ? low_nibble(bytes[i]) : high_nibble(bytes[i - 16]);
}

// Returns the two bits of element i of 256. Each 128 elements share 32 bytes: quarter k of these elements has bits 2k and 2k + 1
// of each byte.
inline int two_bits_at(const std::byte* bytes, int i) {
  return at(bytes, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
}

}  // namespace genesis
