// Shared code of the norms and their gradients: the arguments of their row kernels, and the statistics of a row.
#pragma once

#include "backends/cuda/device/wide_vector.h"
#include "backends/cuda/rows/rows.h"

namespace genesis::cuda {

struct NormArguments {
  const void* x = nullptr;
  const void* dy = nullptr;        // gradients only
  const void* residual = nullptr;  // gradients: added to dx; or null
  void* y = nullptr;               // output, or dx; may be x or dy
  void* output = nullptr;          // gradients: receives the output of the norm itself; or null
  WideVector weight, bias;
  int64_t n = 1;
  double eps = 0;
  bool centers = false;  // true for layer_norm, which subtracts the mean
};

#ifdef __CUDACC__

template <class W>
struct Statistics {
  W mean, inverse;  // 1 / sqrt(variance + eps)
};

template <class T, int N, class Row>
__device__ Statistics<wide_t<T>> statistics_of(const NormArguments& a, const RowLane& lane, const Row& x) {
  using W = wide_t<T>;
  W mean = 0;
  if (a.centers) {
    each_pack(
        lane,
        [&](int64_t, const Pack<T, N>& p) {
#pragma unroll
          for (int j = 0; j < N; ++j) mean += widen(p.at[j]);
        },
        x);
    mean = reduce_group(mean, lane.step, Add{}) / static_cast<W>(a.n);
  }
  W squares = 0;
  each_pack(
      lane,
      [&](int64_t, const Pack<T, N>& p) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const W d = widen(p.at[j]) - mean;
          squares += d * d;
        }
      },
      x);
  squares = reduce_group(squares, lane.step, Add{});
  return {mean, W(1) / sqrt(squares / static_cast<W>(a.n) + static_cast<W>(a.eps))};
}

#endif

inline int64_t normalized_size(std::span<const int64_t> sizes, int64_t num_axes) {
  int64_t n = 1;
  for (int64_t i = 0; i < num_axes; ++i) n *= sizes[sizes.size() - 1 - static_cast<size_t>(i)];
  return n;
}

inline NormArguments arguments_of(const KernelContext& c, double eps, int64_t num_axes, bool centers) {
  NormArguments a;
  a.centers = centers;
  a.x = c.input(0).data;
  a.y = c.output().data;
  a.n = normalized_size(c.input(0).sizes(), num_axes);
  a.eps = eps;
  return a;
}

}  // namespace genesis::cuda
