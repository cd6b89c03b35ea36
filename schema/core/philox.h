// Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011). Free of dependencies, so that host initializers and the kernels of every device share it.
//
// The layout is a promise: every device and every version assigns words of the random stream to elements as follows.
//   key     = {low 32 bits of seed, high 32 bits of seed}
//   counter = {low 32 bits of b, high 32 bits of b, stream, low 32 bits of step},  b = i / 4 for element i
//   element i takes word i % 4 of the block; normal numbers 2j and 2j + 1 take words 2j and 2j + 1 together.
// The float operations below round once each, so that devices agree bit for bit: hosts compile with floating-point contraction
// off, and devices multiply with rounded_product().
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#ifdef __CUDACC__
#define GENESIS_HOST_DEVICE __host__ __device__
#else
#define GENESIS_HOST_DEVICE
#endif

namespace genesis {

struct PhiloxBlock {
  uint32_t word[4];
};

GENESIS_HOST_DEVICE inline PhiloxBlock philox(uint64_t seed, uint32_t stream, uint32_t step, uint64_t block) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  PhiloxBlock c{{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream, step}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c.word[0], b = uint64_t{0xCD9E8D57u} * c.word[2];
    c = PhiloxBlock{{static_cast<uint32_t>(b >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(b),
                     static_cast<uint32_t>(a >> 32) ^ c.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// Returns a * b, never fused with a following addition.
GENESIS_HOST_DEVICE inline float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

// Returns a multiple of 2^-24 in [0, 1).
GENESIS_HOST_DEVICE inline float uniform_from(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

GENESIS_HOST_DEVICE inline uint32_t bits_of(float x) {
  union {
    float value;
    uint32_t bits;
  } both = {x};
  return both.bits;
}
GENESIS_HOST_DEVICE inline float float_of(uint32_t x) {
  union {
    uint32_t bits;
    float value;
  } both = {x};
  return both.value;
}

// Returns ln(u) for u = n * 2^-24, n in [1, 2^24], with an error below 1e-7 * max(1, |ln u|). It combines the exponent and a
// polynomial on [sqrt(1/2), sqrt(2)); it is written out so that every device rounds alike, and has no branches so that compilers
// vectorize it.
GENESIS_HOST_DEVICE inline float log_of_uniform(float u) {
  const int up = (bits_of(u) & 0x7fffffu) >= 0x3504f3u;  // the mantissa of sqrt(2)
  const int exponent = static_cast<int>(bits_of(u) >> 23) - 127 + up;
  const float m = u * float_of(static_cast<uint32_t>(127 - exponent) << 23);  // exact, times 2^-exponent
  const float f = m - 1.0f, s = f / (2.0f + f), z = rounded_product(s, s);
  // 2 atanh(s) = 2 s (1 + z/3 + z^2/5 + ...), |s| <= 0.1716
  float series = 0.11111111f + rounded_product(z, 0.09090909f);
  series = 0.14285714f + rounded_product(z, series);
  series = 0.2f + rounded_product(z, series);
  series = 0.33333333f + rounded_product(z, series);
  series = 1.0f + rounded_product(z, series);
  return rounded_product(static_cast<float>(exponent), 0.69314718f) + rounded_product(2.0f * s, series);
}

// Returns r times the cosine and the sine of t turns, t in [0, 1).
struct NormalPair {
  float first, second;
};
GENESIS_HOST_DEVICE inline NormalPair polar(float r, float t) {
  const int quadrant = static_cast<int>(rounded_product(t, 4.0f) + 0.5f);
  const float turns = t - rounded_product(static_cast<float>(quadrant), 0.25f);
  const float x = turns * 6.2831853f, z = rounded_product(x, x);  // |x| <= pi/4
  float s = 0.0083333333f - rounded_product(z, 0.00019841270f);
  s = 0.16666667f - rounded_product(z, s);
  s = rounded_product(x, 1.0f - rounded_product(z, s));
  float c = 0.0013888889f - rounded_product(z, 0.000024801587f);
  c = 0.041666667f - rounded_product(z, c);
  c = 0.5f - rounded_product(z, c);
  c = 1.0f - rounded_product(z, c);
  // Cosine and sine of the angle from the quadrant's axis.
  const float a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
  return {r * ((quadrant + 1) & 2 ? -a : a), r * (quadrant & 2 ? -b : b)};
}

// Returns two standard normal numbers from two words (Box & Muller, 1958).
GENESIS_HOST_DEVICE inline NormalPair normals_from(uint32_t word0, uint32_t word1) {
  const float u = static_cast<float>((word0 >> 8) + 1) * 0x1p-24f;  // in (0, 1]
  return polar(sqrtf(-2.0f * log_of_uniform(u)), uniform_from(word1));
}

// Host side: fills `values` from the random stream `stream`, whose low and high 32 bits are the stream and step of the counter
// above.
void fill_uniform(std::span<float> values, uint64_t seed, uint64_t stream, double low, double high);
void fill_normal(std::span<float> values, uint64_t seed, uint64_t stream, double mean, double std);
// Draws from a normal distribution truncated to [low, high], by the inverse of the distribution function.
void fill_trunc_normal(std::span<float> values, uint64_t seed, uint64_t stream, double mean, double std,
                       double low, double high);

}  // namespace genesis
