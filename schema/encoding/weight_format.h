// Weights in blocks of 32 along their last axis, each block with one scale in f16; a value is its quant times the scale.
//
//   q8  A quant is an i8 in [-127, 127]; the scale is the block's greatest magnitude / 127, rounded to f16.
//   q4  A quant is in [-8, 7] and stored as quant + 8 in four bits: byte i of a block's 16 holds value i in its lower
//       bits and value i + 16 in the upper. The scale is the one of ten candidates with the least squared error.
//
// The order of the four bits is that of GGUF's Q4_0. The state formats (schema/encoding/quantized_formats.h) and the kernels of
// every device read this layout.
#pragma once

#include <cstdint>

#include "schema/core/attributes.h"
#include "schema/core/philox.h"

namespace genesis {

// Says how the weights of a matrix product are stored.
enum class WeightFormat : uint8_t { kPlain, kQ8, kQ4 };
template <>
struct EnumNames<WeightFormat> {
  static constexpr std::string_view names[] = {"plain", "q8", "q4"};
};

inline constexpr int64_t kQuantBlock = 32;  // values per scale
inline constexpr int kQ4Zero = 8;           // the stored four bits that mean 0

// Return the bytes of a block's quants, and the values per stored element: one per i8, two per u8 for q4.
constexpr int64_t quant_block_bytes(WeightFormat format) { return format == WeightFormat::kQ4 ? 16 : 32; }
constexpr int64_t values_each_quant(WeightFormat format) { return format == WeightFormat::kQ4 ? 2 : 1; }

// Returns quant i of a q4 block.
GENESIS_HOST_DEVICE inline int q4_quant(const uint8_t* block, int i) {
  return (i < 16 ? block[i] & 15 : block[i - 16] >> 4) - kQ4Zero;
}

}  // namespace genesis
