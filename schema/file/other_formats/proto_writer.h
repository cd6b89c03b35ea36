// Makes the wire format of protobuf, which proto_reader.h reads: each function returns the bytes of one field, and a message is its
// fields one after the other. https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace genesis {

inline std::string proto_varint(uint64_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7) bytes += static_cast<char>(number % 128 + 128);
  return bytes + static_cast<char>(number);
}

inline std::string proto_integer(uint32_t field, int64_t value) {
  return proto_varint(field << 3) + proto_varint(static_cast<uint64_t>(value));
}

// Returns what stands before the `size` bytes of a text, of bytes or of a message.
inline std::string proto_piece_head(uint32_t field, uint64_t size) {
  return proto_varint(field << 3 | 2) + proto_varint(size);
}

inline std::string proto_piece(uint32_t field, std::string_view bytes) {
  return proto_piece_head(field, bytes.size()) + std::string(bytes);
}

inline std::string proto_float(uint32_t field, float value) {
  std::string bytes = proto_varint(field << 3 | 5);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 255);
  return bytes;
}

}  // namespace genesis
