// Shared code of the kernels for quantized weights: x as bytes in shared memory, and the scale of a norm.
#pragma once

#include "backends/cuda/device/byte_product.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/gemm/few_rows/row_products.h"

namespace genesis::cuda {

// Rows of x in bytes, then a ByteBlock for each 32 of them. With a norm these are x times the norm's weight, and the
// sums are scaled later.
struct SharedX {
  unsigned char* bytes;
  ByteBlock* blocks;
  int64_t k;

  __device__ SharedX(unsigned char* shared, int64_t m, int64_t k)
      : bytes(shared), blocks(reinterpret_cast<ByteBlock*>(shared + m * k)), k(k) {}

  // Reads the values of x that belong to the pack of weights that starts at element `at`.
  template <WeightFormat kFormat>
  __device__ __forceinline__ void read(int64_t row, int64_t at, Words (&x)[kValuesOfPack<kFormat> / 16],
                                       ByteBlock& block) const {
#pragma unroll
    for (int i = 0; i < kValuesOfPack<kFormat> / 16; ++i)
      x[i] = reinterpret_cast<const Words*>(bytes + row * k + at)[i];
    block = blocks[(row * k + at) / kQuantBlock];
  }
};

constexpr int kMaxGemvWarps = 16;
// Sums of squares of x, one per warp: each warp has a share of one row.
struct XSquares {
  float of_warp[kMaxGemvWarps];
};

// Reads eight elements; x may be unaligned.
template <class T>
__device__ __forceinline__ Pack<T, 8> read_eight(const T* at, bool aligned) {
  if (aligned) return *reinterpret_cast<const Pack<T, 8>*>(at);
  Pack<T, 8> eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) eight.at[i] = at[i];
  return eight;
}

// Quantizes x: warps share the rows of x, at most M, evenly. A lane has several loads in flight at once.
template <class T, int M>
__device__ __forceinline__ void bring_x(const RowProducts& p, bool aligned, const SharedX& to,
                                        XSquares& squares) {
  constexpr int kEach = 8, kAhead = 4;
  const int warps = static_cast<int>(blockDim.x) / kLanes / M, warp = static_cast<int>(threadIdx.x) / kLanes,
            row = warp / warps, eights = static_cast<int>(p.k) / kEach;
  const bool normalizes = p.norm != nullptr;
  const auto* x = static_cast<const T*>(p.x);
  float square = 0;
  if (row < static_cast<int>(p.m))
#pragma unroll 1
    for (int first = warp % warps * kLanes; first < eights; first += kAhead * warps * kLanes) {
      Pack<T, kEach> values[kAhead], gains[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int i = min(first + u * warps * kLanes + static_cast<int>(threadIdx.x) % kLanes, eights - 1);
        values[u] = read_eight(x + row * p.lda + i * kEach, aligned);
        if (normalizes) gains[u] = read_eight(static_cast<const T*>(p.norm) + i * kEach, aligned);
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int begin = first + u * warps * kLanes, i = begin + static_cast<int>(threadIdx.x) % kLanes;
        if (begin >= eights) break;
        float wide[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          wide[e] = widen(values[u].at[e]);
          square = fmaf(wide[e], i < eights ? wide[e] : 0.0f, square);
          wide[e] *= normalizes ? widen(gains[u].at[e]) : 1.0f;
        }
        uint32_t bytes[kEach / 4];
        const ByteBlock block = bytes_of_block(wide, bytes);
        if (i >= eights) continue;
        reinterpret_cast<uint2*>(to.bytes + row * p.k)[i] = {bytes[0], bytes[1]};
        constexpr int kLanesOfBlock = static_cast<int>(kQuantBlock) / kEach;
        if (i % kLanesOfBlock == 0) to.blocks[(row * p.k) / kQuantBlock + i / kLanesOfBlock] = block;
      }
    }
  if (!normalizes) return;
  square = warp_sum(square);
  if (threadIdx.x % kLanes == 0) squares.of_warp[warp] = square;
}

// Returns the factor for sums of row m of x; valid after the barrier that follows bring_x().
template <int M>
__device__ __forceinline__ float scale_of_row(const RowProducts& p, const XSquares& squares, int m) {
  if (!p.norm) return 1;
  const int warps = static_cast<int>(blockDim.x) / kLanes / M;
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum += squares.of_warp[m * warps + i];
  return 1 / sqrtf(sum / static_cast<float>(p.k) + p.eps);
}

}  // namespace genesis::cuda
