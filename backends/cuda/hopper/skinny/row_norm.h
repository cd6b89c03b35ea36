// The norm (rms_norm) ahead of a skinny GEMM, computed along with it: with g the norm's weight, y = sum(x g w) /
// sqrt(mean(x^2) + eps). Tensor cores multiply x g, rounded once like the output of a norm. Each lane adds the
// squares of its elements of x, and a row's sums are scaled when all squares are ready.
#pragma once

#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"

namespace genesis::cuda::skinny_resident {

#ifdef __CUDACC__

template <int kColumns>
struct NoNorm {
  static constexpr bool kIsThere = false;
  __device__ __forceinline__ void take(uint2 (&)[kColumns], const unsigned char*) const {}
  __device__ __forceinline__ void put(float*) const {}
};

// The work of a lane, for a warp's slice of k.
template <int kColumns>
struct RowNorm {
  static constexpr bool kIsThere = true;
  using Bf16 = __nv_bfloat16;
  float squares[kColumns] = {};

  // Multiplies four elements of each row by the norm's weight, which is at `gain`.
  __device__ __forceinline__ void take(uint2 (&x)[kColumns], const unsigned char* gain) {
    const uint2 gains = *reinterpret_cast<const uint2*>(gain);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      x[c].x = scaled(c, x[c].x, gains.x);
      x[c].y = scaled(c, x[c].y, gains.y);
    }
  }
  // Writes the warp's sum of squares of every row of x to `to`.
  __device__ __forceinline__ void put(float* to) {
    sum_neighbors<4>(squares);
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (lane % 4 != 0) return;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) to[8 * c + lane / 4] = squares[c];
  }

 private:
  __device__ __forceinline__ uint32_t scaled(int c, uint32_t pair, uint32_t gains) {
    const float low = low_of<Bf16>(pair), high = high_of<Bf16>(pair);
    squares[c] = fmaf(high, high, fmaf(low, low, squares[c]));
    return pair_of<Bf16>(low * low_of<Bf16>(gains), high * high_of<Bf16>(gains));
  }
};

// Returns the factor for the sums of a row of x, from the squares of kWarps warps, [warp][rows].
template <int kWarps, int kRows>
struct RowScale {
  const float* squares;
  float k, eps;

  __device__ __forceinline__ float operator()(int m) const {
    float sum = squares[m];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) sum += squares[warp * kRows + m];
    return 1 / sqrtf(sum / k + eps);
  }
};

#endif

}  // namespace genesis::cuda::skinny_resident
