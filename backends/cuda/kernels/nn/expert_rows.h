// Products of a few rows with rows of weights, plain or quantized, by the warps of a block: the loops of experts.cu.
#pragma once

#include "backends/cuda/device/byte_product.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"

namespace genesis::cuda {

#ifdef __CUDACC__

inline constexpr int kLines = 4;     // rows of weights that a warp has in flight
inline constexpr int kChunk = 2048;  // values of x that become bytes at a time

// A row of weights: numbers of T, or quants with the scales of their blocks.
struct Line {
  const void* data;
  const uint16_t* scales;
};

template <WeightFormat kFormat, class T>
__device__ __forceinline__ Line line_at(const void* weights, const void* scales, int64_t line, int64_t k) {
  if constexpr (kFormat == WeightFormat::kPlain)
    return {static_cast<const T*>(weights) + line * k, nullptr};
  else
    return {static_cast<const Words*>(weights) + line * (k / kValuesOfPack<kFormat>),
            static_cast<const uint16_t*>(scales) + line * (k / kQuantBlock)};
}

// Adds the products of the first `count` of up to M rows of x with the lines to sums[line * M + row], each lane its share of k.
template <class T, int N, int M>
__device__ __forceinline__ void multiply_numbers(const T* const (&x)[M], int count,
                                                 const Line (&lines)[kLines], int64_t k,
                                                 wide_t<T> (&sums)[kLines * M]) {
#pragma unroll 2
  for (int64_t p = threadIdx.x % kLanes * N; p < k; p += kLanes * N) {
    Pack<T, N> w[kLines];
#pragma unroll
    for (int r = 0; r < kLines; ++r)
      w[r] = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(lines[r].data) + p);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (m >= count) break;
      const auto v = *reinterpret_cast<const Pack<T, N>*>(x[m] + p);
#pragma unroll
      for (int r = 0; r < kLines; ++r)
#pragma unroll
        for (int i = 0; i < N; ++i) sums[r * M + m] = fma(widen(v.at[i]), widen(w[r].at[i]), sums[r * M + m]);
    }
  }
}

// A part of a row of x as bytes.
struct ByteChunk {
  Words bytes[kChunk / 16];
  ByteBlock blocks[kChunk / kQuantBlock];
};

// Makes bytes of x[0, values), a multiple of a block, by `threads` threads in whole warps, of which this is number `thread`.
template <class T>
__device__ __forceinline__ void make_bytes(const T* x, int values, ByteChunk& to, int thread, int threads) {
  constexpr int kEach = 8, kLanesOfBlock = static_cast<int>(kQuantBlock) / kEach;
  for (int first = thread / kLanes * kLanes; first < values / kEach; first += threads) {
    const int at = first + thread % kLanes;
    float v[kEach] = {};
    if (at < values / kEach)
#pragma unroll
      for (int i = 0; i < kEach; ++i) v[i] = widen(x[at * kEach + i]);
    uint32_t bytes[kEach / 4];
    const ByteBlock block = bytes_of_block(v, bytes);
    if (at >= values / kEach) continue;
    reinterpret_cast<uint2*>(to.bytes)[at] = {bytes[0], bytes[1]};
    if (at % kLanesOfBlock == 0) to.blocks[at / kLanesOfBlock] = block;
  }
}

// Adds the products of `values` values of the lines from `first` on with chunks of `count` rows of x.
template <WeightFormat kFormat, int M>
__device__ __forceinline__ void multiply_bytes(const ByteChunk* chunks, int count,
                                               const Line (&lines)[kLines], int64_t first, int values,
                                               float (&sums)[kLines * M]) {
  constexpr int kEach = kValuesOfPack<kFormat>;
  for (int pack = static_cast<int>(threadIdx.x) % kLanes; pack < values / kEach; pack += kLanes) {
    const int64_t at = first / kEach + pack;
    Words w[kLines];
    uint16_t words[kLines];
#pragma unroll
    for (int r = 0; r < kLines; ++r) {
      w[r] = static_cast<const Words*>(lines[r].data)[at];
      words[r] = lines[r].scales[at * kEach / kQuantBlock];
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (m >= count) break;
      Words bytes[kEach / 16];
#pragma unroll
      for (int i = 0; i < kEach / 16; ++i) bytes[i] = chunks[m].bytes[pack * (kEach / 16) + i];
      const ByteBlock block = chunks[m].blocks[pack * kEach / static_cast<int>(kQuantBlock)];
#pragma unroll
      for (int r = 0; r < kLines; ++r) {
        const WeightBlock<kFormat> of_w(words[r]);
        sums[r * M + m] += dot_block<kFormat>(w[r], bytes, block, of_w) * (of_w.scale * block.scale);
      }
    }
  }
}

#endif

}  // namespace genesis::cuda
