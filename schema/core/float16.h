// The two 16-bit floating-point types as storage: bf16 (8 exponent bits) and f16 (IEEE binary16). Conversions round to nearest
// even and keep infinities and NaN; arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

namespace genesis {

struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  explicit constexpr bf16(float x) : bits(round(std::bit_cast<uint32_t>(x))) {}
  constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

 private:
  static constexpr uint16_t round(uint32_t u) {
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40);  // a NaN stays a NaN
    return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
};

struct f16 {
  uint16_t bits = 0;

  f16() = default;
  explicit constexpr f16(float x) : bits(from_float(x)) {}
  constexpr operator float() const { return to_float(bits); }

 private:
  static constexpr uint16_t from_float(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    const uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
    if (magnitude < 0x33000001u) return static_cast<uint16_t>(sign);             // rounds to zero
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;
    const uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    const uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1)));
    const uint32_t base =
        exponent < -14 ? 0 : static_cast<uint32_t>(exponent + 14) << 10;  // the implicit bit adds 1
    return static_cast<uint16_t>(sign | (base + rounded));
  }
  static constexpr float to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31,
                   mantissa = h & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -tiny : tiny;
  }
};

}  // namespace genesis
