// A tile of a product without tensor cores, for every dtype and layout: 64 x 64 elements of C, of which a thread computes 4 x 4;
// slices of the operands are in shared memory in the accumulator's type.
#pragma once

#include "backends/cuda/device/number.h"

namespace genesis::cuda {

#ifdef __CUDACC__

constexpr int kPlainTile = 64, kPlainSide = 16, kPlainThreads = kPlainSide * kPlainSide;

// A matrix in memory: element (i, j) lies at i * row + j * column.
template <class T>
struct PlainMatrix {
  const T* data;
  int64_t row, column;
};

// Computes the tile of A B, [m, k] times [k, n], that begins at (row0, column0); calls put(row, column, sum) for each of its
// elements. Sums have the wide type and the order of k. A block of kPlainThreads threads calls it.
template <class T, class Put>
__device__ __forceinline__ void multiply_plain_tile(const PlainMatrix<T>& a, const PlainMatrix<T>& b,
                                                    int64_t m, int64_t n, int64_t k, int64_t row0,
                                                    int64_t column0, const Put& put) {
  using W = wide_t<T>;
  constexpr int kTile = kPlainTile, kSide = kPlainSide, kDepth = 16, kEach = kTile / kSide;
  __shared__ W tile_a[kDepth][kTile + 1], tile_b[kDepth][kTile + 1];
  const int thread = threadIdx.x, ty = thread / kSide, tx = thread % kSide;
  W sums[kEach][kEach] = {};
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kSide * kSide) {
      // Neighboring threads of a warp read neighboring addresses, whichever axis is contiguous.
      const int row = a.row == 1 ? i % kTile : i / kDepth, ka = a.row == 1 ? i / kTile : i % kDepth;
      tile_a[ka][row] =
          row0 + row < m && k0 + ka < k ? widen(a.data[(row0 + row) * a.row + (k0 + ka) * a.column]) : W(0);
      const int column = b.row == 1 ? i / kDepth : i % kTile, kb = b.row == 1 ? i % kDepth : i / kTile;
      tile_b[kb][column] = column0 + column < n && k0 + kb < k
                               ? widen(b.data[(k0 + kb) * b.row + (column0 + column) * b.column])
                               : W(0);
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      W x[kEach], y[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        x[i] = tile_a[p][ty + i * kSide];
        y[i] = tile_b[p][tx + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row < m && column < n) put(row, column, sums[i][j]);
    }
}

#endif

}  // namespace genesis::cuda
