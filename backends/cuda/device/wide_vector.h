// Vectors that go with the rows of a matrix (weight, bias) and may have a dtype of their own; they are read as the
// arithmetic type W.
#pragma once

#include "backends/cuda/device/packs.h"

namespace genesis::cuda {

// If data is null, every element is the `absent` of at().
struct WideVector {
  const void* data = nullptr;
  DType dtype = DType::f32;

  static WideVector of(const TensorView& v) { return {v.data, v.dtype}; }

#ifdef __CUDACC__
  template <class S, class W, int N>
  __device__ void read(int64_t pack, W (&to)[N]) const {
    constexpr int kPart = N * sizeof(S) > 16 ? 16 / static_cast<int>(sizeof(S)) : N;
    using P = Pack<S, kPart>;
    const P* from = static_cast<const P*>(data) + pack * (N / kPart);
#pragma unroll
    for (int part = 0; part < N / kPart; ++part) {
      const P values = from[part];
#pragma unroll
      for (int j = 0; j < kPart; ++j) to[part * kPart + j] = static_cast<W>(widen(values.at[j]));
    }
  }

  // Reads elements [pack * N, pack * N + N). Row kernels inline this once for each pack that they unroll, so both
  // 16-bit types share one load to keep the code small.
  template <class W, int N>
  __device__ void at(int64_t pack, W absent, W (&to)[N]) const {
    if (!data) {
#pragma unroll
      for (int j = 0; j < N; ++j) to[j] = absent;
    } else if (dtype == DType::f32) {
      read<float>(pack, to);
    } else if (dtype == DType::f64) {
      read<double>(pack, to);
    } else {
      const auto values = static_cast<const Pack<uint16_t, N>*>(data)[pack];
      const bool is_half = dtype == DType::f16;
#pragma unroll
      for (int j = 0; j < N; ++j)
        to[j] = is_half ? __half2float(__ushort_as_half(values.at[j]))
                        : __uint_as_float(static_cast<unsigned>(values.at[j]) << 16);
    }
    // Keeps the compiler from duplicating the following code for each of these branches.
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if constexpr (sizeof(W) == 4)
        asm("" : "+f"(to[j]));
      else
        asm("" : "+d"(to[j]));
    }
  }
#endif
};

}  // namespace genesis::cuda
