// Codes of 8 bits for the moments of Adam: the block-wise quantization of Dettmers et al. 2022, "8-bit Optimizers via Block-wise
// Quantization" (arXiv:2110.02861). Each block of kMomentBlock consecutive values has an f32 scale, the largest absolute value
// of the block, and a value is the scale times the magnitude of its code:
//
//   m: a sign and 7 bits; 16 magnitudes an octave from 2^-4 to 1, 4 an octave from 1.5 x 2^-20 to 2^-4, and 0
//   v: 8 bits, no sign;   16 magnitudes an octave from 2^-12 to 1, 4 an octave from 1.25 x 2^-28 to 2^-12
//
// The paper's code has seven decades, of which each has half as many magnitudes as the next larger one; the code here is about
// as precise for normally distributed values, and more precise for values of several decades. Its magnitudes are numbers whose
// last bits are zero, so a shift encodes and decodes, without a table. A v never becomes 0: m would be divided by eps alone. Each
// step of encoding and decoding rounds once, so for the same values hosts and devices agree bit for bit; how an update computes
// these values is up to its kernel. In a block with a scale that is not finite, the codes mean nothing.
#pragma once

#include <bit>
#include <cstdint>

#include "schema/core/philox.h"

namespace genesis {

inline constexpr int64_t kMomentBlock = 256;  // consecutive values that share the scale of their codes

// Bits of the smallest f32 with 16 magnitudes an octave, and its code.
inline constexpr int32_t kFineM = 0x3d800000, kFineV = 0x39800000, kFineCode = 63;
inline constexpr int32_t kSmallestNormal = 0x00800000, kInfinity = 0x7f800000;

GENESIS_HOST_DEVICE inline int32_t bits_of_moment(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_int(x);
#else
  return std::bit_cast<int32_t>(x);
#endif
}
GENESIS_HOST_DEVICE inline float moment_of_bits(int32_t bits) {
#ifdef __CUDA_ARCH__
  return __int_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

// Returns the code of the nearest magnitude, the larger one of two. `bits` are those of a magnitude of at most 1.
GENESIS_HOST_DEVICE inline int32_t magnitude_code(int32_t bits, int32_t fine) {
  const bool is_fine = bits >= fine;
  const int32_t offset =
      is_fine ? (1 << 18) + (kFineCode << 19) - fine : (1 << 20) + (kFineCode << 21) - fine;
  const int32_t code = (bits + offset) >> (is_fine ? 19 : 21);
  return code > 0 ? code : 0;
}
GENESIS_HOST_DEVICE inline float magnitude_of(int32_t code, int32_t fine) {
  const bool is_fine = code >= kFineCode;
  const int32_t offset = is_fine ? fine - (kFineCode << 19) : fine - (kFineCode << 21);
  return moment_of_bits((code << (is_fine ? 19 : 21)) + offset);
}

// Returns the factor that makes values of a block magnitudes. It is 0 if the scale is subnormal or not finite.
GENESIS_HOST_DEVICE inline float inverse_moment_scale(float scale) {
  const int32_t bits = bits_of_moment(scale);
  return bits >= kSmallestNormal && bits < kInfinity ? 1.0f / scale : 0.0f;
}

GENESIS_HOST_DEVICE inline uint8_t encode_m(float m, float inverse_scale) {
  const int32_t bits = bits_of_moment(rounded_product(m, inverse_scale));
  return static_cast<uint8_t>((magnitude_code(bits & 0x7fffffff, kFineM) & 127) |
                              (static_cast<uint32_t>(bits) >> 24 & 128u));
}
GENESIS_HOST_DEVICE inline float decode_m(uint8_t code, float scale) {
  const int32_t magnitude = code & 127;
  const float signed_scale =
      moment_of_bits(bits_of_moment(scale) ^ static_cast<int32_t>((code & 128u) << 24));
  return magnitude == 0 ? 0.0f : rounded_product(magnitude_of(magnitude, kFineM), signed_scale);
}

GENESIS_HOST_DEVICE inline uint8_t encode_v(float v, float inverse_scale) {
  return static_cast<uint8_t>(magnitude_code(bits_of_moment(rounded_product(v, inverse_scale)), kFineV));
}
GENESIS_HOST_DEVICE inline float decode_v(uint8_t code, float scale) {
  return rounded_product(magnitude_of(code, kFineV), scale);
}

}  // namespace genesis
