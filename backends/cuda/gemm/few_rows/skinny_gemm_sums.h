// The epilogue of a skinny GEMM. First it adds the sums of the warps in shared memory, then those of the blocks,
// always in the same order; then it applies bias, activation or SwiGLU, and the addend. Device code of skinny_gemm.cu
// and hopper/skinny. S describes a block: kWarps warps that share k, kAll threads, kEights groups of eight rows of x,
// kSums accumulators of four numbers.
#pragma once

#include "backends/cuda/device/cluster.h"
#include "backends/cuda/gemm/few_rows/row_result.h"
#include "backends/cuda/gemm/few_rows/skinny_gemm_feed.h"

namespace genesis::cuda::skinny_gemm {

// One lane's four numbers of a tile: rows g and g + 8 of the weights, or of gate and up, times two rows of x. It is no
// RowResult: biases and addends stay unconverted until they are added, so that no thread waits for them before the sums
// are ready, and one bias serves two rows of x.
template <class T, int kColumns, bool kSwiglu>
struct Results {
  T *y = nullptr, *y_high = nullptr;  // for row m of x; null: none (a swiglu has no second one)
  const T *bias = nullptr, *bias_high = nullptr, *addend = nullptr;  // null: none; `addend` is laid out as y
  int64_t ldc = 0;
  int m = 0;
  T biases[2] = {}, addends[2][2] = {};  // addends: [row][m]

  // Sets the addresses of the results, biases and addends.
  __device__ __forceinline__ void find(const RowProducts& p, const BlockRows& rows, int sum) {
    const int tile = sum / (kLanes * kColumns), lane = sum % kLanes;
    const int64_t row = rows.first + tile * kResults<kSwiglu> + lane / 4, high = row + (kSwiglu ? 0 : 8);
    m = sum / kLanes % kColumns * 8 + lane % 4 * 2;
    const RowProducts::Layer &layer = p.layer[rows.layer], &second = p.layer[kSwiglu ? 1 : rows.layer];
    ldc = layer.ldc;
    if (m >= p.m || row >= layer.n) return;
    y = static_cast<T*>(layer.y) + m * ldc + row;
    if (!kSwiglu && high < layer.n) y_high = y + 8;
    if (layer.bias) bias = static_cast<const T*>(layer.bias) + row;
    if (second.bias && high < layer.n) bias_high = static_cast<const T*>(second.bias) + high;
    if (layer.addend) addend = static_cast<const T*>(layer.addend) + m * ldc + row;
  }
  __device__ __forceinline__ void read_biases() {
    if (bias) biases[0] = *bias;
    if (bias_high) biases[1] = *bias_high;
  }
  __device__ __forceinline__ void read_addends(const RowProducts& p) {
    if (!addend) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (m + i >= p.m) break;
      addends[0][i] = addend[i * ldc];
      if (y_high) addends[1][i] = addend[i * ldc + 8];
    }
  }
  // `scale` has the factors of the two rows of x.
  __device__ __forceinline__ void put(const RowProducts& p, const float4& sums,
                                      const float (&scale)[2]) const {
    const float of_row[2][2] = {{sums.x, sums.y}, {sums.z, sums.w}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!y || m + i >= p.m) return;
      const float a = of_row[0][i] * scale[i] + widen(biases[0]),
                  b = of_row[1][i] * scale[i] + widen(biases[1]);
      if constexpr (kSwiglu) {
        y[i * ldc] = narrow<T>(gated_sums<T>(a, b));
      } else {
        y[i * ldc] = narrow<T>(activate(a, p.activation) + widen(addends[0][i]));
        if (y_high) y_high[i * ldc] = narrow<T>(activate(b, p.activation) + widen(addends[1][i]));
      }
    }
  }
};

__device__ __forceinline__ void add(float4& sum, const float4& more) {
  sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
}

// The layout of the sums in shared memory: each warp's sums are at the start of its `apart` bytes, and the block's
// follow those of all warps.
template <class S>
struct SharedSums {
  unsigned char* shared;
  int apart;

  __device__ __forceinline__ float4* of_warp(int warp) const {
    return reinterpret_cast<float4*>(shared + warp * apart);
  }
  __device__ __forceinline__ float4* of_block() const { return of_warp(S::kWarps); }
  template <int kTiles, int kColumns>
  __device__ __forceinline__ void put(const float (&sums)[kTiles][kColumns][4]) const {
    float4* to = of_warp(static_cast<int>(threadIdx.x) / kLanes) + threadIdx.x % kLanes;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float(&s)[4] = sums[tile][c];
        to[(tile * kColumns + c) * kLanes] = make_float4(s[0], s[1], s[2], s[3]);
      }
  }
  __device__ __forceinline__ float4 all_warps(int i) const {
    float4 sum = of_warp(0)[i];
#pragma unroll
    for (int warp = 1; warp < S::kWarps; ++warp) add(sum, of_warp(warp)[i]);
    return sum;
  }
  __device__ __forceinline__ void add_warps() const {
    for (int i = static_cast<int>(threadIdx.x); i < S::kSums; i += S::kAll) of_block()[i] = all_warps(i);
  }
  // Returns the sum over all parts. With several parts, add_warps() must have run in all blocks.
  __device__ __forceinline__ float4 all(int i, int parts) const {
    if (parts == 1) return all_warps(i);
    float4 sum = read_of_block(of_block() + i, 0, parts);
    for (int part = 1; part < parts; ++part) add(sum, read_of_block(of_block() + i, part, parts));
    return sum;
  }
};

// For products whose rows are not scaled.
struct NoScale {
  __device__ __forceinline__ float operator()(int) const { return 1; }
};

// A block's share of the results.
template <class T, class S, bool kSwiglu>
struct Finish {
  static constexpr int kEach = (S::kSums + S::kAll - 1) / S::kAll;
  Results<T, S::kEights, kSwiglu> results[kEach];
  int count, first;

  __device__ __forceinline__ Finish(const RowProducts& p, const BlockRows& rows, int parts)
      : count(S::kSums / parts), first(rows.rank * count + static_cast<int>(threadIdx.x)) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (is_there(j)) results[j].find(p, rows, first + j * S::kAll);
  }
  __device__ __forceinline__ bool is_there(int j) const {
    return static_cast<int>(threadIdx.x) + j * S::kAll < count;
  }
  __device__ __forceinline__ void read_biases() {
#pragma unroll
    for (int j = 0; j < kEach; ++j) results[j].read_biases();
  }
  __device__ __forceinline__ void read_addends(const RowProducts& p) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) results[j].read_addends(p);
  }
  // sum_of(i) returns sum i of the block over all parts; scale(m) returns the factor of row m of x.
  template <class SumOf, class Scale>
  __device__ __forceinline__ void run(const RowProducts& p, const SumOf& sum_of, const Scale& scale) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (is_there(j)) {
        const int m = results[j].m;
        results[j].put(p, sum_of(first + j * S::kAll), {scale(m), scale(m + 1)});
      }
  }
};

}  // namespace genesis::cuda::skinny_gemm
