// Rows sorted by group, as the offsets of grouped_matmul describe them. Offsets stay on the device.
#pragma once

#include "backends/cuda/device/number.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// The groups of a run. Offsets that cannot be are reported by check_offsets(), and cut to the rows that there are elsewhere.
struct Groups {
  const int64_t* offsets;
  int count;
  int64_t rows;

  __device__ int64_t first(int g) const { return min(max(offsets[g], int64_t{0}), rows); }
  __device__ int64_t end(int g) const { return max(first(g), min(offsets[g + 1], rows)); }
};

// Returns the group of a row; -1 if it has none. All threads of a warp call it.
__device__ inline int group_of(const Groups& groups, int64_t row) {
  constexpr int kBatch = 8;  // offsets of a lane that are read at the same time
  int below = 0;             // offsets up to the row
  for (int base = static_cast<int>(threadIdx.x) % kLanes; base <= groups.count; base += kBatch * kLanes)
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      below += base + i * kLanes <= groups.count && groups.offsets[base + i * kLanes] <= row;
  const int group = warp_sum(below) - 1;
  return group < groups.count ? group : -1;
}

// Reports offsets that cannot be. `stride` threads call it, of which this is number `thread`.
__device__ inline void check_offsets(const Groups& groups, int64_t thread, int64_t stride,
                                     FaultReport fault) {
  for (int64_t g = thread; g <= groups.count; g += stride) {
    const int64_t at = groups.offsets[g];
    if (at < 0 || at > groups.rows) fault(at, groups.rows + 1);
    if (g > 0 && at < groups.offsets[g - 1]) fault(groups.offsets[g - 1], at + 1);
  }
}

// Writes zeros to rows of no group, and reports offsets that cannot be. All threads of a grid call it.
template <class T>
__device__ void clear_other_rows(const Groups& groups, int64_t n, T* y, FaultReport fault) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  check_offsets(groups, thread, stride, fault);
  if (!y) return;  // the gradient's groups have results of their own
  const int64_t head = groups.first(0) * n, tail = groups.first(groups.count) * n;
  for (int64_t i = thread; i < head; i += stride) y[i] = T(0.0f);
  for (int64_t i = tail + thread; i < groups.rows * n; i += stride) y[i] = T(0.0f);
}

inline Groups groups_of(const TensorView& offsets, int64_t rows) {
  return {offsets.as<const int64_t>(), static_cast<int>(offsets.numel() - 1), rows};
}

#endif

}  // namespace genesis::cuda
