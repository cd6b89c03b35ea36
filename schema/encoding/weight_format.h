// Weights in blocks of 32 along their last axis, each with one scale in f16; a value is its quant times the scale.
//
//   q8  a quant is an i8 in [-127, 127]; the scale is the block's greatest magnitude / 127, as near as f16 has it.
//   q4  a quant is in [-8, 7] and kept as quant + 8 in four bits: byte i of a block's 16 holds value i in its lower
//       bits and value i + 16 in the upper. Of ten scales the one with the least squared error is taken.
//
// The order of the four bits is that of GGUF's Q4_0. Read by the state formats (schema/encoding/quantized_formats.h) and by
// kernels of every device.
#pragma once

#include <cstdint>

#include "schema/core/attributes.h"
#include "schema/core/philox.h"

namespace genesis {

// How the weights of a product are given.
enum class WeightFormat : uint8_t { kPlain, kQ8, kQ4 };
template <>
struct EnumNames<WeightFormat> {
  static constexpr std::string_view names[] = {"plain", "q8", "q4"};
};

inline constexpr int64_t kQuantBlock = 32;  // values with one scale
inline constexpr int kQ4Zero = 8;           // the four bits of the quant 0

// Bytes that the quants of a block take, and values that an element of them holds: i8 or two of four bits in an u8.
constexpr int64_t quant_block_bytes(WeightFormat format) { return format == WeightFormat::kQ4 ? 16 : 32; }
constexpr int64_t values_each_quant(WeightFormat format) { return format == WeightFormat::kQ4 ? 2 : 1; }

// Quant i of a block of q4.
GENESIS_HOST_DEVICE inline int q4_quant(const uint8_t* block, int i) {
  return (i < 16 ? block[i] & 15 : block[i - 16] >> 4) - kQ4Zero;
}

}  // namespace genesis
