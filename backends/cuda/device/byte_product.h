// Products of quantised weights (schema/encoding/weight_format.h) with x in bytes: blocks of 32 values of x get a scale each
// and become bytes; products of bytes are summed four at a time (dp4a), exactly within a block. So a sum is as near to that
// of the numbers as x is to its bytes: half of 1/127 of each block's greatest magnitude. Used by the GEMVs of quantised
// weights and by megakernels.
#pragma once

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"
#include "schema/encoding/weight_format.h"

namespace genesis::cuda {

// What the bytes of a block of x mean, each times `scale`, and their sum, which q4 needs.
struct alignas(8) ByteBlock {
  float scale;
  int sum;
};

// Values that 16 bytes of weights hold: half a block of q8, a block of q4.
template <WeightFormat kFormat>
inline constexpr int kValuesOfPack = kFormat == WeightFormat::kQ4 ? 32 : 16;

// Of `rows` rows of k values, k a multiple of 32: their bytes, then a ByteBlock for each 32.
constexpr int64_t byte_rows_bytes(int64_t rows, int64_t k) {
  return rows * (k + k / kQuantBlock * int64_t{sizeof(ByteBlock)});
}

#ifdef __CUDACC__

// N values of a block in each of the 32 / N lanes, side by side, that have it: their bytes, four to a word, and what the
// block's bytes mean. A block with a value that is no number means NaN, so that sums with it do.
template <int N>
__device__ __forceinline__ ByteBlock bytes_of_block(const float (&values)[N], uint32_t (&bytes)[N / 4]) {
  constexpr int kLanesOfBlock = static_cast<int>(kQuantBlock) / N;
  constexpr float kMax = 3.402823466e38f, kMin = 1e-35f;  // below kMin 127 / x is infinite
  float greatest = fabsf(values[0]);
#pragma unroll
  for (int i = 1; i < N; ++i) greatest = MaxOrNan()(fabsf(values[i]), greatest);
  greatest = reduce_lanes(greatest, kLanesOfBlock, MaxOrNan());
  const float scale = greatest * (1.0f / 127);
  float by;  // its error is far too small to take a byte beyond 127
  asm("rcp.approx.f32 %0, %1;" : "=f"(by) : "f"(scale));
  by = greatest > kMin ? by : 0;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    uint32_t rounded[4];  // in their lowest byte: behind 1.5 * 2^23 a float has no room for a fraction
#pragma unroll
    for (int j = 0; j < 4; ++j) rounded[j] = __float_as_uint(fmaf(values[4 * i + j], by, 12582912.0f));
    bytes[i] = __byte_perm(__byte_perm(rounded[0], rounded[1], 0x0040),
                           __byte_perm(rounded[2], rounded[3], 0x0040), 0x5410);
    sum = __dp4a(static_cast<int>(bytes[i]), 0x01010101, sum);
  }
  return {greatest <= kMax ? scale : __int_as_float(0x7fc00000), reduce_lanes(sum, kLanesOfBlock, Add())};
}

// The sum of 16 bytes of weights times the bytes of x that they meet, 16 or 32; of q4, of quants without their offset.
template <WeightFormat kFormat>
__device__ __forceinline__ int dot_bytes(const Words& w, const Words (&x)[kValuesOfPack<kFormat> / 16],
                                         const ByteBlock& block) {
  int sum = 0;
  if constexpr (kFormat == WeightFormat::kQ4) {
    sum = -kQ4Zero * block.sum;
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

#endif

}  // namespace genesis::cuda
