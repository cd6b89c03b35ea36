// Weights in blocks of 32 along their last axis, each block with 16 bits for its scale; a value is its quant times the scale.
//
//   q8  A quant is an i8 in [-127, 127]; the scale is the block's greatest magnitude / 127, rounded to f16.
//   q4  A quant is in [-8, 7] and stored as quant + 8 in four bits: byte i of a block's 16 holds value i in its lower
//       bits and value i + 16 in the upper. The scale is the one of ten candidates with the least squared error.
//   q4m  A value is scale * (quant - zero). Quants are in [0, 15], in the places of q4. The block's 16 bits, an i16, hold the
//       scale in their upper nine bits, five of an exponent and four of a mantissa: an f16 without its sign and its last six
//       bits, in units of 2^-8. Their lower seven bits hold `zero` in eighths. So the range of a block need not be symmetric.
//
// The order of the four bits is that of GGUF's Q4_0. The state formats (schema/encoding/quantized_formats.h) and the kernels of
// every device read this layout.
#pragma once

#include <cstdint>

#include "schema/core/attributes.h"
#include "schema/core/dtype.h"
#include "schema/core/philox.h"

namespace genesis {

// Says how the weights of a matrix product are stored.
enum class WeightFormat : uint8_t { kPlain, kQ8, kQ4, kQ4m };
template <>
struct EnumNames<WeightFormat> {
  static constexpr std::string_view names[] = {"plain", "q8", "q4", "q4m"};
};

inline constexpr int64_t kQuantBlock = 32;  // values per scale
inline constexpr int kQ4Zero = 8;           // the stored four bits that mean 0

// Returns whether two quants share a byte.
GENESIS_HOST_DEVICE constexpr bool has_four_bits(WeightFormat format) {
  return format == WeightFormat::kQ4 || format == WeightFormat::kQ4m;
}

// Return the bytes of a block's quants, and the values per stored element: one per i8, two per u8 of four bits each.
constexpr int64_t quant_block_bytes(WeightFormat format) { return has_four_bits(format) ? 16 : 32; }
constexpr int64_t values_each_quant(WeightFormat format) { return has_four_bits(format) ? 2 : 1; }

// Return the dtypes of the two parts.
constexpr DType quants_dtype(WeightFormat format) { return has_four_bits(format) ? DType::u8 : DType::i8; }
constexpr DType scales_dtype(WeightFormat format) {
  return format == WeightFormat::kQ4m ? DType::i16 : DType::f16;
}

// Returns the four bits of value i of a block of q4 or q4m.
GENESIS_HOST_DEVICE inline int four_bits(const uint8_t* block, int i) {
  return i < 16 ? block[i] & 15 : block[i - 16] >> 4;
}
// Returns quant i of a q4 block.
GENESIS_HOST_DEVICE inline int q4_quant(const uint8_t* block, int i) { return four_bits(block, i) - kQ4Zero; }

// The 16 bits of a q4m block: the bits of an f16 whose product with kQ4mScaleUnit is the scale, and the number of units of zero.
inline constexpr float kQ4mScaleUnit = 0.00390625f, kQ4mZeroUnit = 0.125f;
inline constexpr int kQ4mMostZero = 127;
GENESIS_HOST_DEVICE constexpr uint16_t q4m_scale_bits(uint16_t word) {
  return static_cast<uint16_t>(word >> 1 & 0x7fc0);
}
GENESIS_HOST_DEVICE constexpr int q4m_zero_units(uint16_t word) { return word & kQ4mMostZero; }

}  // namespace genesis
