// The arithmetic of drawing an index by weight, the same on every device. Weights are converted to integers before they are
// added, so sums do not depend on the order of addition, and all devices choose the same index however they split the work.
#pragma once

#include "schema/core/philox.h"

namespace genesis {

// The fault that kernels report for a NaN among the logits.
inline constexpr const char* kNanLogit = "a logit is not a number (NaN), so that no index can be chosen";

// Maps floats to unsigned integers of the same order; -0 equals 0.
GENESIS_HOST_DEVICE inline uint32_t sampling_key(float x) {
  const uint32_t bits = bits_of(x + 0.0f);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}
GENESIS_HOST_DEVICE inline float float_of_key(uint32_t key) {
  return float_of(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

// Returns exp(x) for x <= 0, from operations that round alike on all devices.
GENESIS_HOST_DEVICE inline float sampling_exp(float x) {
  const float t = rounded_product(x < -87.0f ? -87.0f : x, 1.44269504f);
  const float n = (t + 12582912.0f) - 12582912.0f;       // rounded to an integer
  const float r = rounded_product(t - n, 0.693147182f);  // |r| <= ln(2) / 2
  float p = 0.008333334f + rounded_product(r, 0.0013888889f);
  p = 0.041666668f + rounded_product(r, p);
  p = 0.16666667f + rounded_product(r, p);
  p = 0.5f + rounded_product(r, p);
  p = 1.0f + rounded_product(r, p);
  p = 1.0f + rounded_product(r, p);
  const float scale = float_of(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : p * scale;
}

// Returns the number of bits for a weight of at most 1 among `count`: the greatest one for which the sum stays below 2^63.
inline int weight_bits(int64_t count) {
  int log = 0;
  while (log < 62 && (int64_t{1} << log) < count) ++log;
  return 62 - log;
}

// Returns weight * 2^bits, truncated to an integer. `bits` in [0, 126].
GENESIS_HOST_DEVICE inline uint64_t whole_weight(float weight, int bits) {
  return static_cast<uint64_t>(
      static_cast<int64_t>(weight * float_of(static_cast<uint32_t>(127 + bits) << 23)));
}

// Returns floor(total * u) for the uniform number u of `word`; below total unless that is 0.
GENESIS_HOST_DEVICE inline uint64_t share_of(uint64_t total, uint32_t word) {
  const uint64_t u = word >> 8;  // 24 bits
  return (total >> 24) * u + ((total & 0xffffffu) * u >> 24);
}

// Returns the share of `total` that top-p keeps; at least 1, so that one index remains.
GENESIS_HOST_DEVICE inline uint64_t nucleus_of(uint64_t total, double top_p) {
  const double wanted = (top_p > 0 ? top_p : 0) * static_cast<double>(total);
  const uint64_t whole = wanted < static_cast<double>(total) ? static_cast<uint64_t>(wanted) : total;
  return whole == 0 ? 1 : whole < total ? whole : total;
}

// Returns the factor for whole_multiple(), which converts weights of any size to multiples of a power of two, so that the
// greatest has about `bits` bits.
GENESIS_HOST_DEVICE inline double multiple_factor(float greatest, int bits) {
  const int exponent = static_cast<int>(bits_of(greatest) >> 23) - 127;  // greatest < 2^(exponent + 1)
  union {
    uint64_t bits;
    double value;
  } both = {static_cast<uint64_t>(1023 + bits - 1 - exponent) << 52};
  return both.value;
}
GENESIS_HOST_DEVICE inline uint64_t whole_multiple(float weight, double factor) {
  return static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(weight) * factor));
}

}  // namespace genesis
