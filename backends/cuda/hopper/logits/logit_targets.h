// The target's logit in linear_cross_entropy, in bf16: a dot product before the other logits are computed, and a row
// of x for the weight's gradient afterward.
#pragma once

#include "backends/cuda/device/warp_scan.h"
#include "backends/cuda/hopper/logits/logit_epilogue.h"

namespace genesis::cuda {

#ifdef __CUDACC__

constexpr int kReferenceWarps = 8;

struct ReferenceArguments {
  const Words *x, *weight;
  Targets targets;
  int64_t rows, packs, blocks;  // packs: per row
  const int* order;
  Words *ordered_x, *dx;
  hopper::LogitRow* known;
  double* row_loss;
  int* again;
};

// A warp handles one position in the order: it copies its row of x there, and the dot product of that row with the
// target's weight becomes the reference. For a row that does not count, the copy of x is zeros, and its dx and loss
// are set to zero here, because its block may be skipped.
static __global__ void __launch_bounds__(kReferenceWarps * 32) refer_rows(const ReferenceArguments a) {
  if (blockIdx.x == 0)
    for (int64_t i = threadIdx.x; i < a.blocks; i += blockDim.x) a.again[i] = 0;
  const int lane = threadIdx.x % 32;
  const int64_t place = int64_t{blockIdx.x} * kReferenceWarps + threadIdx.x / 32;
  if (place >= a.rows) return;
  const int64_t row = a.order[place], at = a.targets[row];
  Words* ordered_x = a.ordered_x + place * a.packs;
  hopper::LogitRow known;
  if (a.targets.counts(at)) {
    const Words *x = a.x + row * a.packs, *weight = a.weight + at * a.packs;
    float sum = 0;
    for (int64_t i = lane; i < a.packs; i += 32) {
      const Words p = x[i], q = weight[i];
      ordered_x[i] = p;
#pragma unroll
      for (int j = 0; j < 8; ++j)
        sum = fmaf(element_of<__nv_bfloat16>(p, j), element_of<__nv_bfloat16>(q, j), sum);
    }
    known = {reduce_lanes(sum, 32, Add{}), static_cast<int>(at)};
  } else {
    for (int64_t i = lane; i < a.packs; i += 32) ordered_x[i] = a.dx[row * a.packs + i] = Words{};
    if (lane == 0) a.row_loss[place] = 0;
  }
  if (lane == 0) a.known[place] = known;
}

__device__ inline void add_pack(float (&sum)[8], float factor, const Words& pack) {
#pragma unroll
  for (int j = 0; j < 8; ++j) sum[j] = fmaf(factor, element_of<__nv_bfloat16>(pack, j), sum[j]);
}

struct TargetArguments {
  int64_t rows, packs;
  const hopper::LogitRow* known;
  const float* slopes;
  const Words* x;
  float4* dweight;
};

constexpr int kTargetThreads = 128, kTargetRows = 8 * kTargetThreads;

// Lists which of the kTargetRows rows from `first` on have this target, always in the same order; returns how many.
__device__ inline int list_rows(const TargetArguments& a, int64_t first, int target,
                                int (&list)[kTargetRows]) {
  unsigned mine = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int64_t row = first + k * kTargetThreads + threadIdx.x;
    if (row < a.rows && a.known[row].target == target) mine |= 1u << k;
  }
  auto [before, count] = block_scan(__popc(mine));  // a barrier too: every thread has read the last list
  for (; mine != 0; mine &= mine - 1)
    list[before++] = static_cast<int>(first) + (__ffs(static_cast<int>(mine)) - 1) * kTargetThreads +
                     static_cast<int>(threadIdx.x);
  __syncthreads();
  return count;
}

// Computes dweight[target] += slope x for every row. A block has one row and 128 packs of it; the first row with a
// target adds for all rows with that target.
static __global__ void __launch_bounds__(kTargetThreads) add_targets(const TargetArguments a) {
  __shared__ int list[kTargetRows];
  const int64_t row = blockIdx.x;
  const int target = a.known[row].target;
  if (target < 0) return;
  bool earlier = false;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < row; i += kTargetThreads) earlier |= a.known[i].target == target;
  if (__syncthreads_or(earlier)) return;
  const int64_t pack = int64_t{blockIdx.y} * kTargetThreads + threadIdx.x;
  float sum[8] = {};
  for (int64_t first = row; first < a.rows; first += kTargetRows) {
    const int count = list_rows(a, first, target, list);
    if (pack >= a.packs) continue;
#pragma unroll 4
    for (int i = 0; i < count; ++i) add_pack(sum, a.slopes[list[i]], a.x[list[i] * a.packs + pack]);
  }
  if (pack >= a.packs) return;
  float4* to = a.dweight + (target * a.packs + pack) * 2;
  float4 low = to[0], high = to[1];
  low = {low.x + sum[0], low.y + sum[1], low.z + sum[2], low.w + sum[3]};
  high = {high.x + sum[4], high.y + sum[5], high.z + sum[6], high.w + sum[7]};
  to[0] = low;
  to[1] = high;
}

#endif

}  // namespace genesis::cuda
