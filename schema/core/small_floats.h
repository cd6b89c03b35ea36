// Tables of the numbers that floating-point formats of 4 to 8 bits stand for, indexed by their bits. Readers of quantized files
// use them; no tensor has these dtypes. Sources: "OCP 8-bit Floating Point Specification (OFP8)" 1.0, and "OCP Microscaling
// Formats (MX) Specification" 1.0.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace genesis {

// Returns 2^exponent, for -149 <= exponent <= 127.
constexpr float power_of_two(int exponent) {
  return exponent < -126 ? std::bit_cast<float>(uint32_t{1} << (exponent + 149))
                         : std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// Describes a format: a sign, the exponent and the mantissa, without infinities or NaN.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr float number(int of) const {
    const int mantissa = of & ((1 << mantissa_bits) - 1),
              exponent = of >> mantissa_bits & ((1 << exponent_bits) - 1),
              significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    const float magnitude =
        static_cast<float>(significand) * power_of_two((exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
    return (of >> (bits() - 1) & 1) != 0 ? -magnitude : magnitude;
  }
  template <size_t kCount>
  constexpr std::array<float, kCount> numbers() const {
    std::array<float, kCount> all{};
    for (size_t i = 0; i < kCount; ++i) all[i] = number(static_cast<int>(i));
    return all;
  }
};

constexpr std::array<float, 256> e4m3_numbers() {
  auto all = SmallFloat{4, 3, 7}.numbers<256>();
  all[0x7F] = all[0xFF] = std::numeric_limits<float>::quiet_NaN();
  return all;
}

constexpr std::array<float, 256> e5m2_numbers() {
  auto all = SmallFloat{5, 2, 15}.numbers<256>();
  for (size_t i = 0x7C; i < 256; i += 0x80) {
    const float infinity = std::numeric_limits<float>::infinity();
    all[i] = i == 0x7C ? infinity : -infinity;
    for (size_t nan = i + 1; nan < i + 4; ++nan) all[nan] = std::numeric_limits<float>::quiet_NaN();
  }
  return all;
}

constexpr std::array<float, 256> e8m0_numbers() {
  std::array<float, 256> all{};
  for (int i = 0; i < 255; ++i) all[static_cast<size_t>(i)] = power_of_two(i - 127);
  all[255] = std::numeric_limits<float>::quiet_NaN();
  return all;
}

inline constexpr auto kE2M1 = SmallFloat{2, 1, 1}.numbers<16>();
inline constexpr auto kE4M3 = e4m3_numbers();
inline constexpr auto kE5M2 = e5m2_numbers();
inline constexpr auto kE8M0 = e8m0_numbers();  // powers of two, without a sign

}  // namespace genesis
