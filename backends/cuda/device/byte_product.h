// Products of quantized weights (schema/encoding/weight_format.h) with x quantized to bytes. Each block of 32 values
// of x gets a scale and becomes bytes; products of bytes are summed four at a time (dp4a), exactly within a block.
// The error of a sum is therefore the error of x's quantization: at most half of 1/127 of each block's largest
// magnitude per value.
#pragma once

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"
#include "schema/encoding/weight_format.h"

namespace genesis::cuda {

// Scale of a block of x (value = byte * scale), and the sum of the block's bytes, which q4 and q4m need for their offsets.
struct alignas(8) ByteBlock {
  float scale;
  int sum;
};

// Number of values in 16 bytes of weights: half a q8 block or one block of four bits.
template <WeightFormat kFormat>
inline constexpr int kValuesOfPack = has_four_bits(kFormat) ? 32 : 16;

// Bytes that `rows` quantized rows of k values take: the rows' bytes, then one ByteBlock for each 32 values. k is a
// multiple of 32.
constexpr int64_t byte_rows_bytes(int64_t rows, int64_t k) {
  return rows * (k + k / kQuantBlock * int64_t{sizeof(ByteBlock)});
}

#ifdef __CUDACC__

// Quantizes one block that 32 / N neighboring lanes hold, N values each: writes this lane's bytes, four to a word,
// and returns the block's scale and sum. If the block contains NaN or infinity its scale is NaN, so that sums over it
// become NaN.
template <int N>
__device__ __forceinline__ ByteBlock bytes_of_block(const float (&values)[N], uint32_t (&bytes)[N / 4]) {
  constexpr int kLanesOfBlock = static_cast<int>(kQuantBlock) / N;
  constexpr float kMax = 3.402823466e38f, kMin = 1e-35f;  // below kMin 127 / x is infinite
  float greatest = fabsf(values[0]);
#pragma unroll
  for (int i = 1; i < N; ++i) greatest = MaxOrNan()(fabsf(values[i]), greatest);
  greatest = reduce_lanes(greatest, kLanesOfBlock, MaxOrNan());
  const float scale = greatest * (1.0f / 127);
  float by;  // approximate reciprocal; its error is too small to take a byte beyond 127
  asm("rcp.approx.f32 %0, %1;" : "=f"(by) : "f"(scale));
  by = greatest > kMin ? by : 0;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    uint32_t rounded[4];  // in their lowest byte: a float of 1.5 * 2^23 has no bits for a fraction
#pragma unroll
    for (int j = 0; j < 4; ++j) rounded[j] = __float_as_uint(fmaf(values[4 * i + j], by, 12582912.0f));
    bytes[i] = __byte_perm(__byte_perm(rounded[0], rounded[1], 0x0040),
                           __byte_perm(rounded[2], rounded[3], 0x0040), 0x5410);
    sum = __dp4a(static_cast<int>(bytes[i]), 0x01010101, sum);
  }
  return {greatest <= kMax ? scale : __int_as_float(0x7fc00000), reduce_lanes(sum, kLanesOfBlock, Add())};
}

// The scale of a block of weights from its 16 bits, and for q4m its zero.
template <WeightFormat kFormat>
struct WeightBlock {
  static constexpr bool kHasZero = kFormat == WeightFormat::kQ4m;
  float scale, zero = 0;

  WeightBlock() = default;
  __device__ __forceinline__ explicit WeightBlock(uint16_t word)
      : scale(__half2float(__ushort_as_half(kHasZero ? q4m_scale_bits(word) : word))) {
    if constexpr (kHasZero) {
      scale *= kQ4mScaleUnit;
      zero = static_cast<float>(q4m_zero_units(word)) * kQ4mZeroUnit;
    }
  }
};

// Returns the dot product of 16 bytes of weights with the 16 (q8) or 32 (q4, q4m) bytes of x that belong to them; for q4,
// subtracts the quants' offset.
template <WeightFormat kFormat>
__device__ __forceinline__ int dot_bytes(const Words& w, const Words (&x)[kValuesOfPack<kFormat> / 16],
                                         const ByteBlock& block) {
  int sum = 0;
  if constexpr (has_four_bits(kFormat)) {
    if constexpr (kFormat == WeightFormat::kQ4) sum = -kQ4Zero * block.sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = word_of(w, i);
      sum = __dp4a(static_cast<int>(word & 0x0f0f0f0fu), static_cast<int>(word_of(x[0], i)), sum);
      sum = __dp4a(static_cast<int>(word >> 4 & 0x0f0f0f0fu), static_cast<int>(word_of(x[1], i)), sum);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum = __dp4a(static_cast<int>(word_of(w, i)), static_cast<int>(word_of(x[0], i)), sum);
  }
  return sum;
}

// Returns the same in f32; for q4m, subtracts the block's zero.
template <WeightFormat kFormat>
__device__ __forceinline__ float dot_block(const Words& w, const Words (&x)[kValuesOfPack<kFormat> / 16],
                                           const ByteBlock& block, const WeightBlock<kFormat>& of_w) {
  const auto dot = static_cast<float>(dot_bytes<kFormat>(w, x, block));
  if constexpr (WeightBlock<kFormat>::kHasZero) return fmaf(-of_w.zero, static_cast<float>(block.sum), dot);
  return dot;
}

#endif

}  // namespace genesis::cuda
