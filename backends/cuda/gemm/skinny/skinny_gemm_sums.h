// What becomes of the sums of skinny_gemm.cu: those of warps meet in shared memory, then those of blocks, always in one order; then
// bias, activation or SwiGLU, and what is added. Device code, of that file alone.
#pragma once

#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/cluster.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/gemm/skinny/skinny_gemm_feed.h"

namespace genesis::cuda::skinny_gemm {

// One lane's four numbers of a tile: rows g and g + 8 of weights, or gate and up, times two rows of x.
template <class T, int kColumns, bool kSwiglu>
struct Results {
  int64_t row[2] = {};
  int m = 0;
  float bias[2] = {}, addend[2][2] = {};  // addend: [row][m]

  __device__ __forceinline__ void read(const Gemv& gemv, const BlockRows& rows, int sum) {
    const int tile = sum / (kLanes * kColumns), lane = sum % kLanes;
    row[0] = rows.first + tile * kResults<kSwiglu> + lane / 4;
    row[1] = row[0] + (kSwiglu ? 0 : 8);
    m = sum / kLanes % kColumns * 8 + lane % 4 * 2;
    const Gemv::Layer& layer = gemv.layer[rows.layer];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row[r] >= layer.n) continue;
      const void* biases = gemv.layer[kSwiglu ? r : rows.layer].bias;
      if (biases) bias[r] = widen(static_cast<const T*>(biases)[row[r]]);
      if (!layer.addend) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (m + i < gemv.m)
          addend[r][i] = widen(static_cast<const T*>(layer.addend)[(m + i) * layer.ldc + row[r]]);
    }
  }
  __device__ __forceinline__ void put(const Gemv& gemv, const BlockRows& rows, const float4& sums) const {
    const Gemv::Layer& layer = gemv.layer[rows.layer];
    const float of_row[2][2] = {{sums.x, sums.y}, {sums.z, sums.w}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (m + i >= gemv.m) return;
      T* y = static_cast<T*>(layer.y) + (m + i) * layer.ldc;
      const float a = of_row[0][i] + bias[0], b = of_row[1][i] + bias[1];
      if constexpr (kSwiglu) {
        if (row[0] < layer.n) y[row[0]] = narrow<T>(gated<T>(widen(narrow<T>(a)), widen(narrow<T>(b))));
      } else {
        if (row[0] < layer.n) y[row[0]] = narrow<T>(activate(a, gemv.activation) + addend[0][i]);
        if (row[1] < layer.n) y[row[1]] = narrow<T>(activate(b, gemv.activation) + addend[1][i]);
      }
    }
  }
};

__device__ __forceinline__ void add(float4& sum, const float4& more) {
  sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
}

// Where sums lie in shared memory: each warp's where its ring was, the block's behind them.
template <class S>
struct SharedSums {
  unsigned char* shared;

  __device__ __forceinline__ float4* of_warp(int warp) const {
    return reinterpret_cast<float4*>(shared + warp * S::kRing);
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
  // Those of the blocks are there with more parts than one.
  __device__ __forceinline__ float4 all(int i, int parts) const {
    if (parts == 1) return all_warps(i);
    float4 sum = read_of_block(of_block() + i, 0, parts);
    for (int part = 1; part < parts; ++part) add(sum, read_of_block(of_block() + i, part, parts));
    return sum;
  }
};

// A block's part of the sums: what a thread adds to them is asked for while others still multiply.
template <class T, class S, bool kSwiglu>
struct Finish {
  static constexpr int kEach = (S::kSums + S::kAll - 1) / S::kAll;
  Results<T, S::kEights, kSwiglu> results[kEach];
  int count, first;

  __device__ __forceinline__ Finish(const Gemv& gemv, const BlockRows& rows, int parts)
      : count(S::kSums / parts), first(rows.rank * count + static_cast<int>(threadIdx.x)) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (is_there(j)) results[j].read(gemv, rows, first + j * S::kAll);
  }
  __device__ __forceinline__ bool is_there(int j) const {
    return static_cast<int>(threadIdx.x) + j * S::kAll < count;
  }
  __device__ __forceinline__ void run(const Gemv& gemv, const BlockRows& rows, const SharedSums<S>& sums,
                                      int parts) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (is_there(j)) results[j].put(gemv, rows, sums.all(first + j * S::kAll, parts));
  }
};

}  // namespace genesis::cuda::skinny_gemm
